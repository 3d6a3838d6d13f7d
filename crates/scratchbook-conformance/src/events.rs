//! Events are stored completely.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::support::{TestApp, assert_refused, saying, unnumbered};
use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::{Event, EventCompaction};
use scratchbook_core::session::CreateSessionConfig;
use scratchbook_core::store::Store;

async fn comes_back(store: &Store, event: Event) {
    let test = TestApp::new(store);
    let sent = serde_json::to_value(&event).unwrap();
    let session = test.create("alice", json!({})).await;
    let committed = test.append(session.key(), event.clone()).await;
    let created = test.try_create("bob", CreateSessionConfig::default().with_events(vec![event])).await;
    let created = match created {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        created => created.expect("create_session").events().last().cloned(),
    };
    let read = test.get(session.key()).await;
    for stored in [&committed.event, read.events().last().unwrap()].into_iter().chain(&created) {
        assert_eq!(serde_json::to_string(stored.as_ref()).unwrap(), sent.to_string());
    }
    assert_eq!(unnumbered(read.events().last()), unnumbered([&committed.event]));
}

/// An event is read with all its fields. Its JSON equals the JSON of the appended event byte by byte.
pub async fn events_come_back_whole(store: &Store) {
    let json = json!({
        "modelVersion": "m-1",
        "content": {"parts": [
            {"text": "thinking \u{0} \u{1f914}", "thought": true, "thoughtSignature": "-_-_"},
            {"text": "said"},
            {"functionCall": {"id": "c1", "args": {"z": 1.0, "a": [null, u64::MAX, -0.5]}, "name": "tool"}},
            {"functionResponse": {"id": "c1", "name": "tool", "response": {"ok": true, "n": i64::MIN}}},
            {"inlineData": {"data": "AAEC_w==", "mimeType": "application/octet-stream"}},
            {"fileData": {"fileUri": "gs://bucket/file", "mimeType": "text/plain"}},
            {"executableCode": {"code": "print(1)", "language": "PYTHON"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
        ], "role": "model"},
        "groundingMetadata": {"chunks": []},
        "partial": false,
        "turnComplete": true,
        "finishReason": "STOP",
        "errorCode": "E",
        "errorMessage": "what went wrong",
        "interrupted": false,
        "customMetadata": {"z": 1, "a": {"null": null}},
        "usageMetadata": {"totalTokenCount": 18},
        "avgLogprobs": -0.1,
        "invocationId": "e-1",
        "author": "agent \u{1f916}",
        "actions": {
            "skipSummarization": true,
            "stateDelta": {"b": 1, "user:a": {"z": 1, "a": 2}, "app:f": 1.0, "null": null},
            "artifactDelta": {"report.txt": 3},
            "transferToAgent": "other",
            "escalate": false,
            "requestedAuthConfigs": {"c1": {"x": 1}},
            "requestedToolConfirmations": {"c1": {"hint": "sure?"}}
        },
        "nodeInfo": {"path": "agent@1"},
        "longRunningToolIds": ["c1", "c2"],
        "branch": "P.C",
        "id": "e",
        "timestamp": 1_795_194_011.317_562_8
    });
    let event = Event::from_json(&json.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&event).unwrap(), json, "the event as it is parsed");
    comes_back(store, event).await;
}

/// Unknown fields of an event and of its parts are kept and returned.
pub async fn unknown_fields_are_kept(store: &Store) {
    let json = json!({"author": "a", "id": "e", "timestamp": 1.5, "zFuture": {"b": 1, "a": [1.0, null]}, "aFuture": "x",
        "actions": {"future": [7, 1.5]},
        "content": {"future": 1, "parts": [{"future": {"b": null}}, {"functionCall": {"name": "f", "future": "x"}}]}});
    let event = Event::from_json(&json.to_string()).unwrap();
    assert_eq!(event.extra().get("zFuture"), Some(&json["zFuture"]));
    comes_back(store, event).await;
    // An unknown field that would change how the event is read cannot be kept.
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let mut delta = saying("hello");
    delta.actions.extra.insert("state_delta".to_owned(), json!({"n": 1}));
    let mut text = saying("hello");
    text.content.get_or_insert_default().parts.get_or_insert_default()[0].extra.insert("text".to_owned(), json!("bye"));
    let mut author = saying("hello");
    author.extra_mut().insert("author".to_owned(), json!("b"));
    for event in [delta, text, author] {
        assert_refused(test.try_append(session.key(), event).await, ErrorKind::InvalidArgument, "a known name");
    }
    assert!(test.get(session.key()).await.events().is_empty());
}

/// The smallest event, one with an empty content, and one without any author come back as they are.
pub async fn small_events_come_back(store: &Store) {
    comes_back(store, Event::default().with_id("e").with_timestamp(0.0)).await;
    comes_back(store, Event::new("a").with_content(Content::default()).with_id("e").with_timestamp(0.5)).await;
    let content = Content::new("user", vec![Part::default()]);
    comes_back(store, Event::new("a").with_content(content).with_id("e").with_timestamp(1.0)).await;
    let mut none_running = Event::new("a").with_id("e").with_timestamp(1.0);
    none_running.long_running_tool_ids = Some(BTreeSet::new());
    comes_back(store, none_running).await;
}

/// A megabyte of bytes inside an event comes back as it was.
pub async fn large_events_come_back(store: &Store) {
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let content = Content::new("user", vec![Part::bytes(bytes, "application/octet-stream")]);
    comes_back(store, Event::new("user").with_content(content).with_id("e").with_timestamp(1.0)).await;
}

/// A number without a JSON form is `InvalidArgument` anywhere in an event, never silently null.
pub async fn numbers_without_json_are_refused(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut event = saying("hello");
        event.avg_logprobs = Some(bad);
        assert_refused(test.try_append(session.key(), event).await, ErrorKind::InvalidArgument, "avg_logprobs");
        for (start, end) in [(bad, 1.0), (1.0, bad)] {
            let mut event = saying("hello");
            event.actions.compaction = Some(EventCompaction::new(start, end, Content::model("summary")).into());
            assert_refused(test.try_append(session.key(), event).await, ErrorKind::InvalidArgument, "a compaction");
        }
    }
    assert!(test.get(session.key()).await.events().is_empty());
}

/// An event nested too deeply to be read back is `InvalidArgument`, wherever the nesting is.
pub async fn events_too_deep_are_refused(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let deep = (0..200).fold(json!(1), |value: Value, _| json!([value]));
    let mut in_metadata = saying("hello");
    in_metadata.custom_metadata = json!({ "deep": deep }).as_object().cloned().map(Box::new);
    let mut in_output = saying("hello");
    in_output.output = Some(deep.clone().into());
    let args = json!({ "deep": deep }).as_object().cloned().unwrap();
    let in_args = Event::new("a").with_content(Content::new("model", vec![Part::function_call("tool", args)]));
    for event in [in_metadata, in_output, in_args] {
        assert_refused(test.try_append(session.key(), event).await, ErrorKind::InvalidArgument, "a deep event");
    }
    assert!(test.get(session.key()).await.events().is_empty());
}

/// If a value is optional, `null` and absent are the same: the result of an append equals a later read.
pub async fn an_optional_null_is_absent(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let mut event = saying("hi");
    event.output = Some(Value::Null.into());
    event.usage_metadata = Some(Value::Null.into());
    event.actions.route = Some(Value::Null.into());
    let committed = test.append(session.key(), event).await;
    let read = test.get(session.key()).await;
    assert_eq!(unnumbered(read.events().last()), unnumbered([&committed.event]));
    assert_eq!((&committed.event.output, &committed.event.actions.route), (&None, &None));
}
