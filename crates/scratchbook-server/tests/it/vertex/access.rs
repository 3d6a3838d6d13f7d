//! Who can log in, and what a caller that is restricted to a user sees.

use std::num::NonZeroU32;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use scratchbook::{CreateSessionConfig, connect};
use scratchbook_server::{Login, NewToken, RateLimit, Right, Server, ServerLimits};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use super::{at, ids};

/// A server and its named tokens: one for everything, one for a user, one for another app, and one that may only write.
struct AccessServer {
    router: Router,
    tokens: Vec<(&'static str, String)>,
    _folder: TempDir,
}

impl AccessServer {
    async fn new() -> Self {
        let store = connect("memory:").await.unwrap();
        for (user, id) in [("u1", "s-1"), ("u2", "s-2"), ("u2", "both"), ("u1", "both")] {
            let config = CreateSessionConfig::default().with_session_id(id).with_state(json!({"of": user}));
            store.sessions.create_session("123", user, config).await.unwrap();
        }
        let token = |name| NewToken::new(name).with_app("123").with_rights(Right::ALL);
        let made = [
            ("all", token("all")),
            ("u1", token("u1").with_user("u1")),
            ("other", NewToken::new("other").with_app("124").with_rights(Right::ALL)),
            ("writer", token("writer").with_rights([Right::Write])),
        ];
        let made = made.map(|(name, token)| (name, token.make().unwrap()));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.toml");
        std::fs::write(&file, made.each_ref().map(|(_, made)| made.entry().to_owned()).join("\n")).unwrap();
        let server = Server::builder(store).login(Login::new().with_tokens(file)).build().unwrap();
        let tokens = made.iter().map(|(name, made)| (*name, made.secret().to_owned())).collect();
        Self { router: server.router(), tokens, _folder: folder }
    }

    async fn send(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let (_, secret) = self.tokens.iter().find(|(name, _)| *name == token).unwrap();
        let header = ("authorization", format!("Bearer {secret}"));
        send(&self.router, method, path, &[header], &body.map(|body| body.to_string()).unwrap_or_default()).await
    }
}

async fn send(router: &Router, method: &str, path: &str, headers: &[(&str, String)], body: &str) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

fn status(answer: &Value) -> &str {
    answer["error"]["status"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_token_comes_as_a_bearer_or_as_a_key() {
    let world = AccessServer::new().await;
    let secret = &world.tokens[0].1;
    let get = async |headers: &[(&str, String)]| send(&world.router, "GET", &at("/s-1"), headers, "").await;
    let (bearer, key) = (("authorization", format!("Bearer {secret}")), ("x-goog-api-key", secret.clone()));
    assert_eq!(get(std::slice::from_ref(&bearer)).await.0, 200);
    assert_eq!(get(std::slice::from_ref(&key)).await.0, 200);
    assert_eq!(get(&[bearer.clone(), ("x-goog-api-key", "another".to_owned())]).await.0, 200, "a bearer comes first");
    for headers in [
        vec![],
        vec![("x-goog-api-key", "wrong".to_owned())],
        vec![key.clone(), key.clone()],
        vec![("authorization", "Bearer wrong".to_owned()), key.clone()],
    ] {
        let (code, answer) = get(&headers).await;
        assert_eq!(
            (code, status(&answer), &answer["error"]["code"]),
            (401, "UNAUTHENTICATED", &json!(401)),
            "{answer}"
        );
    }
    // A key in the address would appear in every log, and other surfaces accept no keys.
    let (code, answer) = send(&world.router, "GET", &at(&format!("/s-1?key={secret}")), &[], "").await;
    assert_eq!(code, 401);
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("'x-goog-api-key: TOKEN'") && said.contains("('?key=') is ignored"), "{said}");
    assert!(!said.contains(secret.as_str()), "{said}");
    let (code, answer) = send(&world.router, "GET", "/v1/apps/123/sessions", &[key], "").await;
    assert_eq!(code, 401);
    assert_eq!(answer["error"]["message"], "this takes a token: send 'Authorization: Bearer TOKEN'");
}

#[tokio::test]
async fn a_caller_of_one_user_sees_that_users_sessions_as_if_there_were_no_others() {
    let world = AccessServer::new().await;
    let listed = async |token: &str, query: &str| {
        let (code, answer) = world.send(token, "GET", &at(query), None).await;
        assert_eq!(code, 200, "{answer}");
        let mut found = ids(&answer, "sessions");
        found.sort();
        found
    };
    assert_eq!(listed("all", "").await, ["both", "both", "s-1", "s-2"]);
    assert_eq!(listed("u1", "").await, ["both", "s-1"]);
    assert_eq!(listed("u1", "?filter=user_id=u1").await, ["both", "s-1"]);
    assert_eq!(listed("u1", "?filter=user_id=u2").await, [""; 0]);
    assert_eq!(listed("u1", "?filter=user_id=nobody").await, [""; 0]);
    // If two users have a session with the same id, each of them reaches their own.
    let (code, answer) = world.send("u1", "GET", &at("/both"), None).await;
    assert_eq!((code, &answer["sessionState"]["of"]), (200, &json!("u1")));
    let (code, answer) = world.send("all", "GET", &at("/both"), None).await;
    assert_eq!((code, status(&answer)), (400, "FAILED_PRECONDITION"));
    let (code, missing) = world.send("u1", "GET", &at("/s-9"), None).await;
    let (other, answer) = world.send("u1", "GET", &at("/s-2"), None).await;
    assert_eq!((code, other), (404, 404));
    assert_eq!(answer.to_string(), missing.to_string().replace("s-9", "s-2"));
    for (path, body) in [("", json!({"userId": "u2"})), ("?sessionId=s-3", json!({"userId": "u2"}))] {
        let (code, answer) = world.send("u1", "POST", &at(path), Some(body)).await;
        assert_eq!((code, status(&answer)), (404, "NOT_FOUND"));
    }
    // The server cannot hide that an id is taken, but it hides who has it.
    let (code, answer) = world.send("u1", "POST", &at("?sessionId=s-2"), Some(json!({"userId": "u1"}))).await;
    assert_eq!((code, status(&answer)), (409, "ALREADY_EXISTS"));
    assert!(!answer.to_string().contains("u2"), "{answer}");
    let (code, answer) = world.send("other", "GET", &at(""), None).await;
    assert_eq!((code, status(&answer)), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn who_may_only_write_is_told_names_and_no_values() {
    let world = AccessServer::new().await;
    for (method, path) in [("GET", "/s-1"), ("GET", ""), ("GET", "/s-1/events"), ("GET", "/s-1/operations/1")] {
        let (code, answer) = world.send("writer", method, &at(path), None).await;
        assert_eq!((code, status(&answer)), (403, "PERMISSION_DENIED"), "{path}: {answer}");
    }
    let (code, answer) = world.send("writer", "PATCH", &at("/s-1"), Some(json!({"labels": {"a": "b"}}))).await;
    assert_eq!((code, &answer["userId"]), (200, &json!("u1")));
    assert!(answer["sessionState"].is_null() && answer["labels"].is_null(), "{answer}");
    let app = json!({"userId": "u1", "sessionState": {"app:x": 1}});
    for (method, path, body) in [
        ("POST", "", app.clone()),
        ("PATCH", "/s-1", app),
        (
            "POST",
            "/s-1:appendEvent",
            json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "actions": {"stateDelta": {"app:x": 1}}}),
        ),
    ] {
        let (code, answer) = world.send("writer", method, &at(path), Some(body)).await;
        assert_eq!((code, status(&answer)), (403, "PERMISSION_DENIED"), "{path}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("'app:x'"), "{answer}");
    }
}

#[tokio::test]
async fn limits_are_told_of_in_googles_form() {
    let store = connect("memory:").await.unwrap();
    let limits = ServerLimits::default().with_body_bytes(100).with_rate(RateLimit::per_second(NonZeroU32::MIN));
    let router = Server::builder(store).limits(limits).build().unwrap().router();
    let (code, answer) = send(&router, "POST", &at(""), &[], &" ".repeat(200)).await;
    let error = &answer["error"];
    assert_eq!((code, &error["code"], &error["status"]), (413, &json!(413), &json!("INVALID_ARGUMENT")), "{answer}");
    let (code, answer) = send(&router, "GET", &at(""), &[], "").await;
    let error = &answer["error"];
    assert_eq!((code, &error["code"], &error["status"]), (429, &json!(429), &json!("RESOURCE_EXHAUSTED")), "{answer}");
}

#[tokio::test]
async fn a_foreign_page_is_told_of_in_googles_form() {
    let router = Server::builder(connect("memory:").await.unwrap()).build().unwrap().router();
    let foreign = ("origin", "http://elsewhere.example".to_owned());
    let (code, answer) = send(&router, "GET", &at(""), &[foreign], "").await;
    assert_eq!((code, status(&answer), &answer["error"]["code"]), (403, "PERMISSION_DENIED", &json!(403)), "{answer}");
}
