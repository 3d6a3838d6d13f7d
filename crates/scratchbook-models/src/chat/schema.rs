//! Schemas in the form that OpenAI and Anthropic require.

use serde_json::{Map, Value, json};

/// Returns the schema of a tool's arguments. Providers require an object with properties, even if there are none.
pub(super) fn of_arguments(schema: &Value) -> Value {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    fields.insert("type".to_owned(), "object".into());
    if !fields.get("properties").is_some_and(Value::is_object) {
        fields.insert("properties".to_owned(), json!({}));
    }
    fields.into()
}

/// Whether each property of an object has to be in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Properties {
    AsDeclared,
    Required,
}

/// Returns the schema of an answer: objects have no further properties, and references no remarks, which OpenAI refuses.
pub(super) fn of_answer(schema: &Value, properties: Properties) -> Value {
    let Some(fields) = schema.as_object() else {
        return schema.clone();
    };
    if properties == Properties::Required
        && let Some(reference) = fields.get("$ref")
    {
        let definitions = fields.iter().filter(|(name, _)| matches!(name.as_str(), "$defs" | "definitions"));
        let kept = definitions.map(|(name, all)| (name.clone(), each(all, properties)));
        return kept.chain([("$ref".to_owned(), reference.clone())]).collect::<Map<_, _>>().into();
    }
    let mut written = Map::new();
    for (name, value) in fields {
        let (name, value) = match name.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" => (name.as_str(), each(value, properties)),
            // OpenAI has no `oneOf`.
            "oneOf" if !fields.contains_key("anyOf") => ("anyOf", each(value, properties)),
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => (name.as_str(), each(value, properties)),
            "additionalProperties" | "items" | "not" => (name.as_str(), of_answer(value, properties)),
            name => (name, value.clone()),
        };
        written.insert(name.to_owned(), value);
    }
    if written.get("type").is_some_and(|kind| kind == "object") || written.contains_key("properties") {
        written.entry("additionalProperties").or_insert(false.into());
        let names: Option<Vec<_>> =
            written.get("properties").and_then(Value::as_object).map(|all| all.keys().cloned().collect());
        if properties == Properties::Required
            && let Some(names) = names
        {
            written.insert("required".to_owned(), names.into());
        }
    }
    written.into()
}

/// Converts each schema in a list or object.
fn each(schemas: &Value, properties: Properties) -> Value {
    match schemas {
        Value::Array(all) => all.iter().map(|schema| of_answer(schema, properties)).collect(),
        Value::Object(all) => {
            all.iter().map(|(name, schema)| (name.clone(), of_answer(schema, properties))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}
