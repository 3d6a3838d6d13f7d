//! Tokens and cursors that a server has given to one caller, used by another caller.

use std::time::Duration;

use axum::http::Method;
use scratchbook::CreateSessionConfig;

use super::{ReachServer, SECRET, TestToken, tells};

/// Returns a string member of the JSON object in `text`.
fn member(text: &str, name: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[tokio::test]
async fn tokens_of_pages_open_nothing_of_another_user() {
    let world = ReachServer::new().await;
    for n in 0..3 {
        let config = CreateSessionConfig::default().with_session_id(format!("t-{n}")).with_title(SECRET);
        world.store.sessions.create_session("demo", "u2", config).await.unwrap();
    }
    let of = |user: &str, query: &str| format!("/v1/apps/demo/users/{user}/sessions?{query}");
    // Page tokens of the user's own list, and of the app's list.
    let own = world.send(TestToken::U2, Method::GET, &of("u2", "pageSize=1"), "").await;
    let apps = world.send(TestToken::Demo, Method::GET, "/v1/apps/demo/sessions?pageSize=1", "").await;
    for page in [own, apps] {
        let token = encoded(&member(&page.text, "nextPageToken"));
        for query in [format!("pageToken={token}"), format!("pageToken={token}&title={SECRET}")] {
            let answer = world.send(TestToken::U1, Method::GET, &of("u1", &query), "").await;
            assert!([200, 400].contains(&answer.status), "{answer:?}");
            assert!(!tells(&answer) && !answer.text.contains("u2"), "{answer:?}");
        }
    }
    let page = world.send(TestToken::U2, Method::GET, "/v1/apps/demo/users/u2/state?pageSize=1", "").await;
    assert!(tells(&page), "{page:?}");
    let answer = world.send(TestToken::U1, Method::GET, "/v1/apps/demo/users/u1/state?pageToken=rest", "").await;
    assert!(!tells(&answer), "{answer:?}");
}

#[tokio::test]
async fn cursors_open_nothing_of_another_user() {
    let world = ReachServer::new().await;
    let mut cursors = Vec::new();
    for feed in ["users/u2/feed?limit=1", "users/u2/sessions/s-2/feed?limit=1"] {
        let page = world.send(TestToken::U2, Method::GET, &format!("/v1/apps/demo/{feed}"), "").await;
        cursors.push(member(&page.text, "cursor"));
    }
    let page = world.send(TestToken::Demo, Method::GET, "/v1/apps/demo/feed?limit=1", "").await;
    cursors.push(member(&page.text, "cursor"));
    for cursor in cursors {
        for path in ["users/u1", "users/u1/sessions/s-1"] {
            let path = format!("/v1/apps/demo/{path}");
            let feed = format!("{path}/feed?cursor={}", encoded(&cursor));
            let answer = world.send(TestToken::U1, Method::GET, &feed, "").await;
            assert!([200, 400].contains(&answer.status) && !tells(&answer), "{feed}: {answer:?}");
            let watch = format!("{path}/watch?cursor={}", encoded(&cursor));
            let answer = world.send(TestToken::U1, Method::GET, &watch, "").await;
            assert!([200, 400].contains(&answer.status) && !tells(&answer), "{watch}: {answer:?}");
            let (watch, headers) = (format!("{path}/watch"), [("last-event-id", cursor.as_str())]);
            let answer = world.send_with(TestToken::U1, Method::GET, &watch, &headers, "").await;
            assert!([200, 400].contains(&answer.status) && !tells(&answer), "{watch}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn an_event_of_another_user_is_no_place_in_a_run() {
    let world = ReachServer::new().await;
    let body = r#"{"message": "Hello", "invocationId": "i-own"}"#;
    let runs = "/v1/apps/demo/users/u1/sessions/s-1/runs";
    assert_eq!(world.send(TestToken::U1, Method::POST, runs, body).await.status, 200);
    let headers = [("last-event-id", "ev-u2")];
    let answer = world.send_with(TestToken::U1, Method::GET, &format!("{runs}/i-own"), &headers, "").await;
    assert_eq!(answer.status, 400, "{answer:?}");
    // A caller does not find the invocation of another user's run.
    let answer = world.send(TestToken::U1, Method::GET, &format!("{runs}/i-run"), "").await;
    assert_eq!(answer.status, 404, "{answer:?}");
}

#[tokio::test]
async fn who_watches_sees_nothing_of_another_user() {
    let world = ReachServer::new().await;
    let watch = async {
        let path = "/v1/apps/demo/users/u1/watch?from=now";
        world.send(TestToken::U1, Method::GET, path, "").await
    };
    let write = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for (token, user, session, text) in [(TestToken::U2, "u2", "s-2", SECRET), (TestToken::U1, "u1", "s-1", "mine")]
        {
            let path = format!("/apps/demo/users/{user}/sessions/{session}");
            let body = format!(r#"{{"stateDelta":{{"k":"{text}","user:k":"{text}"}}}}"#);
            assert_eq!(world.send(token, Method::PATCH, &path, &body).await.status, 200);
        }
    };
    let (seen, ()) = tokio::join!(watch, write);
    assert!(seen.text.contains("mine") && !tells(&seen), "{seen:?}");
}
