//! Which requests are refused, and with which errors.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use super::support::{Api, S1};

const SESSIONS: &str = "/v1/apps/shop/users/alice/sessions";

async fn post(api: &Api, content_type: Option<&str>, body: impl Into<Body>) -> (u16, String) {
    let mut request = Request::post(SESSIONS);
    if let Some(content_type) = content_type {
        request = request.header("content-type", content_type);
    }
    let (status, answer) = api.call(request.body(body.into()).unwrap()).await;
    (status, answer["error"]["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_body_is_json_and_said_to_be() {
    let api = Api::memory().await;
    for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonx")]
    {
        let (status, message) = post(&api, content_type, "{}").await;
        assert_eq!(status, 415, "{content_type:?}");
        assert!(message.contains("send 'application/json'"), "{message}");
    }
    for content_type in
        ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json"]
    {
        assert_eq!(post(&api, Some(content_type), "{}").await.0, 201, "{content_type}");
    }
}

#[tokio::test]
async fn bad_json_is_told_with_its_place() {
    let api = Api::memory().await;
    let deep = format!("{{\"state\":{{\"k\":{}1{}}}}}", "[".repeat(5000), "]".repeat(5000));
    for (body, part) in [
        (&b"{\"id\": "[..], "line 1 column 7"),
        (b"", "empty"),
        (b"[]", "JSON object"),
        (b" 5", "JSON object"),
        (b"{\"id\": 5}", "id: "),
        (b"{\"state\": []}", "state: "),
        (b"{\"labels\": {\"a\": 1}}", "labels.a: "),
        (b"{\"events\": [{\"author\": \"a\"}, {\"author\": []}]}", "events[1].author: "),
        (b"{\"state\": {\"k\": 18446744073709551616}}", "64 bits"),
        (b"{\"state\": {\"k\": 1e999}}", "out of range"),
        (b"{\"state\": {\"k\": \"\\ud800\"}}", "hex escape"),
        (b"{\"state\": {\"k\": \"\xff\"}}", "malformed"),
        (b"{\"id\": \"a\", \"id\": \"b\"}", "duplicate field"),
        (b"{\"createTime\": \"soon\"}", "createTime: "),
        (b"{\"state\": {\"k\": \"__ADK_SENTINEL_REMOVED__\"}}", "__ADK_SENTINEL_REMOVED__"),
        (b"{} {}", "trailing"),
        (deep.as_bytes(), "recursion limit"),
    ] {
        let (status, message) = post(&api, Some("application/json"), body.to_vec()).await;
        let shown = String::from_utf8_lossy(body);
        assert_eq!(status, 400, "{shown:.80}: {message}");
        assert!(message.contains(part), "{shown:.80}: {message}");
    }
}

#[tokio::test]
async fn a_message_shows_no_value_of_what_was_sent() {
    let api = Api::memory().await;
    for body in [json!({"createTime": "hunter2"}), json!({"title": ["hunter2"]}), json!({"labels": "hunter2"})] {
        let (status, message) = post(&api, Some("application/json"), body.to_string()).await;
        assert_eq!(status, 400);
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413() {
    let api = Api::memory().await;
    let body = format!("{{\"state\": {{\"k\": \"{}\"}}}}", "x".repeat(18 << 20));
    let (status, message) = post(&api, Some("application/json"), body).await;
    assert_eq!(status, 413, "{message}");
}

#[tokio::test]
async fn bad_names_are_told() {
    let api = Api::memory().await;
    let long = "x".repeat(513);
    for (path, part) in [
        (format!("/v1/apps/shop/users/{long}/sessions/s1"), "at most 512"),
        (format!("/v1/apps/{long}/state"), "at most 512"),
        ("/v1/apps/shop/users/a%0Ab/sessions/s1".to_owned(), "control character"),
        ("/v1/apps/shop/users/alice/sessions/%20".to_owned(), "empty"),
        (format!("{S1}?key=%FF"), "UTF-8"),
    ] {
        let (_, message) = api.refused(400, "GET", &path, None).await;
        assert!(message.contains(part), "{path:.60}: {message}");
    }
}

#[tokio::test]
async fn what_is_no_route_answers_in_the_same_form() {
    let api = Api::memory().await;
    for path in ["/v1", "/v1/", "/v1/nope", "/v1/apps/shop/users/alice/sessions/s1/nope"] {
        let (kind, _) = api.refused(404, "GET", path, None).await;
        assert_eq!(kind, "not_found", "{path}");
    }
    let (kind, _) = api.refused(405, "PUT", S1, None).await;
    assert_eq!(kind, "unsupported");
}
