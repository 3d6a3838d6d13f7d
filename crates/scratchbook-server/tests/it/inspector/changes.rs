//! What the pages change: by forms of their own alone, and never over somebody else's value.

use axum::body::Body;
use axum::http::Request;
use scratchbook::{GetSessionConfig, SessionKey};
use serde_json::{Value, json};

use super::{S1, set, shop, text};
use crate::support::{Answer, Client};

/// Sends a form of the pages.
async fn send(client: &Client, path: &str, fields: &[(&str, &str)]) -> Answer {
    send_from(client, path, fields, "http://127.0.0.1").await
}

async fn send_from(client: &Client, path: &str, fields: &[(&str, &str)], origin: &str) -> Answer {
    let body: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let request = Request::post(path)
        .header("host", "127.0.0.1")
        .header("origin", origin)
        .header("accept", "text/html")
        .header("content-type", "application/x-www-form-urlencoded");
    client.request(request.body(Body::from(body.join("&"))).unwrap()).await
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// What a page's form for a key has as the value that was seen.
async fn seen(client: &Client, key: &str) -> String {
    let page = text(client, &format!("{S1}/history?key={}", encoded(key))).await;
    let (_, rest) = page.split_once("name=\"seen\" value=\"").unwrap_or_else(|| panic!("no form in {page}"));
    rest.split('"').next().unwrap().to_owned()
}

async fn state(client: &Client) -> Value {
    let key = SessionKey::new("shop", "alice", "s1").unwrap();
    let session = client.store.sessions.get_session(&key, &GetSessionConfig::state_only()).await.unwrap().unwrap();
    json!(session.state())
}

#[tokio::test]
async fn a_key_is_set_counted_appended_to_and_removed_by_an_audited_event() {
    let client = shop().await;
    for (key, operation, value, expected) in [
        ("step", "increment", "5", json!(7)),
        ("step", "set", "{\"n\": 1}", json!({"n": 1})),
        ("list", "append", "\"a\"", json!(["a"])),
        ("list", "append", "2", json!(["a", 2])),
        ("user:tier", "remove", "", Value::Null),
        ("app:open", "set", "true", json!(true)),
    ] {
        let seen = seen(&client, key).await;
        let fields = [("key", key), ("operation", operation), ("value", value), ("seen", &seen)];
        let answer = send(&client, &format!("{S1}/change"), &fields).await;
        assert_eq!(answer.status, 303, "{key}: {}", answer.text());
        assert_eq!(state(&client).await[key], expected, "{key}");
    }
    let history = text(&client, &format!("{S1}/history?key=step")).await;
    assert!(history.contains("inspector"), "the author is named: {history}");
}

#[tokio::test]
async fn a_value_that_others_have_changed_is_shown_and_not_overwritten() {
    let client = shop().await;
    let seen = seen(&client, "step").await;
    set(&client, "step", 42).await;
    let fields = [("key", "step"), ("operation", "set"), ("value", "5"), ("seen", &seen)];
    let answer = send(&client, &format!("{S1}/change"), &fields).await;
    assert_eq!(answer.status, 409);
    let page = answer.text();
    assert!(page.contains("<pre>42</pre>") && page.contains(">5</textarea>") && page.contains("clerk"), "{page}");
    assert_eq!(state(&client).await["step"], 42);
    // The page's form knows what was shown: sent again it takes effect.
    let (_, rest) = page.split_once("name=\"seen\" value=\"").unwrap();
    let fields = [("key", "step"), ("operation", "set"), ("value", "5"), ("seen", rest.split('"').next().unwrap())];
    assert_eq!(send(&client, &format!("{S1}/change"), &fields).await.status, 303);
    assert_eq!(state(&client).await["step"], 5);
}

#[tokio::test]
async fn a_mistake_is_shown_beside_what_was_written() {
    let client = shop().await;
    let seen = seen(&client, "step").await;
    for (operation, value, why) in [
        ("set", "{\"a\": }", "This is not JSON"),
        ("increment", "\"a\"", "incremented by a number"),
        ("append", "1", "step"),
        ("set", "18446744073709551616", "step"),
    ] {
        let fields = [("key", "step"), ("operation", operation), ("value", value), ("seen", &seen)];
        let answer = send(&client, &format!("{S1}/change"), &fields).await;
        assert_eq!(answer.status, 400, "{value}: {}", answer.text());
        assert!(answer.text().contains(why) && answer.text().contains("role=\"alert\""), "{value}: {}", answer.text());
    }
    assert_eq!(state(&client).await["step"], 2);
}

#[tokio::test]
async fn no_form_of_another_page_changes_anything() {
    let client = Client::with(|server| server.allow_origins(["https://shop.example"]).host("127.0.0.1")).await;
    client.session("shop", "alice", "s1").await;
    for (part, fields) in [
        ("change", &[("key", "a"), ("operation", "set"), ("value", "1"), ("seen", "absent")][..]),
        ("delete", &[]),
        ("fork", &[]),
        ("rewind", &[("run", "run-1")]),
        ("runs", &[("message", "hello")]),
        ("stop", &[("run", "run-1")]),
    ] {
        // Pages of allowed origins may call the APIs, and may not use these forms.
        for origin in ["https://shop.example", "http://127.0.0.1:1", "null", "https://evil.example"] {
            let answer = send_from(&client, &format!("{S1}/{part}"), fields, origin).await;
            assert_eq!(answer.status, 403, "{part} from {origin}");
        }
    }
    assert_eq!(state(&client).await, json!({}));
}

#[tokio::test]
async fn a_session_is_forked_rewound_and_deleted_and_what_destroys_asks_first() {
    let client = shop().await;
    let forked = send(&client, &format!("{S1}/fork"), &[("at", "1")]).await;
    assert_eq!(forked.status, 303);
    let fork = text(&client, forked.header("location").unwrap()).await;
    assert!(fork.contains("id=\"e1\"") && !fork.contains("id=\"e2\""), "{fork}");
    let asked = text(&client, &format!("{S1}/rewind?run=run-1")).await;
    assert!(asked.contains("All events stay") && asked.contains("value=\"run-1\""), "{asked}");
    assert_eq!(send(&client, &format!("{S1}/rewind"), &[("run", "run-1")]).await.status, 303);
    assert_eq!(state(&client).await, json!({"step": 0, "draft": true, "user:tier": "gold"}));
    let asked = text(&client, &format!("{S1}/delete")).await;
    assert!(asked.contains("4 events") && asked.contains("for good"), "{asked}");
    assert_eq!(state(&client).await["step"], 0, "asking deletes nothing");
    assert_eq!(send(&client, &format!("{S1}/delete"), &[]).await.status, 303);
    assert_eq!(super::page(&client, S1).await.status, 404);
}

#[tokio::test]
async fn a_message_starts_a_run_and_its_text_streams() {
    let client = Client::memory().await;
    client.session("demo", "alice", "s1").await;
    let session = "/inspector/apps/demo/users/alice/sessions/s1";
    assert!(text(&client, session).await.contains("<textarea name=\"message\""));
    let answer = send(&client, &format!("{session}/runs"), &[("message", "Hi"), ("stream", "1")]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("event: run") && answer.text().contains("event: end"), "{}", answer.text());
    let page = text(&client, session).await;
    assert!(page.contains(">Hi<") && page.contains(">Hello.<"), "{page}");
    let empty = send(&client, &format!("{session}/runs"), &[("message", "")]).await;
    assert_eq!(empty.status, 400);
    let unhosted = shop().await;
    assert!(!text(&unhosted, S1).await.contains("<textarea name=\"message\""));
    assert_eq!(send(&unhosted, &format!("{S1}/runs"), &[("message", "Hi")]).await.status, 404);
}
