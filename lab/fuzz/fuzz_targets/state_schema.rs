//! Schemas of the state. A document is a schema or is refused. A store refuses each delta that breaks the schema,
//! stores nothing of it, and shows none of its values. A delta that was accepted is accepted again.
//!
//! The first line of the input is the document, and the rest is the delta.
#![no_main]

mod now;

use libfuzzer_sys::fuzz_target;
use now::now;
use scratchbook::layer::{StateSchema, WithStateSchema};
use scratchbook::state::fold;
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, InMemorySessionService, Result,
    SessionService, StateDelta, json,
};
use serde_json::{Map, Value};

/// Shorter texts may be in a message by chance.
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
    let known = [document.to_owned(), read.to_string()];
    let refused = schema.check_delta(&delta);
    let stored = store(schema, &delta);
    assert!(refused.is_ok() || stored.is_err(), "{refused:?}");
    for error in [refused, stored].into_iter().filter_map(Result::err) {
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::PayloadTooLarge), "{error}");
        shows_no_value(&error.to_string(), &delta, &known);
    }
});

/// Appends the delta to a new session. If it is accepted, appends it once more.
fn store(schema: StateSchema, delta: &StateDelta) -> Result<()> {
    let store = WithStateSchema::new(InMemorySessionService::new()).with_app("app", schema);
    let made = now(store.create_session("app", "alice", CreateSessionConfig::default())).expect("a session");
    let append = || {
        let event = Event::new("agent").with_state_delta(delta.clone());
        now(store.append(made.key(), event, AppendOptions::default()))
    };
    let stored = || {
        let read = now(store.get_session(made.key(), &GetSessionConfig::default())).expect("a read");
        let session = read.expect("the session");
        (serde_json::to_value(session.state()).expect("JSON"), session.events().len())
    };
    let nothing = (Value::Object(Map::new()), 0);
    append().inspect_err(|error| assert_eq!(stored(), nothing, "{error}"))?;
    let mut state = fold(Map::new(), [delta]);
    state.retain(|key, _| !key.starts_with("temp:"));
    assert_eq!(stored(), (Value::Object(state.clone()), 1));
    append().expect("what was accepted is accepted again");
    assert_eq!(stored(), (Value::Object(state), 2));
    Ok(())
}

/// Asserts that no value of the delta is in the message, unless the schema or the name of a field has the same text.
fn shows_no_value(message: &str, delta: &StateDelta, known: &[String]) {
    for value in delta.iter().filter_map(|(_, change)| change.value()) {
        for secret in texts(value).into_iter().filter(|secret| secret.len() >= SECRET) {
            let is_known = known.iter().any(|text| text.contains(secret));
            let is_name = delta.iter().any(|(key, change)| key.contains(secret) || names(change.value(), secret));
            assert!(!message.contains(secret) || is_known || is_name, "{message}");
        }
    }
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether the name of a field contains a text. A message may show such names.
fn names(value: Option<&Value>, text: &str) -> bool {
    match value {
        Some(Value::Array(items)) => items.iter().any(|item| names(Some(item), text)),
        Some(Value::Object(fields)) => {
            fields.iter().any(|(name, value)| name.contains(text) || names(Some(value), text))
        }
        _ => false,
    }
}
