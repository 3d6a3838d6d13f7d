//! Events as JSON: ADK's own output, both spellings of names, and what is kept or refused.

use proptest::prelude::*;
use scratchbook::state::REMOVED;
use scratchbook::{ErrorKind, Event};
use serde_json::{Map, Value, json};

use crate::generate::{cases, changes, delta, value};

/// Events as ADK for Python wrote them, recorded from its API server.
const RECORDED: &[(&str, &str)] = &[
    ("artifact", include_str!("testdata/artifact.json")),
    ("custom_metadata", include_str!("testdata/custom_metadata.json")),
    ("error", include_str!("testdata/error.json")),
    ("final_text", include_str!("testdata/final_text.json")),
    ("function_call", include_str!("testdata/function_call.json")),
    ("function_response", include_str!("testdata/function_response.json")),
    ("partial", include_str!("testdata/partial.json")),
    ("state_change", include_str!("testdata/state_change.json")),
    ("user_message", include_str!("testdata/user_message.json")),
];

fn text(event: &Event) -> String {
    serde_json::to_string(event).unwrap()
}

#[track_caller]
fn refused(json: &str) -> String {
    match Event::from_json(json) {
        Ok(event) => panic!("{json} was read as {event:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            format!("{error}")
        }
    }
}

#[test]
fn adks_own_events_come_back_byte_for_byte() {
    for (name, recorded) in RECORDED {
        let event = Event::from_json(recorded).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(text(&event), recorded.trim_end(), "{name}");
    }
}

#[test]
fn the_events_say_what_adk_said() {
    let read = |name: &str| {
        let (_, recorded) = RECORDED.iter().find(|(n, _)| *n == name).unwrap();
        Event::from_json(recorded).unwrap()
    };
    assert!(read("partial").is_partial() && !read("partial").is_final_response());
    assert!(read("final_text").is_final_response());
    assert!(read("error").is_final_response() && read("error").error_code.is_some());
    assert_eq!(read("function_call").function_calls().count(), 1);
    assert!(!read("function_call").is_final_response());
    assert_eq!(read("function_response").function_responses().count(), 1);
    assert!(read("function_response").actions.state_delta.contains("user:theme"));
    assert_eq!(read("artifact").actions.artifact_delta.get("note.txt"), Some(&0));
    assert_eq!(read("user_message").author, "user");
}

/// Spells the names of an event's fields in snake case. The user's own names stay unchanged.
fn snake(value: &Value) -> Value {
    const FREE: &[&str] = &["stateDelta", "artifactDelta", "args", "response", "customMetadata", "usageMetadata"];
    match value {
        Value::Array(items) => items.iter().map(snake).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let value = if FREE.contains(&key.as_str()) { value.clone() } else { snake(value) };
                    let parts = key
                        .chars()
                        .flat_map(|c| if c.is_uppercase() { vec!['_', c.to_ascii_lowercase()] } else { vec![c] });
                    (parts.collect(), value)
                })
                .collect(),
        ),
        other => other.clone(),
    }
}

#[test]
fn snake_case_gives_the_same_event() {
    for (name, recorded) in RECORDED {
        let snaked = snake(&serde_json::from_str(recorded).unwrap()).to_string();
        assert!(snaked.contains("invocation_id"), "{snaked}");
        assert_eq!(Event::from_json(&snaked).unwrap(), Event::from_json(recorded).unwrap(), "{name}");
    }
}

#[test]
fn unknown_fields_of_an_event_are_kept() {
    let json = json!({"author": "a", "zNew": {"b": 1.0, "a": [u64::MAX, null]}, "a_new": "x", "seq": 3});
    let event = Event::from_json(&json.to_string()).unwrap();
    assert_eq!(event.seq, None, "the store's number is not read from JSON");
    let written: Value = serde_json::from_str(&text(&event)).unwrap();
    for field in ["zNew", "a_new", "seq"] {
        assert_eq!(written[field], json[field]);
        assert_eq!(event.extra().get(field), Some(&json[field]));
    }
    assert_eq!(Event::from_json(&text(&event)).unwrap(), event);
}

#[test]
fn unknown_fields_inside_actions_and_content_are_kept_and_can_be_refused() {
    for (json, name) in [
        (json!({"actions": {"stateDelat": {}}}), "stateDelat"),
        (json!({"content": {"prats": []}}), "prats"),
        (json!({"content": {"parts": [{"txet": "x"}]}}), "txet"),
        (json!({"content": {"parts": [{"functionCall": {"nmae": "x"}}]}}), "nmae"),
        (json!({"content": {"parts": [{"functionResponse": {"anwser": {}}}]}}), "anwser"),
        (json!({"content": {"parts": [{"text": "x"}, {"inlineData": {"dtaa": ""}}]}}), "dtaa"),
        (json!({"content": {"parts": [{"fileData": {"uri": ""}}]}}), "uri"),
        (json!({"content": {"parts": [{"executableCode": {"cdoe": ""}}]}}), "cdoe"),
        (json!({"content": {"parts": [{"codeExecutionResult": {"outptu": ""}}]}}), "outptu"),
        (
            json!({"actions": {"compaction": {"startTimestamp": 1.0, "endTimestamp": 2.0, "compactedContent": {}, "sum": 1}}}),
            "sum",
        ),
        (
            json!({"actions": {"compaction": {"startTimestamp": 1.0, "endTimestamp": 2.0,
                "compactedContent": {"parts": [{"functionCall": {"x": 1}}]}}}}),
            "x",
        ),
    ] {
        let event = Event::from_json(&json.to_string()).unwrap();
        let written: Value = serde_json::from_str(&text(&event)).unwrap();
        assert!(written.to_string().contains(&format!("{name:?}:")), "{name} is to be given back: {written}");
        is_a_fixpoint(&event).unwrap();
        let error = event.check_known().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(name), "the message is to name {name}: {error}");
        let known = event.known();
        known.check_known().unwrap();
        assert!(!text(&known).contains(&format!("{name:?}:")), "{name} is to be left out: {}", text(&known));
    }
}

#[test]
fn malformed_json_is_refused() {
    for bad in [
        "",
        "{",
        "null",
        "[]",
        "1",
        "\"text\"",
        "{\"author\":}",
        "{} {}",
        "{\"author\":\"a\",\"author\":\"b\"}",
        "{\"invocationId\":\"a\",\"invocation_id\":\"b\"}",
        "{\"author\":1}",
        "{\"partial\":\"yes\"}",
        "{\"actions\":[]}",
        "{\"actions\":{\"stateDelta\":[]}}",
        "{\"actions\":{\"artifactDelta\":{\"f\":-1}}}",
        "{\"content\":\"text\"}",
        "{\"content\":[[{\"text\":\"x\"}],\"user\"]}",
        "{\"content\":{\"parts\":[[]]}}",
        "{\"content\":{\"parts\":[{\"functionCall\":[\"id\"]}]}}",
        "{\"nodeInfo\":[\"path\"]}",
        "{\"content\":{\"parts\":[{\"inlineData\":{\"data\":\"%%%\"}}]}}",
        "{\"author\":\"\u{0}\"}",
        "{\"author\":\"\\ud800\"}",
        "{\"timestamp\":\"now\"}",
    ] {
        refused(bad);
    }
    let deep = format!("{{\"output\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    refused(&deep);
}

#[test]
fn numbers_that_would_change_are_refused() {
    for bad in
        ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890", "1e400", "NaN", "Infinity"]
    {
        for at in ["{\"actions\":{\"stateDelta\":{\"n\":#}}}", "{\"customMetadata\":{\"n\":[#]}}", "{\"new\":#}"] {
            refused(&at.replace('#', bad));
        }
    }
    for good in ["18446744073709551615", "-9223372036854775808", "1.0", "-0.0", "0.1", "1e300", "5e-324", "null"] {
        let json = "{\"actions\":{\"stateDelta\":{\"n\":#}}}".replace('#', good);
        let event = Event::from_json(&json).unwrap();
        let number: Value = serde_json::from_str(good).unwrap();
        assert_eq!(event.actions.state_delta.get("n").unwrap().value().unwrap().to_string(), number.to_string());
    }
}

#[test]
fn bad_keys_and_times_are_refused() {
    let long = "k".repeat(1025);
    for key in ["a\0b", long.as_str()] {
        refused(&json!({"actions": {"stateDelta": {key: 1}}}).to_string());
    }
    for time in [json!(-1), json!(1_795_194_011_317_u64), json!(253_402_300_800_u64)] {
        refused(&json!({"timestamp": time}).to_string());
    }
}

#[test]
fn a_removal_is_the_sentinel_and_null_is_a_value() {
    let json = json!({"actions": {"stateDelta": {"a": REMOVED, "b": null, "user:c": [REMOVED]}}});
    let event = Event::from_json(&json.to_string()).unwrap();
    let delta = &event.actions.state_delta;
    assert_eq!(delta.get("a"), Some(&scratchbook::state::Change::Remove));
    assert_eq!(delta.get("b"), Some(&scratchbook::state::Change::Set(Value::Null)));
    assert_eq!(serde_json::to_value(delta).unwrap(), json["actions"]["stateDelta"]);
}

#[test]
fn bytes_are_read_from_both_base64_alphabets() {
    for data in ["-_-_AA==", "+/+/AA==", "-_-_AA", "+/+/AA"] {
        let json = json!({"content": {"parts": [{"inlineData": {"data": data, "mimeType": "x/y"}}]}});
        let event = Event::from_json(&json.to_string()).unwrap();
        let blob = event.content.as_ref().unwrap().parts()[0].inline_data.clone().unwrap();
        assert_eq!(blob.data.unwrap(), [0xfb, 0xff, 0xbf, 0]);
        assert!(text(&event).contains("-_-_AA=="), "{}", text(&event));
    }
}

/// Checks that an event that is written and read again is equal, and is written in the same way.
fn is_a_fixpoint(event: &Event) -> Result<(), TestCaseError> {
    let written = text(event);
    let again = Event::from_json(&written);
    prop_assert!(again.is_ok(), "{} is written and not read: {:?}", written, again);
    prop_assert_eq!(text(&again.unwrap()), written);
    Ok(())
}

fn event_json() -> impl Strategy<Value = Value> {
    (changes(), value(), any::<String>(), prop::option::of(0.0..2e9_f64), any::<bool>(), value()).prop_map(
        |(changes, metadata, said, time, camel, extra)| {
            let mut json = json!({
                "author": said,
                "actions": {"stateDelta": delta(&changes), "escalate": camel},
                "content": {"parts": [{"text": said}, {"functionCall": {"name": "t", "args": {"x": metadata}}}]},
                "customMetadata": {"m": metadata},
                "output": metadata,
                "new": extra,
            });
            if let Some(time) = time {
                json["timestamp"] = json!(time);
            }
            if camel { json } else { snake(&json) }
        },
    )
}

/// Replaces the value at a path, or removes it.
fn mutate(value: &mut Value, path: &[u8], new: Option<&Value>) {
    let Some((step, rest)) = path.split_first() else {
        *value = new.cloned().unwrap_or(Value::Null);
        return;
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            let name = map.keys().nth(usize::from(*step) % map.len()).unwrap().clone();
            match (rest, new) {
                ([], None) => drop(map.shift_remove(&name)),
                _ => mutate(&mut map[&name], rest, new),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = usize::from(*step) % items.len();
            mutate(&mut items[at], rest, new);
        }
        other => *other = new.cloned().unwrap_or(Value::Null),
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_bytes_are_an_event_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(event) = Event::from_json(&String::from_utf8_lossy(&bytes)) {
            is_a_fixpoint(&event)?;
        }
    }

    #[test]
    fn damaged_text_is_an_event_or_an_error(
        which in 0..RECORDED.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), "[\\[\\]{}\",:0-9eE.\\-a-z\u{0}\u{1f4a5}]{0,3}"), 1..4),
    ) {
        let mut chars: Vec<char> = RECORDED[which].1.chars().collect();
        for (at, new) in cuts {
            let at = at.index(chars.len());
            chars.splice(at..=at, new.chars());
        }
        if let Ok(event) = Event::from_json(&chars.into_iter().collect::<String>()) {
            is_a_fixpoint(&event)?;
        }
    }

    #[test]
    fn damaged_events_are_an_event_or_an_error(
        mut json in event_json(),
        path in prop::collection::vec(any::<u8>(), 1..6),
        new in prop::option::of(value()),
    ) {
        mutate(&mut json, &path, new.as_ref());
        if let Ok(event) = Event::from_json(&json.to_string()) {
            is_a_fixpoint(&event)?;
        }
    }

    #[test]
    fn whole_events_come_back_to_the_last_bit(json in event_json()) {
        let event = Event::from_json(&json.to_string()).unwrap();
        is_a_fixpoint(&event)?;
        let written: Map<String, Value> = serde_json::from_str(&text(&event)).unwrap();
        let sent = json.as_object().unwrap();
        for (field, camel) in [("new", "new"), ("output", "output"), ("author", "author"), ("customMetadata", "customMetadata")] {
            let sent = sent.get(field).or_else(|| sent.get("custom_metadata")).unwrap();
            if !sent.is_null() || field == "new" {
                prop_assert_eq!(written[camel].to_string(), sent.to_string());
            }
        }
    }
}
