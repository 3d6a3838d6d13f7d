//! Generates requests that are more or less valid.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Paths that the server's own document does not contain: ADK's paths, and some that no route serves. Each parameter in
/// braces is replaced by a name.
const UNDOCUMENTED: &[&str] = &[
    "/",
    "/health",
    "/health/ready",
    "/version",
    "/list-apps",
    "/docs",
    "/openapi.json",
    "/metrics",
    "/apps/{app}/app-info",
    "/apps/{app}/users/{user}/memory",
    "/apps/{app}/users/{user}/sessions",
    "/apps/{app}/users/{user}/sessions/{session}",
    "/apps/{app}/users/{user}/sessions/{session}/artifacts",
    "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}",
    "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/{more}",
    "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions",
    "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions/{version}",
    "/apps/{app}/users/{user}/sessions/{session}/artifacts/{artifact}/versions/{version}/metadata",
    "/run",
    "/run_sse",
    "/v1/projects/p/locations/l/reasoningEngines/{app}/sessions",
    "/v1/projects/p/locations/l/reasoningEngines/{app}/sessions/{session}",
    "/v1beta1/reasoningEngines/{app}/sessions/{session}/events",
    "/v1beta1/reasoningEngines/{app}/sessions/{session}/operations/{operation}",
    "/v1beta1/projects/{project}",
    "/nope/{nope}",
    "/v1",
    "/v1/nope",
];

/// The paths at which sessions are created and changed. They are requested more often than the rest. The second name of
/// a path is mostly `u1`.
const SESSIONS: &[&str] = &[
    "/apps/{app}/users/{user}/sessions",
    "/apps/{app}/users/{user}/sessions/{session}",
    "/v1/reasoningEngines/{app}/sessions?sessionId=u1",
    "/v1/reasoningEngines/{app}/sessions/{session}",
    "/v1/reasoningEngines/{app}/sessions/{session}:appendEvent",
];

/// A request, in a form that is readable if a case fails.
#[derive(Clone, Debug)]
pub(super) struct GeneratedRequest {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: Vec<u8>,
}

/// Generates the usual name for a place, or something else.
fn name(usual: &'static str) -> impl Strategy<Value = String> {
    let odd = vec![
        "demo",
        "second",
        "nope",
        "u1",
        "u2",
        "s-1",
        "s-2",
        "%20s-1%20",
        "a%2Fb",
        "%2E%2E",
        "..",
        ".",
        "%zz",
        "%ff",
        "%",
        "%00",
        "%0A",
        "%F0%9F%98%80",
        "user:a",
        "latest",
        "0",
        "-1",
        "18446744073709551616",
        "__adk",
        "%C2%A0",
        ";",
        "*",
        "{session}",
        "versions",
        "metadata",
        "adk-eval-session-1",
    ];
    prop_oneof![
        16 => Just(usual.to_owned()),
        3 => select(odd).prop_map(str::to_owned),
        1 => "[a-z%0-9]{1,8}",
        1 => (500..600usize).prop_map(|length| "x".repeat(length)),
    ]
}

fn path(documented: Vec<String>) -> impl Strategy<Value = String> {
    let all: Vec<_> = UNDOCUMENTED.iter().map(|path| (*path).to_owned()).chain(documented).collect();
    let path = prop_oneof![5 => select(all), 2 => select(SESSIONS).prop_map(str::to_owned)];
    let end = select(vec![
        "",
        "",
        "",
        "",
        "",
        "/",
        "//",
        "?",
        "?detailed=x",
        "?version=99999999999999999999",
        "?a=%ff&&=",
        "?pageSize=-1",
        "?filter=user_id%3D%22u1%22&orderBy=update_time%20desc&pageSize=1",
        "?filter=timestamp%3E1",
        "?filter=timestamp%3E%3D%221970-01-01T00:00:00Z%22&orderBy=timestamp%20desc",
        "?updateMask=sessionState,ttl",
        "?$alt=json&key=x",
        "/x",
    ]);
    let names = [name("demo"), name("u1"), name("s-1"), name("a.txt"), name("0"), name("x")];
    (path, names, end).prop_map(|(path, names, end)| {
        let mut names = names.iter();
        let segments = path.split('/').map(|segment| match segment.strip_prefix('{').and_then(|s| s.split_once('}')) {
            Some((_, rest)) => format!("{}{rest}", names.next().map_or("x", String::as_str)),
            None => segment.to_owned(),
        });
        segments.collect::<Vec<_>>().join("/") + end
    })
}

/// Generates JSON that a client might send, more or less valid.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        select(vec![
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1.5),
            json!(1e300),
            json!(u64::MAX),
            json!(""),
            json!("x"),
            json!("s-1"),
            json!("demo"),
            json!("u1"),
            json!("\0"),
            json!("__ADK_SENTINEL_REMOVED__"),
            json!("é😀"),
            json!("aGk="),
            json!("user"),
            json!("1700000000.5"),
            json!("2026-01-01T00:00:00Z"),
            json!("7s"),
            json!(1_700_000_000_000_u64),
            json!("adk_request_input"),
        ]),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let known = vec![
        "sessionId",
        "session_id",
        "state",
        "events",
        "options",
        "stateDelta",
        "state_delta",
        "appName",
        "userId",
        "newMessage",
        "streaming",
        "parts",
        "role",
        "text",
        "content",
        "author",
        "id",
        "invocationId",
        "timestamp",
        "actions",
        "artifactDelta",
        "longRunningToolIds",
        "partial",
        "functionCall",
        "functionResponse",
        "name",
        "args",
        "inlineData",
        "data",
        "mimeType",
        "customMetadata",
        "__adk_internal_x",
        "filename",
        "artifact",
        "authType",
        "apiKey",
        "compaction",
        "startTimestamp",
        "user:a",
        "app:b",
        "temp:c",
        "a",
        "",
        "thoughtSignature",
        "nodeInfo",
        "path",
        "bogus",
        "ttl",
        "expireTime",
        "sessionState",
        "displayName",
        "labels",
        "eventMetadata",
        "rawEvent",
        "_compaction",
    ];
    prop_oneof![20 => select(known).prop_map(str::to_owned), 1 => any::<String>()]
}

/// Generates a body that is valid, or valid except for one value.
fn nearly_right() -> impl Strategy<Value = Value> {
    let right = select(vec![
        json!({"sessionId": "s-1", "state": {"a": 1, "user:b": 2.5, "app:c": null, "temp:d": []}}),
        json!({"sessionId": "s-2", "state": {"k": 1}, "events": [
            {"author": "user", "content": {"role": "user", "parts": [{"text": "hi"}]}, "id": "e1", "timestamp": 5.5},
            {"author": "demo_agent", "actions": {"stateDelta": {"k": 2, "user:b": 3}, "artifactDelta": {"f": 0}},
             "content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}, "longRunningToolIds": ["x"]}]}),
        json!({"stateDelta": {"a": {"b": [1]}, "user:x": "y", "gone": "__ADK_SENTINEL_REMOVED__"}}),
        json!({"appName": "demo", "userId": "u1", "sessionId": "s-1", "streaming": true, "stateDelta": {"a": 1},
               "newMessage": {"role": "user", "parts": [{"text": "add artifact"}]}, "customMetadata": {"k": 1}}),
        json!({"filename": "a.txt", "artifact": {"inlineData": {"data": "aGk=", "mimeType": "text/plain"}}}),
        json!({"userId": "u1", "sessionState": {"a": 1, "user:b": 2, "temp:d": 1}, "labels": {"a": "b"}, "ttl": "60s"}),
        json!({"author": "user", "invocationId": "i", "timestamp": "2026-01-01T00:00:00.5Z", "actions": {"state_delta": {"a": 1}},
               "eventMetadata": {"customMetadata": {"_compaction": {"startTimestamp": 1, "endTimestamp": 2,
               "compactedContent": {"parts": [{"text": "x"}]}}}}, "rawEvent": {"id": "e", "partial": false}}),
        json!({"filename": "user:b", "artifact": {"text": "x"}, "customMetadata": {"k": "v"}}),
    ]);
    (right, prop::option::of((any::<prop::sample::Index>(), value()))).prop_map(|(mut body, change)| {
        if let Some((index, value)) = change {
            let count = places(&body);
            put(&mut body, &mut index.index(count), &value);
        }
        body
    })
}

fn places(value: &Value) -> usize {
    let below: usize = match value {
        Value::Object(map) => map.values().map(places).sum(),
        Value::Array(items) => items.iter().map(places).sum(),
        _ => 0,
    };
    below + 1
}

/// Replaces the value at the place with this number, counted from the top.
fn put(into: &mut Value, place: &mut usize, value: &Value) -> bool {
    if *place == 0 {
        *into = value.clone();
        return true;
    }
    *place -= 1;
    match into {
        Value::Object(map) => map.values_mut().any(|below| put(below, place, value)),
        Value::Array(items) => items.iter_mut().any(|below| put(below, place, value)),
        _ => false,
    }
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let broken = vec![
        b"".to_vec(),
        b"null".to_vec(),
        b"{".to_vec(),
        b"\xff\xfe{\x00}\x00".to_vec(),
        b"\x1f\x8b\x08\x00".to_vec(),
        b"{\"stateDelta\":{\"a\":NaN}}".to_vec(),
        b"{\"stateDelta\":{\"a\":1e999}}".to_vec(),
        b"{\"stateDelta\":{\"a\":\"\\ud800\"}}".to_vec(),
        b"{\"stateDelta\":{\"a\":\"\xc3\"}}".to_vec(),
        format!("{{\"stateDelta\":{{\"a\":{}}}}}", "9".repeat(400)).into_bytes(),
        "[".repeat(100_000).into_bytes(),
        "{\"a\":".repeat(50_000).into_bytes(),
        nested(90),
        nested(100),
        nested(110),
        nested(127),
    ];
    let text = || nearly_right().prop_map(|body| body.to_string().into_bytes());
    prop_oneof![
        8 => text(),
        4 => value().prop_map(|body| body.to_string().into_bytes()),
        2 => select(broken),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        // A byte of a nearly valid body is changed, or the body ends there.
        2 => (text(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut body, at, byte)| {
            let at = at.index(body.len());
            body[at] = byte;
            body
        }),
        1 => (text(), any::<prop::sample::Index>()).prop_map(|(mut body, at)| {
            body.truncate(at.index(body.len()));
            body
        }),
    ]
}

fn nested(levels: usize) -> Vec<u8> {
    format!("{{\"stateDelta\":{{\"a\":{}{}}}}}", "[".repeat(levels), "]".repeat(levels)).into_bytes()
}

/// Generates a request to any path of the server's document, or to another path.
pub(super) fn sent(documented: Vec<String>) -> impl Strategy<Value = GeneratedRequest> {
    let methods = vec![
        "GET", "GET", "POST", "POST", "POST", "PATCH", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "FOO",
    ];
    let headers = select(vec![
        vec![("content-type", "application/json"), ("host", "127.0.0.1:8000")],
        vec![("content-type", "application/json"), ("host", "127.0.0.1:8000")],
        vec![("content-type", "APPLICATION/vnd.api+JSON; charset=utf-16")],
        vec![("content-type", "text/plain"), ("host", "localhost")],
        vec![("content-type", "application/json"), ("content-encoding", "gzip"), ("last-event-id", "-1")],
        vec![("content-type", "application/json"), ("authorization", "Bearer x"), ("x-forwarded-proto", "\u{7f}, a")],
        vec![("host", "evil.example"), ("origin", "null")],
        vec![],
    ]);
    (select(methods), path(documented), headers, body()).prop_map(|(method, path, headers, body)| GeneratedRequest {
        method,
        path,
        headers,
        body,
    })
}
