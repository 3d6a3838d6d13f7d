//! The inspector: its pages as a browser gets them. Other tests drive the pages in a browser.

mod answers;
mod changes;
mod links;
mod live;
mod refusals;
mod rights;
mod runs;
mod safety;
mod speed;
mod views;

use axum::body::Body;
use axum::http::Request;
use scratchbook::state::StateDelta;
use scratchbook::{Content, CreateSessionConfig, Event, SessionKey};
use serde_json::Value;

use crate::support::{Answer, TestClient, with_paths};

const S1: &str = "/inspector/apps/shop/users/alice/sessions/s1";

/// Creates the session shop/alice/s1 with the keys `step` and `draft`. Its three events change `step`, remove `draft`,
/// and add `user:tier`.
async fn shop() -> TestClient {
    let client = TestClient::memory().await;
    let config = CreateSessionConfig::default()
        .with_session_id("s1")
        .with_title("Groceries")
        .with_state(serde_json::json!({"step": 0, "draft": true}));
    client.store.sessions.create_session("shop", "alice", config).await.unwrap();
    let deltas = [
        StateDelta::new().with("step", 1).unwrap(),
        {
            let mut delta = StateDelta::new().with("step", 2).unwrap();
            delta.remove("draft").unwrap();
            delta
        },
        StateDelta::new().with("user:tier", "gold").unwrap(),
    ];
    for (n, delta) in deltas.into_iter().enumerate() {
        let event = Event::new(if n == 0 { "user" } else { "clerk" })
            .with_id(format!("e{}", n + 1))
            .with_invocation_id("run-1")
            .with_content(Content::user(format!("message {}", n + 1)))
            .with_timestamp(1000.0 + n as f64)
            .with_state_delta(delta);
        append(&client, event).await;
    }
    client
}

async fn append(client: &TestClient, event: Event) {
    let key = SessionKey::new("shop", "alice", "s1").unwrap();
    client.store.sessions.append(&key, event, Default::default()).await.unwrap();
}

/// Appends an event that sets a key.
async fn set(client: &TestClient, key: &str, value: impl Into<Value>) {
    append(client, Event::new("clerk").with_state_delta(StateDelta::new().with(key, value.into()).unwrap())).await;
}

/// Requests a page as a browser does, and reads its addresses as paths.
async fn page(client: &TestClient, path: &str) -> Answer {
    let request = Request::get(path).header("accept", "text/html,*/*;q=0.8").body(Body::empty()).unwrap();
    let mut answer = client.request(request).await;
    answer.body = with_paths(path, answer.text()).into();
    answer
}

/// Returns the text of a page, which has to exist.
async fn text(client: &TestClient, path: &str) -> String {
    let answer = page(client, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text().to_owned()
}
