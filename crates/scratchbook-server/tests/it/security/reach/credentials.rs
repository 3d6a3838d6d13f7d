//! Secrets of credentials: no route shows them to a caller that is restricted to a user.

use axum::http::Method;
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{Event, StateDelta};
use serde_json::{Value, json};

use super::routes::{COMMON, OWNED, path};
use super::{ReachServer, TestToken, key};

/// A secret that a client got from somebody who knows the user.
const CREDENTIAL: &str = "hunter2-of-the-client";

/// Returns a credential as google-adk keeps one in state.
fn credential() -> Value {
    json!({"authType": "oauth2", "oauth2": {"clientId": "c", "clientSecret": CREDENTIAL, "accessToken": CREDENTIAL}})
}

/// Stores credentials in all places in which a session, a user and an app may have them: in events, and in old and new
/// state, under the key that the tests of the routes use.
async fn with_credentials() -> ReachServer {
    let world = ReachServer::new().await;
    let sessions = &world.store.sessions;
    let delta = |key: &str, value: Value| StateDelta::new().with(key, value).unwrap();
    for name in ["secret", "user:secret", "app:shared", "user:rawAuthCredential", "rawAuthCredential"] {
        for n in 0..2 {
            let event = Event::new("agent").with_id(format!("{name}-{n}")).with_invocation_id("i-run");
            let event = event.with_state_delta(delta(name, credential()));
            sessions.append(&key("u2", "s-2"), event, Default::default()).await.unwrap();
        }
    }
    let asked: Event = serde_json::from_value(json!({
        "id": "ev-asked", "author": "demo_agent", "invocationId": "i-run",
        "content": {"role": "model", "parts": [{"functionCall": {
            "id": "f1", "name": "adk_request_credential", "args": {"authConfig": {"rawAuthCredential": credential()}},
        }}]},
        "actions": {"requestedAuthConfigs": {"f1": {"rawAuthCredential": {"oauth2": {"clientSecret": CREDENTIAL}}}}},
    }))
    .unwrap();
    sessions.append(&key("u2", "s-2"), asked, Default::default()).await.unwrap();
    for owner in [StateOwner::user("demo", "u2").unwrap(), StateOwner::app("demo").unwrap()] {
        let changes = StateDelta::new().with("secret", credential()).unwrap().with("shared", credential()).unwrap();
        sessions.put_state(&owner, changes, PutStateOptions::by("support")).await.unwrap();
    }
    world
}

/// Returns every path that can be read, of a user and of all users.
fn paths() -> Vec<String> {
    let owned = OWNED.iter().filter(|owned| owned.reads()).map(|owned| owned.uri("demo", "u2", "s-2"));
    let common =
        COMMON.iter().filter(|(method, ..)| *method == "GET").map(|(_, route, ..)| path(route, "demo", "u2", "s-2"));
    let session = "/v1/apps/demo/users/u2/sessions/s-2";
    let more = [
        "/state?at=6",
        "/state/rawAuthCredential",
        "/state/user:secret",
        "/history?key=rawAuthCredential",
        "/history?key=app:shared",
        "/diff?before=1&after=13",
        "/events?after=5&limit=3",
        "/events/by-id/ev-asked",
        "/feed?from=beginning&limit=3",
    ];
    owned.chain(common).chain(more.into_iter().map(|rest| format!("{session}{rest}"))).collect()
}

#[tokio::test]
async fn no_route_shows_a_user_the_secrets_of_credentials() {
    let world = with_credentials().await;
    for path in paths() {
        for token in [TestToken::U2, TestToken::Reader] {
            let answer = world.send(token, Method::GET, &path, "").await;
            assert!(!answer.text.contains(CREDENTIAL), "{path}: {}", answer.text);
        }
    }
    // A conflict, a retry or the answer of a write does not show them either.
    let session = "/v1/apps/demo/users/u2/sessions/s-2";
    let guard = json!({"author": "x", "operations": {"secret": [{"expect": 1}]}}).to_string();
    let event =
        json!({"event": {"id": "new", "author": "x", "actions": {"stateDelta": {"again": credential()}}}}).to_string();
    for (method, path, body) in [
        (Method::PATCH, format!("{session}/state"), guard),
        (Method::POST, format!("{session}/events"), event.clone()),
        (Method::POST, format!("{session}/events"), event),
        (Method::POST, format!("{session}/fork"), "{}".to_owned()),
    ] {
        let answer = world.send(TestToken::U2, method, &path, &body).await;
        assert!(answer.status != 404 && !answer.text.contains(CREDENTIAL), "{path}: {}", answer.text);
    }
}

/// On the other surfaces, google-adk's own services need to read the credentials.
#[tokio::test]
async fn a_token_of_an_app_is_shown_credentials_but_on_adks_surface() {
    let world = with_credentials().await;
    let engine = "/v1/reasoningEngines/demo/sessions/s-2";
    for path in ["/v1/apps/demo/users/u2/sessions/s-2", "/v1/apps/demo/state", engine, &format!("{engine}/events")] {
        let answer = world.send(TestToken::Demo, Method::GET, path, "").await;
        assert!(answer.text.contains(CREDENTIAL), "{path}: {}", answer.text);
    }
    let answer = world.send(TestToken::Demo, Method::GET, "/apps/demo/users/u2/sessions/s-2", "").await;
    assert!(answer.status == 200 && !answer.text.contains(CREDENTIAL), "{}", answer.text);
}

#[tokio::test]
async fn what_is_shown_without_them_is_whole_otherwise() {
    let world = with_credentials().await;
    let answer = world.send(TestToken::U2, Method::GET, "/v1/apps/demo/users/u2/sessions/s-2", "").await;
    let session = answer.json();
    assert_eq!(session["state"]["secret"], json!({"authType": "oauth2", "oauth2": {"clientId": "c"}}));
    assert_eq!(session["eventCount"], session["events"].as_array().unwrap().len());
    let watched = world.send(TestToken::U2, Method::GET, "/v1/apps/demo/users/u2/watch?from=beginning", "").await;
    for data in watched.text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        assert!(serde_json::from_str::<Value>(data).is_ok(), "{data}");
    }
    assert!(watched.text.contains("clientId"), "{}", watched.text);
}
