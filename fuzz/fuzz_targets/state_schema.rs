//! Schemas of the state: a document is a schema or refused; and a delta that breaks it is refused without its values,
//! each time in the same words.
//!
//! The first line is the document, the second the delta.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scratchbook::layer::StateSchema;
use scratchbook::{ErrorKind, StateDelta, json};
use serde_json::Value;

/// Shorter texts are in a message by chance.
const SECRET: usize = 12;

fuzz_target!(|text: &str| {
    let (document, delta) = text.split_once('\n').unwrap_or((text, "{}"));
    let schema = match StateSchema::from_json(document) {
        Ok(schema) => schema,
        Err(error) => return assert_eq!(error.kind(), ErrorKind::InvalidArgument),
    };
    let read: Value = serde_json::from_str(document).expect("a schema is JSON");
    assert_eq!(Some(schema.version()), read["version"].as_u64());
    let Ok(delta) = json::from_str::<StateDelta>(delta) else { return };
    let Err(error) = schema.check_delta(&delta) else { return };
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let message = error.to_string();
    assert_eq!(schema.check_delta(&delta).map_err(|error| error.to_string()), Err(message.clone()));
    for value in delta.iter().filter_map(|(_, change)| change.value()) {
        for secret in texts(value).into_iter().filter(|secret| secret.len() >= SECRET) {
            let is_known = document.contains(secret) || read.to_string().contains(secret);
            let is_name = delta.iter().any(|(key, change)| key.contains(secret) || names(change.value(), secret));
            assert!(!message.contains(secret) || is_known || is_name, "{message}");
        }
    }
});

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Whether a text is in the name of a field, which a message may show.
fn names(value: Option<&Value>, text: &str) -> bool {
    match value {
        Some(Value::Array(items)) => items.iter().any(|item| names(Some(item), text)),
        Some(Value::Object(fields)) => {
            fields.iter().any(|(name, value)| name.contains(text) || names(Some(value), text))
        }
        _ => false,
    }
}
