//! Converts a JSON Schema to the Gemini API's schema of an answer, which follows OpenAPI: without references and the
//! type `null`, and with an order of properties. The result is the same as google-genai's for google-adk.

use serde_json::{Map, Value};

/// Keywords that only explain.
const REMARKS: [&str; 7] = ["$comment", "$id", "$schema", "deprecated", "examples", "readOnly", "writeOnly"];

/// Keywords that are copied unchanged.
const KEPT: [&str; 10] = [
    "default",
    "description",
    "example",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
    "pattern",
];

/// Returns the schema in the API's form; `None` if OpenAPI cannot express it.
pub(super) fn response_schema(schema: &Value) -> Option<Value> {
    let empty = Map::new();
    let definitions = match schema.get("$defs") {
        Some(definitions) => definitions.as_object()?,
        None => &empty,
    };
    Reduction { definitions, open: Vec::new() }.reduce(schema)
}

struct Reduction<'a> {
    definitions: &'a Map<String, Value>,
    /// The definitions around the current value. They show whether a schema contains itself, so that the conversion
    /// ends.
    open: Vec<&'a str>,
}

impl<'a> Reduction<'a> {
    fn reduce(&mut self, schema: &'a Value) -> Option<Value> {
        let fields = schema.as_object()?;
        if let Some(reference) = fields.get("$ref") {
            let name = reference.as_str()?.strip_prefix("#/$defs/")?;
            if self.open.contains(&name) {
                return None;
            }
            let (name, definition) = self.definitions.get_key_value(name)?;
            self.open.push(name);
            let reduced = self.reduce(definition);
            self.open.pop();
            return reduced;
        }
        let mut reduced = Map::new();
        for (name, value) in fields {
            self.field(name, value, &mut reduced)?;
        }
        // An order is only needed for two or more properties.
        if let Some(properties) = reduced.get("properties").and_then(Value::as_object).filter(|all| all.len() > 1)
            && !reduced.contains_key("propertyOrdering")
        {
            let order = properties.keys().cloned().collect();
            reduced.insert("propertyOrdering".to_owned(), order);
        }
        Some(reduced.into())
    }

    fn field(&mut self, name: &str, value: &'a Value, reduced: &mut Map<String, Value>) -> Option<()> {
        let kept = match name {
            _ if REMARKS.contains(&name) || value.is_null() || name == "$defs" => return Some(()),
            _ if KEPT.contains(&name) => value.clone(),
            "type" => return kind(value, reduced),
            "anyOf" => return self.any_of(value.as_array()?, reduced),
            "properties" => {
                let all = value.as_object()?.iter();
                all.map(|(name, schema)| Some((name.clone(), self.reduce(schema)?))).collect::<Option<_>>()?
            }
            "items" => self.reduce(value)?,
            "const" => {
                reduced.insert("enum".to_owned(), vec![value.as_str()?].into());
                return Some(());
            }
            "enum" => value.as_array()?.iter().all(Value::is_string).then(|| value.clone())?,
            "maximum" | "minimum" => value.as_f64()?.into(),
            "nullable" => value.is_boolean().then(|| value.clone())?,
            "required" | "propertyOrdering" => value.is_array().then(|| value.clone())?,
            "title" => value.is_string().then(|| value.clone())?,
            // Allowing any further property is the default; restricting their type cannot be expressed.
            "additionalProperties" => match value {
                Value::Bool(false) => value.clone(),
                _ => return None,
            },
            // The API refuses other formats, so they are dropped.
            "format" => match value.as_str()? {
                "date-time" | "double" | "enum" | "float" | "int32" | "int64" => value.clone(),
                _ => return Some(()),
            },
            _ => return None,
        };
        reduced.insert(name.to_owned(), kept);
        Some(())
    }

    /// Reads `anyOf`: a list of schemas, one of which may be null. If only one other schema is left, it is used
    /// directly.
    fn any_of(&mut self, choices: &'a [Value], reduced: &mut Map<String, Value>) -> Option<()> {
        let is_null = |choice: &Value| choice.get("type").is_some_and(|kind| kind == "null");
        let rest: Vec<_> = choices.iter().filter(|choice| !is_null(choice)).collect();
        let may_be_null = rest.len() < choices.len();
        if may_be_null {
            reduced.insert("nullable".to_owned(), true.into());
        }
        match rest.as_slice() {
            [only] if may_be_null => {
                let Value::Object(fields) = self.reduce(only)? else {
                    return None;
                };
                reduced.extend(fields);
            }
            _ => {
                let all: Option<Vec<_>> = rest.into_iter().map(|choice| self.reduce(choice)).collect();
                reduced.insert("anyOf".to_owned(), all?.into());
            }
        }
        Some(())
    }
}

/// Converts a type: `string` becomes `STRING`, and `["string", "null"]` becomes a nullable `STRING`.
fn kind(value: &Value, reduced: &mut Map<String, Value>) -> Option<()> {
    let kinds = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let (nulls, others): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| *kind == "null");
    if !nulls.is_empty() {
        reduced.insert("nullable".to_owned(), true.into());
    }
    match others.as_slice() {
        [] => {}
        [only] => {
            let name = only.as_str()?.to_ascii_uppercase();
            reduced.insert("type".to_owned(), name.into());
        }
        _ => return None,
    }
    Some(())
}
