//! What a server reports to its operator.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use scratchbook::SessionService;
use scratchbook_server::{Login, MadeToken, NewToken, Right};
use serde_json::json;
use tokio::time::sleep;

use crate::support::TestClient;

/// Returns a login with three tokens, its folder, and the tokens. The first token may administer all apps.
fn login() -> (tempfile::TempDir, Login, [String; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let admin = NewToken::new("admin").with_rights([Right::Admin]).make().unwrap();
    let of_app = NewToken::new("of app").with_app("demo").with_rights([Right::Admin]).make().unwrap();
    let reader = NewToken::new("reader").make().unwrap();
    let file = folder.path().join("tokens.toml");
    std::fs::write(&file, [&admin, &of_app, &reader].map(MadeToken::entry).join("\n")).unwrap();
    (folder, Login::new().with_tokens(file), [admin, of_app, reader].map(|token| token.secret().to_owned()))
}

fn asked(path: &str, header: (&str, &str)) -> Request<Body> {
    Request::get(path).header(header.0, header.1).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn numbers_are_for_who_may_see_what_concerns_all() {
    let open = TestClient::with(|server| server.metrics(|| "requests 1\n".to_owned())).await;
    let answer = open.send("GET", "/metrics", None).await;
    assert_eq!((answer.status, answer.text()), (200, "requests 1\n"));
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert_eq!(TestClient::memory().await.get("/metrics").await.0, 404, "nobody counts");

    let (_folder, login, [admin, of_app, reader]) = login();
    let closed = TestClient::with(|server| server.login(login).metrics(|| "requests 1\n".to_owned())).await;
    for (token, status) in [(admin, 200), (of_app, 403), (reader, 403), ("none".to_owned(), 401)] {
        let bearer = format!("Bearer {token}");
        assert_eq!(closed.request(asked("/metrics", ("authorization", &bearer))).await.status, status);
    }
    assert_eq!(closed.get("/metrics").await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn a_server_is_ready_as_long_as_its_store_answers() {
    // A store that works is checked at most once in five seconds.
    let next_look = || sleep(Duration::from_secs(5));
    let open = TestClient::memory().await;
    assert_eq!(open.get("/health/ready").await, (200, json!({"status": "ready"})));
    open.store.sessions.close().await.unwrap();
    sleep(Duration::from_millis(4900)).await;
    assert_eq!(open.get("/health/ready").await.0, 200, "what was seen just now is good enough");
    sleep(Duration::from_millis(100)).await;
    let (status, body) = open.get("/health/ready").await;
    assert_eq!((status, &body["status"]), (503, &json!("unavailable")), "{body}");
    assert!(body["store"]["kind"].is_string() && body["store"]["message"].is_string(), "{body}");
    assert_eq!(open.get("/health").await.0, 200, "it is there all the same");

    let (_folder, login, _) = login();
    let closed = TestClient::with(|server| server.login(login)).await;
    assert_eq!(closed.get("/health/ready").await.0, 200);
    closed.store.sessions.close().await.unwrap();
    next_look().await;
    let (status, body) = closed.get("/health/ready").await;
    assert!(status == 503 && body["store"].get("message").is_none(), "strangers learn no more: {body}");
}

#[tokio::test]
async fn a_request_has_an_id_of_the_client_or_of_the_server() {
    let client = TestClient::memory().await;
    let named = client.request(asked("/health", ("x-request-id", "req-1"))).await;
    assert_eq!(named.header("x-request-id"), Some("req-1"));
    let strange = client.request(asked("/health", ("x-request-id", "a b\tc"))).await;
    let made = strange.header("x-request-id").unwrap().to_owned();
    let next = client.send("GET", "/nowhere", None).await;
    assert!(made.contains('-') && !made.contains(' ') && next.header("x-request-id") != Some(&made));
}
