//! JSON Schemas, reduced to what ADK's conformance tests compare.

use serde_json::{Map, Value};

/// Fields that are not compared.
const IGNORED: [&str; 3] = ["title", "default", "description"];

/// The maximum depth at which references are followed. Schemas may refer to themselves.
const MAX_DEPTH: usize = 32;

/// Returns a schema without titles, defaults and descriptions, with references replaced by what they refer to, and with
/// types in lower case.
pub(super) fn reduced(schema: &Value) -> Value {
    let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut reduced = part(schema, &definitions, 0);
    if let Some(fields) = reduced.as_object_mut() {
        fields.shift_remove("$defs");
    }
    reduced
}

fn part(value: &Value, definitions: &Map<String, Value>, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    match value {
        Value::Array(items) => items.iter().map(|item| part(item, definitions, depth + 1)).collect(),
        Value::Object(fields) => object(fields, definitions, depth),
        other => other.clone(),
    }
}

fn object(fields: &Map<String, Value>, definitions: &Map<String, Value>, depth: usize) -> Value {
    let referred = fields.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
    let mut reduced = match referred.and_then(|name| definitions.get(name)) {
        Some(target) => match part(target, definitions, depth + 1) {
            Value::Object(target) => target,
            other => return other,
        },
        None => Map::new(),
    };
    for (name, value) in fields {
        if IGNORED.contains(&name.as_str()) || (name == "$ref" && referred.is_some()) {
            continue;
        }
        let value = match (name.as_str(), value) {
            ("type", Value::String(kind)) => kind.to_lowercase().into(),
            (_, value) => part(value, definitions, depth + 1),
        };
        reduced.insert(name.clone(), value);
    }
    without_null(reduced).into()
}

/// Writes a type that may be null as `nullable`.
fn without_null(mut fields: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Array(kinds)) = fields.get("anyOf") else {
        return fields;
    };
    let (nulls, others): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| kind["type"] == "null");
    let [Value::Object(other)] = others[..] else {
        return fields;
    };
    if nulls.is_empty() {
        return fields;
    }
    let other = other.clone();
    fields.shift_remove("anyOf");
    fields.extend(other);
    fields.insert("nullable".to_owned(), true.into());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_says_the_same_is_the_same() {
        let python = json!({
            "$defs": {"Room": {"type": "STRING", "title": "Room"}},
            "title": "Book",
            "properties": {"room": {"$ref": "#/$defs/Room"}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        });
        let rust = json!({"properties": {"room": {"type": "string"}, "note": {"type": "string", "nullable": true}}});
        assert_eq!(reduced(&python), reduced(&rust));
        assert_ne!(reduced(&python), reduced(&json!({"properties": {"room": {"type": "string"}}})));
    }

    #[test]
    fn a_schema_that_refers_to_itself_has_an_end() {
        let list =
            json!({"$defs": {"List": {"properties": {"next": {"$ref": "#/$defs/List"}}}}, "$ref": "#/$defs/List"});
        assert!(reduced(&list).is_object());
    }
}
