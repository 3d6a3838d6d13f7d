//! The pages make changes only through their own forms, and never overwrite a value that the person has not seen.

use axum::body::Body;
use axum::http::Request;
use scratchbook::{GetSessionConfig, SessionKey};
use serde_json::{Value, json};

use super::{S1, set, shop, text};
use crate::support::{Answer, TestClient};

/// Sends a form of the pages.
pub(super) async fn send(client: &TestClient, path: &str, fields: &[(&str, &str)]) -> Answer {
    send_from(client, path, fields, "http://127.0.0.1").await
}

async fn send_from(client: &TestClient, path: &str, fields: &[(&str, &str)], origin: &str) -> Answer {
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

/// Returns the digest of the seen value in a page's form for a key.
async fn seen(client: &TestClient, key: &str) -> String {
    seen_on(client, &format!("{S1}/history?key={}", encoded(key))).await
}

async fn seen_on(client: &TestClient, path: &str) -> String {
    let page = text(client, path).await;
    let (_, rest) = page.split_once("name=\"seen\" value=\"").unwrap_or_else(|| panic!("no form in {page}"));
    rest.split('"').next().unwrap().to_owned()
}

async fn state(client: &TestClient) -> Value {
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
    // The form on the returned page has the digest of the value that was shown, so it takes effect if it is sent again.
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
    let client = TestClient::with(|server| server.allow_origins(["https://shop.example"]).host("127.0.0.1")).await;
    client.session("shop", "alice", "s1").await;
    for (part, fields) in [
        ("change", &[("key", "a"), ("operation", "set"), ("value", "1"), ("seen", "absent")][..]),
        ("delete", &[]),
        ("details", &[("title", "t"), ("seen", "x")]),
        ("prune", &[("before", "2")]),
        ("../../erase", &[]),
        ("fork", &[]),
        ("rewind", &[("run", "run-1")]),
        ("runs", &[("message", "hello")]),
        ("stop", &[("run", "run-1")]),
    ] {
        // Pages of allowed origins may call the APIs, but may not use these forms.
        for origin in ["https://shop.example", "http://127.0.0.1:1", "null", "https://evil.example"] {
            let path = match part.strip_prefix("../../") {
                Some(of_user) => format!("/inspector/apps/shop/users/alice/{of_user}"),
                None => format!("{S1}/{part}"),
            };
            let answer = send_from(&client, &path, fields, origin).await;
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
    let fork = text(&client, &forked.redirect(&format!("{S1}/fork")).unwrap()).await;
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
    let client = TestClient::memory().await;
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

#[tokio::test]
async fn title_and_labels_are_edited_and_what_others_wrote_is_not_overwritten() {
    let client = shop().await;
    let path = format!("{S1}/details");
    let seen = seen_on(&client, &path).await;
    let fields = [("title", "Weekly shop"), ("labels", "team=red\r\nopen\r\n"), ("seen", &seen)];
    assert_eq!(send(&client, &path, &fields).await.status, 303);
    let page = text(&client, S1).await;
    assert!(page.contains("Weekly shop") && page.contains("team=red"), "{page}");
    let again = [("title", "Mine"), ("labels", "team=blue"), ("seen", seen.as_str())];
    let refused = send(&client, &path, &again).await;
    assert_eq!(refused.status, 409);
    let page = refused.text();
    assert!(page.contains("Weekly shop") && page.contains("value=\"Mine\"") && page.contains("team=red"), "{page}");
    let seen = seen_on(&client, &path).await;
    assert_eq!(send(&client, &path, &[("title", ""), ("labels", ""), ("seen", &seen)]).await.status, 303);
    let page = text(&client, S1).await;
    assert!(!page.contains("Weekly shop") && !page.contains("team"), "{page}");
    let seen = seen_on(&client, &path).await;
    let wrong = send(&client, &path, &[("title", &"x".repeat(10_000)), ("labels", ""), ("seen", &seen)]).await;
    assert_eq!((wrong.status, wrong.text().contains("role=\"alert\"")), (400, true), "{}", wrong.text());
}

#[tokio::test]
async fn events_are_pruned_and_a_user_is_erased_after_a_question() {
    let client = shop().await;
    let asked = text(&client, &format!("{S1}/prune?before=3")).await;
    assert!(asked.contains("value=\"3\"") && asked.contains("for good"), "{asked}");
    assert_eq!(send(&client, &format!("{S1}/prune"), &[("before", "3")]).await.status, 303);
    let page = text(&client, S1).await;
    assert!(page.contains("id=\"e3\"") && !page.contains("id=\"e2\""), "{page}");
    assert_eq!(state(&client).await, json!({"step": 2, "user:tier": "gold"}));
    assert_eq!(send(&client, &format!("{S1}/prune"), &[("before", "x")]).await.status, 400);
    let user = "/inspector/apps/shop/users/alice";
    assert!(text(&client, user).await.contains("/erase"));
    let asked = text(&client, &format!("{user}/erase")).await;
    assert!(asked.contains("1 session with") && asked.contains("1 key of the user"), "{asked}");
    assert_eq!(send(&client, &format!("{user}/erase"), &[]).await.status, 303);
    assert_eq!(super::page(&client, S1).await.status, 404);
}

#[tokio::test]
async fn a_session_is_downloaded_as_lines_that_can_be_imported() {
    let client = shop().await;
    let answer = super::page(&client, &format!("{S1}/export")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"s1.jsonl\""));
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["header", "user", "session", "event", "event", "event", "end"]);
    assert_eq!(lines[1]["state"], json!({"tier": "gold"}));
    assert_eq!(lines[2]["state"], json!({"step": 0, "draft": true}));
    assert_eq!(lines[5]["event"]["actions"]["stateDelta"], json!({"user:tier": "gold"}));
    assert_eq!((&lines[6]["events"], &lines[6]["sessions"]), (&json!(3), &json!(1)));
}
