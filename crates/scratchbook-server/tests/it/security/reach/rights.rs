//! What a token may do within its reach.

use axum::http::Method;
use scratchbook::GetSessionConfig;
use scratchbook::session::StateOwner;

use super::routes::{COMMON, Common, OWNED, path};
use super::{ReachServer, SECRET, TestToken, key, tells};

#[tokio::test]
async fn reading_and_writing_take_a_right_each() {
    let world = ReachServer::new().await;
    let before = world.all_of("u2").await;
    for route in OWNED {
        let (uri, body) = (route.uri("demo", "u2", "s-2"), route.body("u2", "s-2"));
        let (lacks, name) = if route.reads() { (TestToken::Writer, "'read'") } else { (TestToken::Reader, "'write'") };
        for token in [lacks, TestToken::Nobody] {
            let answer = world.send(token, route.method.parse().unwrap(), &uri, &body).await;
            assert_eq!(answer.status, 403, "{token:?} {route:?}: {answer:?}");
            assert!(answer.text.contains(name), "{token:?} {route:?}: {answer:?}");
        }
    }
    assert_eq!(world.all_of("u2").await, before);
    for route in OWNED {
        let world = ReachServer::new().await;
        let (uri, body) = (route.uri("demo", "u2", "s-2"), route.body("u2", "s-2"));
        let has = if route.reads() { TestToken::Reader } else { TestToken::Writer };
        let answer = world.send(has, route.method.parse().unwrap(), &uri, &body).await;
        let admins =
            route.route.ends_with("/prune") || (route.method, route.route) == ("DELETE", "/v1/apps/{app}/users/{user}");
        if admins {
            assert!(answer.status == 403 && answer.text.contains("'admin'"), "{route:?}: {answer:?}");
        } else {
            assert!(route.is_done(&answer), "{route:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn what_concerns_all_users_takes_the_right_admin() {
    let world = ReachServer::new().await;
    for (method, route) in [("GET", "/v1/apps/{app}/users"), ("POST", "/v1/apps/{app}/prune")] {
        let (.., body, _) = COMMON.iter().find(|entry| (entry.0, entry.1) == (method, route)).unwrap();
        let answer = world.send(TestToken::Plain, method.parse().unwrap(), &path(route, "demo", "", ""), body).await;
        assert!(answer.status == 403 && answer.text.contains("'admin'"), "{route}: {answer:?}");
    }
    for (method, route, body, common) in COMMON.iter().filter(|entry| entry.3 == Common::All) {
        let answer = world.send(TestToken::Plain, method.parse().unwrap(), route, body).await;
        assert_eq!(answer.status, 403, "{route} {common:?}: {answer:?}");
    }
}

#[tokio::test]
async fn what_answers_a_write_tells_nothing_to_who_may_not_read() {
    for route in OWNED.iter().filter(|route| !route.reads()) {
        let world = ReachServer::new().await;
        let (uri, body) = (route.uri("demo", "u2", "s-2"), route.body("u2", "s-2"));
        let answer = world.send(TestToken::Writer, route.method.parse().unwrap(), &uri, &body).await;
        assert!(!tells(&answer), "{route:?}: {answer:?}");
    }
    let world = ReachServer::new().await;
    let (user, own) = ("/v1/apps/demo/users/u2", r#"{"author":"x","stateDelta":{"profile":{"name":"SECRET"}}}"#);
    let sessions = format!("{user}/sessions");
    let session = format!("{sessions}/s-2");
    for path in [format!("{user}/state"), format!("{session}/state")] {
        let answer = world.send(TestToken::U2, Method::PATCH, &path, &own.replace("SECRET", SECRET)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let same = |key| format!(r#"{{"author":"x","operations":{{"{key}":[{{"mergePatch":{{}}}}]}}}}"#);
    for (method, path, body) in [
        ("PATCH", format!("{session}/state"), same("user:profile")),
        ("PATCH", format!("{session}/state"), same("profile")),
        ("PATCH", format!("{user}/state"), same("profile")),
        ("POST", sessions, "{}".to_owned()),
        ("POST", format!("{session}/fork"), "{}".to_owned()),
        ("PATCH", session, r#"{"labels":{"a":"b"}}"#.to_owned()),
        ("PATCH", "/apps/demo/users/u2/sessions/s-2".to_owned(), r#"{"stateDelta":{"k":1}}"#.to_owned()),
    ] {
        for (token, may_read) in [(TestToken::Writer, false), (TestToken::U2, true)] {
            let answer = world.send(token, method.parse().unwrap(), &path, &body).await;
            assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
            // A caller who may read is shown the value. This proves that there is something to hide from the others.
            assert_eq!(tells(&answer), may_read, "{method} {path}: {answer:?}");
        }
    }
}

/// Bodies that write a key of the app through a session of `u2`.
const WRITES: [(&str, &str, &str); 14] = [
    ("POST", "/apps/demo/users/u2/sessions", r#"{"state":{"k":1,"app:x":1}}"#),
    ("POST", "/apps/demo/users/u2/sessions/s-new", r#"{"k":1,"app:x":1}"#),
    ("PATCH", "/apps/demo/users/u2/sessions/s-2", r#"{"stateDelta":{"k":1,"app:x":1}}"#),
    (
        "POST",
        "/run",
        r#"{"appName":"demo","userId":"u2","sessionId":"s-2","stateDelta":{"k":1,"app:x":1},"newMessage":{"parts":[{"text":"x"}]}}"#,
    ),
    (
        "POST",
        "/run_sse",
        r#"{"appName":"demo","userId":"u2","sessionId":"s-2","stateDelta":{"k":1,"app:x":1},"newMessage":{"parts":[{"text":"x"}]}}"#,
    ),
    ("POST", "/v1/apps/demo/users/u2/sessions", r#"{"state":{"k":1,"app:x":1}}"#),
    (
        "POST",
        "/v1/apps/demo/users/u2/sessions/s-2/events",
        r#"{"event":{"author":"x","actions":{"stateDelta":{"k":1,"app:x":1}}}}"#,
    ),
    (
        "POST",
        "/v1/apps/demo/users/u2/sessions/s-2/events",
        r#"{"event":{"author":"x"},"operations":{"k":[{"increment":1}],"app:x":[{"increment":1}]}}"#,
    ),
    ("PATCH", "/v1/apps/demo/users/u2/sessions/s-2/state", r#"{"author":"x","stateDelta":{"k":1,"app:x":1}}"#),
    (
        "PATCH",
        "/v1/apps/demo/users/u2/sessions/s-2/state",
        r#"{"author":"x","stateDelta":{"k":1,"app:x":"__ADK_SENTINEL_REMOVED__"}}"#,
    ),
    ("POST", "/v1/apps/demo/users/u2/sessions/s-2/runs", r#"{"message":"x","stateDelta":{"k":1,"app:x":1}}"#),
    ("POST", "/v1/reasoningEngines/demo/sessions", r#"{"userId":"u2","sessionState":{"k":1,"app:x":1}}"#),
    ("PATCH", "/v1/reasoningEngines/demo/sessions/s-2", r#"{"sessionState":{"k":1,"app:x":1}}"#),
    (
        "POST",
        "/v1/reasoningEngines/demo/sessions/s-2:appendEvent",
        r#"{"author":"x","timestamp":"2026-01-01T00:00:00Z","rawEvent":{"actions":{"stateDelta":{"k":1,"app:x":1}}}}"#,
    ),
];

#[tokio::test]
async fn keys_of_the_app_take_a_right_of_their_own() {
    let world = ReachServer::new().await;
    let before = world.all_of("u2").await;
    for (method, path, body) in WRITES {
        for token in [TestToken::Writer, TestToken::Plain] {
            let answer = world.send(token, method.parse().unwrap(), path, body).await;
            assert_eq!(answer.status, 403, "{path} {body}: {answer:?}");
            assert!(answer.text.contains("'app:x'") && !answer.text.contains("'k'"), "{path} {body}: {answer:?}");
        }
    }
    let patch =
        world.send(TestToken::Plain, Method::PATCH, "/v1/apps/demo/state", r#"{"author":"x","stateDelta":{"x":1}}"#);
    let answer = patch.await;
    assert!(answer.status == 403 && answer.text.contains("the right 'app'"), "{answer:?}");
    assert_eq!(world.all_of("u2").await, before);
    let app = StateOwner::app("demo").unwrap();
    assert!(!world.store.sessions.get_state(&app).await.unwrap().contains_key("x"));
    // Everything else in the same bodies belongs to the user, so these writes succeed.
    for (method, path, body) in WRITES {
        let world = ReachServer::new().await;
        let body = body.replace("app:x", "user:x");
        let answer = world.send(TestToken::Writer, method.parse().unwrap(), path, &body).await;
        assert!((200..300).contains(&answer.status), "{path} {body}: {answer:?}");
        let world = ReachServer::new().await;
        let answer = world.send(TestToken::U2, method.parse().unwrap(), path, &body.replace("user:x", "app:x")).await;
        assert!((200..300).contains(&answer.status), "{path} {body}: {answer:?}");
    }
}

#[tokio::test]
async fn an_imported_session_writes_no_key_of_the_app() {
    let world = ReachServer::new().await;
    let body =
        r#"{"sessionId":"s-new","events":[{"author":"x","actions":{"stateDelta":{"k":1,"app:x":1,"user:x":1}}}]}"#;
    let answer = world.send(TestToken::Writer, Method::POST, "/apps/demo/users/u2/sessions", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let session = world.store.sessions.get_session(&key("u2", "s-new"), &GetSessionConfig::default()).await;
    let state = session.unwrap().unwrap().state().to_map();
    assert!(state.contains_key("k") && !state.contains_key("app:x") && !state.contains_key("user:x"), "{state:?}");
}
