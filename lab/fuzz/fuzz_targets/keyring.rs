//! Keyrings. A plain reading of an accepted keyring's JSON finds the same keys, and neither an error nor `Debug` shows
//! a key.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use scratchbook::ErrorKind;
use scratchbook::layer::Keyring;
use serde_json::Value;

/// Shorter texts may be in a message by chance.
const SECRET: usize = 12;

fuzz_target!(|text: &str| {
    let document: Option<Value> = serde_json::from_str(text).ok();
    let shown = match Keyring::from_json(text) {
        Ok(ring) => {
            let document = document.as_ref().expect("a keyring is JSON");
            let keys = document["keys"].as_object().expect("a keyring has keys");
            assert_eq!(Some(ring.current()), document["current"].as_str());
            assert!(keys.contains_key(ring.current()));
            assert!(document.as_object().is_some_and(|fields| fields.len() == 2));
            for (id, key) in keys {
                assert!(ring.contains(id) && id.len() <= 64 && id.is_ascii());
                let bytes = STANDARD.decode(key.as_str().expect("a key is text").trim());
                assert_eq!(bytes.expect("a key is base64").len(), 32);
            }
            format!("{ring:?}")
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            format!("{error} {error:?}")
        }
    };
    let Some(keys) = document.as_ref().and_then(|document| document.get("keys")) else { return };
    let names = names(document.as_ref());
    for secret in texts(keys).into_iter().filter(|secret| secret.len() >= SECRET) {
        assert!(!shown.contains(secret) || names.iter().any(|name| name.contains(secret)), "{shown}");
    }
});

/// Returns what an error may show: the names of all fields, and the id of the current key.
fn names(document: Option<&Value>) -> Vec<&str> {
    let mut names: Vec<_> = document.and_then(|it| it["current"].as_str()).into_iter().collect();
    let mut rest: Vec<&Value> = document.into_iter().collect();
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(fields) => {
                names.extend(fields.keys().map(String::as_str));
                rest.extend(fields.values());
            }
            _ => {}
        }
    }
    names
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}
