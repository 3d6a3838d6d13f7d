//! What callers may do, and what they learn about others.

use axum::body::Body;
use axum::http::Request;
use scratchbook_server::{Login, NewToken, Right};
use serde_json::{Value, json};

use super::support::{Api, S1, server_builder};

/// A server that requires a login, and some tokens.
struct GuardedApi {
    api: Api,
    admin: String,
    alice: String,
    writer: String,
    _folder: tempfile::TempDir,
}

impl GuardedApi {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = |name: &str, user: Option<&str>, rights: &[Right]| {
            let mut token = NewToken::new(name).with_app("shop").with_rights(rights.to_vec());
            if let Some(user) = user {
                token = token.with_user(user);
            }
            token.make().unwrap()
        };
        let admin = token("admin", None, &[Right::Read, Right::Write, Right::App, Right::Admin]);
        let alice = token("alice", Some("alice"), &[Right::Read, Right::Write]);
        let writer = token("writer", Some("alice"), &[Right::Write]);
        let path = folder.path().join("tokens.toml");
        std::fs::write(&path, [&admin, &alice, &writer].map(|token| token.entry()).concat()).unwrap();
        let mut api = Api::memory().await;
        api.router = server_builder(&api.store).login(Login::new().with_tokens(path)).build().unwrap().router();
        let [admin, alice, writer] = [admin, alice, writer].map(|token| format!("Bearer {}", token.secret()));
        let guarded = Self { api, admin, alice, writer, _folder: folder };
        for user in ["alice", "bob"] {
            let sessions = format!("/v1/apps/shop/users/{user}/sessions");
            let (status, _) =
                guarded.send(&guarded.admin, "POST", &sessions, Some(json!({"id": "s1", "state": {"k": 1}}))).await;
            assert_eq!(status, 201);
        }
        guarded
    }

    async fn send(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("authorization", token);
        let request = request.header("content-type", "application/json");
        let body = body.map_or_else(Body::empty, |body| body.to_string().into());
        self.api.call(request.body(body).unwrap()).await
    }
}

#[tokio::test]
async fn every_route_of_another_user_or_of_the_whole_app_is_not_there() {
    let guarded = GuardedApi::new().await;
    let document = guarded.send(&guarded.alice, "GET", "/openapi.json", None).await.1;
    let mut count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_ours = path.starts_with("/v1/") && !path.contains("/reasoningEngines/");
            if !is_ours || path == "/v1/prune-expired" {
                continue;
            }
            let path = path.replace("{app}", "shop").replace("{user}", "bob").replace("{session}", "s1");
            let path = path.replace("{key}", "k").replace("{seq}", "1").replace(['{', '}'], "");
            let body = operation["requestBody"].is_object().then(|| json!({}));
            let (status, answer) = guarded.send(&guarded.alice, &method.to_uppercase(), &path, body).await;
            assert_eq!(
                (status, answer["error"]["kind"].as_str()),
                (404, Some("not_found")),
                "{method} {path}: {answer}"
            );
            assert_eq!(answer["error"]["message"], "there is no such app, user or session", "{method} {path}");
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
    let (status, _) = guarded.send(&guarded.admin, "POST", "/v1/prune-expired", Some(json!({}))).await;
    assert_eq!(status, 403, "a token for one app");
}

#[tokio::test]
async fn keys_of_the_app_take_the_right_for_them_whatever_the_way() {
    let guarded = GuardedApi::new().await;
    let delta = json!({"app:open": true, "k": 2});
    let operations = json!({"app:sold": [{"increment": 1}]});
    let event = json!({"author": "agent", "actions": {"stateDelta": delta}});
    let sessions = "/v1/apps/shop/users/alice/sessions";
    for (method, path, body, key) in [
        ("POST", format!("{S1}/events"), json!({ "event": event }), "app:open"),
        ("POST", format!("{S1}/events"), json!({"event": {"author": "a"}, "operations": operations}), "app:sold"),
        ("PATCH", format!("{S1}/state"), json!({"author": "a", "stateDelta": delta}), "app:open"),
        ("PATCH", format!("{S1}/state"), json!({"author": "a", "operations": operations}), "app:sold"),
        ("POST", sessions.to_owned(), json!({"state": {"app:open": true}}), "app:open"),
        ("POST", sessions.to_owned(), json!({"events": [event]}), "app:open"),
        ("POST", format!("{S1}/runs"), json!({"message": "x", "stateDelta": delta}), "app:open"),
    ] {
        let (status, answer) = guarded.send(&guarded.alice, method, &path, Some(body)).await;
        assert_eq!(status, 403, "{method} {path}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("'{key}'")) && message.contains("'app'"), "{message}");
    }
    let (_, session) = guarded.send(&guarded.alice, "GET", S1, None).await;
    assert_eq!((&session["state"], &session["eventCount"]), (&json!({"k": 1}), &json!(0)));
}

#[tokio::test]
async fn what_is_for_admins_takes_that_right() {
    let guarded = GuardedApi::new().await;
    let alice = "/v1/apps/shop/users/alice";
    for (method, path) in [
        ("POST", format!("{S1}/prune")),
        ("POST", format!("{alice}/prune")),
        ("DELETE", alice.to_owned()),
        ("POST", "/v1/prune-expired".to_owned()),
    ] {
        let body = (method == "POST").then(|| if path.contains("expired") { json!({}) } else { json!({"before": 1}) });
        let (status, answer) = guarded.send(&guarded.alice, method, &path, body).await;
        assert_eq!(status, 403, "{method} {path}: {answer}");
    }
    for (method, path) in [("GET", "/v1/apps/shop/users"), ("DELETE", "/v1/apps/shop/users/alice")] {
        let (status, _) = guarded.send(&guarded.admin, method, path, None).await;
        assert!(status < 300, "{method} {path}: {status}");
    }
    assert_eq!(guarded.send(&guarded.alice, "GET", S1, None).await.0, 404);
}

#[tokio::test]
async fn who_else_writes_the_app_s_keys_is_not_told() {
    let guarded = GuardedApi::new().await;
    let of_bob = "/v1/apps/shop/users/bob/sessions/s1";
    let event = json!({"id": "secret-id", "author": "agent", "actions": {"stateDelta": {"app:open": true}}});
    guarded.send(&guarded.admin, "POST", &format!("{of_bob}/events"), Some(json!({ "event": event }))).await;
    let guard = json!({"event": {"author": "a"}, "operations": {"app:open": ["expectAbsent"]}, });
    for (token, knows) in [(&guarded.alice, false), (&guarded.admin, true)] {
        for path in [format!("{S1}/blame"), format!("{S1}/history?key=app:open")] {
            let (status, answer) = guarded.send(token, "GET", &path, None).await;
            let text = answer.to_string();
            assert_eq!(status, 200);
            assert!(text.contains("agent"), "{text}");
            assert_eq!((text.contains("bob"), text.contains("secret-id")), (knows, knows), "{text}");
        }
        let (status, answer) = guarded.send(token, "POST", &format!("{S1}/events"), Some(guard.clone())).await;
        if knows {
            assert_eq!((status, answer["error"]["conflicts"][0]["writer"]["userId"].as_str()), (409, Some("bob")));
        } else {
            // A guard on a key of the app only reads the key, but still counts as a change.
            assert_eq!(status, 403, "{answer}");
        }
    }
}

#[tokio::test]
async fn a_conflict_shows_values_to_who_may_read() {
    let guarded = GuardedApi::new().await;
    let body = json!({"event": {"author": "a"}, "operations": {"k": [{"expect": 5}]}});
    let events = format!("{S1}/events");
    let (status, answer) = guarded.send(&guarded.alice, "POST", &events, Some(body.clone())).await;
    assert_eq!((status, &answer["error"]["conflicts"][0]["found"]), (409, &json!(1)));
    let (status, answer) = guarded.send(&guarded.writer, "POST", &events, Some(body)).await;
    let conflict = &answer["error"]["conflicts"][0];
    assert_eq!((status, &conflict["key"], conflict.get("found"), conflict.get("read")), (409, &json!("k"), None, None));
}
