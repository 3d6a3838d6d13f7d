//! Malformed calls, each with the error that Google's clients get.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{at, make, refused};
use crate::v1::support::Api;

const APPEND: &str = "/s1:appendEvent";

/// Returns bodies that are not valid sessions.
fn bad_sessions() -> Vec<Value> {
    vec![
        json!({}),
        json!({"userId": ""}),
        json!({"userId": null}),
        json!({"userId": 1}),
        json!({"userId": "a\u{0}b"}),
        json!({"userId": "x".repeat(600)}),
        json!({"userId": "u1", "bogus": 1}),
        json!({"userId": "u1", "user_id": "u1"}),
        json!({"userId": "u1", "sessionId": "s2"}),
        json!({"session": {"userId": "u1"}}),
        json!({"userId": "u1", "sessionState": []}),
        json!({"userId": "u1", "sessionState": "x"}),
        json!({"userId": "u1", "sessionState": {"a\u{0}": 1}}),
        json!({"userId": "u1", "labels": {"a": 1}}),
        json!({"userId": "u1", "labels": {"": "x"}}),
        json!({"userId": "u1", "labels": []}),
        json!({"userId": "u1", "displayName": {}}),
        json!({"userId": "u1", "displayName": "x".repeat(3000)}),
        json!({"userId": "u1", "ttl": "1h"}),
        json!({"userId": "u1", "ttl": "-1s"}),
        json!({"userId": "u1", "ttl": "0s"}),
        json!({"userId": "u1", "ttl": 7200}),
        json!({"userId": "u1", "ttl": "999999999999s"}),
        json!({"userId": "u1", "ttl": "60s", "expireTime": "2099-01-01T00:00:00Z"}),
        json!({"userId": "u1", "expireTime": "2020-01-01T00:00:00Z"}),
        json!({"userId": "u1", "expireTime": "tomorrow"}),
        json!({"userId": "u1", "expireTime": "1960-01-01T00:00:00Z"}),
        json!({"userId": "u1", "createTime": 5}),
        json!([]),
        json!("x"),
        json!(null),
    ]
}

/// Returns bodies that are not valid events.
fn bad_events() -> Vec<Value> {
    let with = |more: Value| {
        let mut body = json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        json!({}),
        json!({"author": "a"}),
        json!({"timestamp": "2026-01-01T00:00:00Z"}),
        json!({"author": "", "timestamp": "2026-01-01T00:00:00Z"}),
        json!({"author": "a", "timestamp": "2026-01-01"}),
        json!({"author": "a", "timestamp": 1_700_000_000.5}),
        json!({"author": "a", "timestamp": "1960-01-01T00:00:00Z"}),
        json!({"event": with(json!({}))}),
        with(json!({"bogus": 1})),
        with(json!({"invocationId": 1})),
        with(json!({"invocation_id": "i", "invocationId": "i"})),
        with(json!({"content": "x"})),
        with(json!({"content": {"parts": [{"bogus": 1}]}})),
        with(json!({"rawEvent": {"content": {"parts": [1]}}})),
        with(json!({"actions": {"transferAgent": "x", "transferToAgent": "x"}})),
        with(json!({"actions": {"artifactDelta": {"f": 2_147_483_648_u64}}})),
        with(json!({"rawEvent": {"actions": {"artifactDelta": {"f": 2_147_483_648_u64}}}})),
        with(json!({"eventMetadata": {"groundingMetadata": "x"}})),
        with(json!({"eventMetadata": {"grounding_metadata": {"groundingChunks": 5}}})),
        with(json!({"rawEvent": {"groundingMetadata": {"grounding_chunks": {}}}})),
        with(json!({"eventMetadata": {"inputTranscription": "x"}})),
        with(json!({"rawEvent": {"outputTranscription": []}})),
        with(json!({"rawEvent": {"x": (0..119).fold(json!(1), |inner, _| json!([inner]))}})),
        with(json!({"content": {"parts": [{"inlineData": {"data": "not base64!", "mimeType": "a/b"}}]}})),
        with(json!({"actions": []})),
        with(json!({"actions": {"bogus": 1}})),
        with(json!({"actions": {"stateDelta": []}})),
        with(json!({"actions": {"stateDelta": {"a\u{0}": 1}}})),
        with(json!({"actions": {"stateDelta": []}, "rawEvent": {"id": "e"}})),
        with(json!({"actions": {"artifactDelta": {"f": "x"}}})),
        with(json!({"actions": {"artifactDelta": {"f": -1}}})),
        with(json!({"actions": {"escalate": "yes"}})),
        with(json!({"actions": {"transferAgent": 1}})),
        with(json!({"errorCode": 5})),
        with(json!({"eventMetadata": "x"})),
        with(json!({"eventMetadata": {"bogus": 1}})),
        with(json!({"eventMetadata": {"partial": "yes"}})),
        with(json!({"eventMetadata": {"longRunningToolIds": "x"}})),
        with(json!({"eventMetadata": {"customMetadata": []}})),
        with(json!({"eventMetadata": {"customMetadata": {"_compaction": 1}}})),
        with(json!({"eventMetadata": {"bogus": 1}, "rawEvent": {"id": "e"}})),
        with(json!({"rawEvent": "x"})),
        with(json!({"rawEvent": {"content": 1}})),
        with(json!({"rawEvent": {"actions": 1}})),
        with(json!({"rawEvent": {"id": "e"}, "content": {"bogus": 1}})),
        with(json!({"rawEvent": {"content": {}}, "content": {"parts": [{"functionCall": {"bogus": 1}}]}})),
        with(json!({"eventMetadata": {"customMetadata": {"_compaction":
            {"startTimestamp": 1, "endTimestamp": 2, "compactedContent": {}, "bogus": 1}}}})),
        with(json!({"rawEvent": {"id": "a\u{0}b"}})),
        with(json!({"rawEvent": {"id": "x".repeat(600)}})),
    ]
}

#[tokio::test]
async fn what_is_malformed_is_an_invalid_argument_and_changes_nothing() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({"sessionState": {"a": 1}})).await;
    let before = api.ok("GET", &at("/s1"), None).await;
    let mut calls: Vec<(&str, String, Option<Value>)> = Vec::new();
    calls.extend(bad_sessions().into_iter().map(|body| ("POST", at(""), Some(body))));
    calls.extend(bad_events().into_iter().map(|body| ("POST", at(APPEND), Some(body))));
    let user = || Some(json!({"userId": "u1"}));
    for query in
        ["?sessionId=a%20b", "?sessionId=a/b", "?sessionId=a.b", "?sessionId=%C3%A9", "?sessionId=a&session_id=b"]
    {
        calls.push(("POST", at(query), user()));
    }
    calls.push(("POST", at(&format!("?sessionId={}", "x".repeat(600))), user()));
    for query in ["?bogus=1", "?sessionID=x", "?=", "?%ff=1"] {
        for (method, path, body) in [
            ("POST", "", user()),
            ("GET", "", None),
            ("GET", "/s1", None),
            ("DELETE", "/s1", None),
            ("PATCH", "/s1", Some(json!({}))),
            ("GET", "/s1/events", None),
            ("GET", "/s1/operations/1", None),
            ("POST", APPEND, Some(json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z"}))),
        ] {
            calls.push((method, at(&format!("{path}{query}")), body));
        }
    }
    for query in [
        "pageSize=-1",
        "pageSize=x",
        "pageSize=1e3",
        "pageToken=x",
        "pageToken=%F0%9F%98%80",
        "filter=x",
        "filter=x=1",
        "filter=labels=1",
        "filter=(a=1)",
        "filter=-a=1",
        "filter=user_id=1+OR+user_id=2",
        "filter=timestamp%3E%22x%22",
        "filter=%22",
        "orderBy=x",
        "orderBy=timestamp+up",
        "orderBy=update_time,timestamp",
        "orderBy=desc",
    ] {
        calls.extend(["", "/s1/events"].map(|path| ("GET", at(&format!("{path}?{query}")), None)));
    }
    for query in
        ["filter=user_id%3E1", "filter=labels.a.b=1", "filter=user_id.x=1", "filter=timestamp=1", "orderBy=timestamp"]
    {
        calls.push(("GET", at(&format!("?{query}")), None));
    }
    for mask in
        ["bogus", "name", "createTime", "update_time", "sessionState.a", "labels.x", "displayName,", ",", "userId"]
    {
        calls.push(("PATCH", at(&format!("/s1?updateMask={mask}")), Some(json!({"displayName": "x"}))));
    }
    for body in [
        json!({"bogus": 1}),
        json!({"ttl": "x"}),
        json!({"sessionState": 1}),
        json!({"sessionState": {"a\u{0}": 1}}),
        json!({"expireTime": "2020-01-01T00:00:00Z"}),
        json!({"labels": {"": "x"}}),
        json!({"displayName": "x".repeat(3000)}),
    ] {
        calls.push(("PATCH", at("/s1"), Some(body)));
    }
    let mut taken = Vec::new();
    for (method, path, body) in calls {
        let (code, answer) = api.send(method, &path, body.clone()).await;
        let error = &answer["error"];
        let is_refused = code == 400 && error["code"] == 400 && error["status"] == "INVALID_ARGUMENT";
        if !is_refused || error["message"].as_str().is_none_or(|message| message.len() < 10) {
            taken.push(format!("{method} {path} {body:?}: {code} {answer}"));
        }
    }
    assert!(taken.is_empty(), "{} are not refused as they should be:\n{}", taken.len(), taken.join("\n"));
    assert_eq!(api.ok("GET", &at("/s1"), None).await, before);
    assert_eq!(api.ok("GET", &at(""), None).await["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(api.ok("GET", &at("/s1/events"), None).await, json!({}));
}

#[tokio::test]
async fn what_is_no_json_is_an_invalid_argument() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    for (kind, body) in [
        ("application/json", &b""[..]),
        ("application/json", b"  "),
        ("application/json", b"{"),
        ("application/json", b"{\"userId\":\"u1\"}}"),
        ("application/json", b"{\"userId\":\"\xff\"}"),
        ("application/json", b"{\"userId\":\"u1\",\"sessionState\":{\"a\":NaN}}"),
        ("application/json", b"{\"userId\":\"u1\",\"sessionState\":{\"a\":1e400}}"),
        ("application/json", b"{\"userId\":\"u1\",\"sessionState\":{\"a\":18446744073709551616}}"),
        ("application/json", b"{\"userId\":\"\\ud800\"}"),
        ("application/x-www-form-urlencoded", b"userId=u1"),
        ("text/plain", b"{\"userId\":\"u1\"}"),
    ] {
        for (method, path) in [("POST", at("")), ("POST", at(APPEND)), ("PATCH", at("/s1"))] {
            let request = Request::builder().method(method).uri(&path).header("content-type", kind);
            let (status, answer) = api.call(request.body(Body::from(body)).unwrap()).await;
            let found = (status, answer["error"]["code"].as_u64(), answer["error"]["status"].as_str());
            assert_eq!(found, (400, Some(400), Some("INVALID_ARGUMENT")), "{path} {body:?}: {answer}");
        }
    }
    let request = Request::post(at("")).body(Body::from("{\"userId\":\"u1\"}")).unwrap();
    assert_eq!(api.call(request).await.0, 200, "without a type it is JSON");
}

#[tokio::test]
async fn what_is_not_there_is_not_found_in_googles_form() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    let event = || Some(json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z"}));
    let project = "/v1/projects/p/locations/l/reasoningEngines/123";
    for (method, path, body) in [
        ("GET", at("/nope"), None),
        ("DELETE", at("/nope"), None),
        ("PATCH", at("/nope"), Some(json!({}))),
        ("GET", at("/nope/events"), None),
        ("GET", at("/nope/operations/1"), None),
        ("GET", at("/s1/operations/1"), None),
        ("POST", at("/nope:appendEvent"), event()),
        // Paths without a route, and methods that a route does not support.
        ("POST", at("/s1"), event()),
        ("POST", at("/s1:other"), event()),
        ("PUT", at("/s1"), Some(json!({}))),
        ("DELETE", at(""), None),
        ("PATCH", at("/s1/events"), Some(json!({}))),
        ("POST", at("/s1/events"), event()),
        ("GET", at("/s1/events/e1"), None),
        ("GET", at("/"), None),
        ("GET", "/v1beta1".to_owned(), None),
        ("GET", "/v1beta1/".to_owned(), None),
        ("GET", "/v1beta1/nope".to_owned(), None),
        ("GET", "/v1beta1/projects".to_owned(), None),
        ("GET", "/v1beta1/projects/p/locations/l/models".to_owned(), None),
        ("GET", "/v1/projects".to_owned(), None),
        ("GET", "/v1/projects/".to_owned(), None),
        ("GET", "/v1/reasoningEngines/".to_owned(), None),
        ("GET", "/v1/reasoningEngines".to_owned(), None),
        ("GET", project.to_owned(), None),
        ("POST", format!("{project}:query"), Some(json!({}))),
        ("GET", format!("{project}/memories"), None),
        ("TRACE", format!("{project}/sessions"), None),
    ] {
        refused(&api, 404, "NOT_FOUND", method, &path, body).await;
    }
    // The routes of `/v1` beside them answer in their own form.
    let (status, answer) = api.send("GET", "/v1/projections", None).await;
    assert_eq!((status, answer["error"]["kind"].as_str()), (404, Some("not_found")));
}

#[tokio::test]
async fn a_store_that_is_closed_is_told_of() {
    let api = Api::memory().await;
    api.store.sessions.close().await.unwrap();
    // The caller has not closed the store, so this is an internal error.
    refused(&api, 500, "INTERNAL", "GET", &at("/s1"), None).await;
    refused(&api, 500, "INTERNAL", "POST", &at(""), Some(json!({"userId": "u1"}))).await;
}

#[tokio::test]
async fn no_message_shows_a_value_of_the_state() {
    let api = Api::memory().await;
    make(&api, "u1", "s1", json!({})).await;
    let secret = "hunter2";
    for (path, body) in [
        (at(""), json!({"userId": "u1", "sessionState": secret})),
        (at(""), json!({"userId": "u1", "ttl": "1s", "labels": {"a": {"b": secret}}})),
        (at(APPEND), json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "content": secret})),
        (at(APPEND), json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "actions": {"stateDelta": secret}})),
        (at(APPEND), json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "rawEvent": {"partial": secret}})),
    ] {
        let message = refused(&api, 400, "INVALID_ARGUMENT", "POST", &path, Some(body)).await;
        assert!(!message.contains(secret), "{message}");
    }
    let answer = api.router.clone().oneshot(Request::get(at("/s1")).body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert!(!answer.into_body().collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn names_that_there_cannot_be_are_refused_in_googles_form() {
    let api = Api::all().await;
    let long = "x".repeat(600);
    let event = || Some(json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z"}));
    for name in ["%ff", "%00", "a%0ab", "%20", long.as_str()] {
        let engine = format!("/v1/reasoningEngines/{name}/sessions");
        let mut calls = vec![
            ("GET", at(&format!("/{name}")), None),
            ("PATCH", at(&format!("/{name}")), Some(json!({}))),
            ("DELETE", at(&format!("/{name}")), None),
            ("GET", at(&format!("/{name}/events")), None),
            ("POST", at(&format!("/{name}:appendEvent")), event()),
        ];
        if name != "%20" {
            // An engine may have any other name.
            calls.extend([("GET", engine.clone(), None), ("POST", engine, Some(json!({"userId": "u1"})))]);
        }
        for (method, path, body) in calls {
            for api in &api {
                refused(api, 400, "INVALID_ARGUMENT", method, &path, body.clone()).await;
            }
        }
    }
    for api in &api {
        for path in [at("//events"), "/v1/reasoningEngines//sessions".to_owned()] {
            refused(api, 400, "INVALID_ARGUMENT", "GET", &path, None).await;
        }
    }
}
