//! The pages show all stored data as text, and stay small.

use axum::body::Body;
use axum::http::Request;
use scratchbook::layer::WithSecretKeys;
use scratchbook::session::SecretKeys;
use scratchbook::{Content, Event, Store, connect};
use serde_json::json;

use super::{S1, append, page, set, shop, text};
use crate::support::TestClient;

#[tokio::test]
async fn pages_run_and_load_nothing_but_their_own_files() {
    let client = shop().await;
    for path in ["/inspector", "/inspector/apps/shop", S1, "/inspector/nowhere", &format!("{S1}/state?at=1")] {
        let answer = page(&client, path).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let text = answer.text();
        for inline in ["<style", " style=", " onclick=", "javascript:", "<script>"] {
            assert!(!text.contains(inline), "{inline} in {path}");
        }
    }
    let session = text(&client, S1).await;
    for file in session.split("/inspector/assets/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let answer = page(&client, &format!("/inspector/assets/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header("cache-control").unwrap().contains("immutable"));
        assert!(!answer.text().contains("http://") || file.starts_with("icon"), "{file} names another server");
    }
    assert_eq!(page(&client, "/inspector/assets/nope.js").await.status, 404);
}

#[tokio::test]
async fn nothing_that_is_stored_is_markup() {
    let client = shop().await;
    let evil = "\"><img src=x onerror=alert(1)><script>alert(1)</script>'\u{202e}\u{7}";
    set(&client, evil, json!({evil: [evil]})).await;
    let event = Event::new(evil.replace('\u{7}', ""))
        .with_content(Content::user(evil))
        .with_invocation_id(evil.replace('\u{7}', ""));
    append(&client, event).await;
    let key = scratchbook::SessionKey::new("shop", "alice", "s1").unwrap();
    let update =
        scratchbook::session::SessionUpdate::default().with_title("<b>title</b>\u{202e}").with_label("<i>", "\"'><u>");
    client.store.sessions.update_session(&key, update).await.unwrap();
    let encoded: String = evil.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for path in [
        S1.to_owned(),
        "/inspector/apps/shop".to_owned(),
        format!("/inspector/apps/shop?find={encoded}"),
        format!("{S1}?key={encoded}&find={encoded}"),
        format!("{S1}/history?key={encoded}"),
        format!("/inspector/apps/{encoded}"),
    ] {
        let page = page(&client, &path).await;
        let text = page.text();
        for markup in ["<img", "<script>alert", "<b>title", "<i>", "<u>"] {
            assert!(!text.contains(markup), "{markup:?} in {path}: {text}");
        }
        let shown: String = text.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text).collect();
        assert!(!shown.contains(['\u{202e}', '\u{7}']), "{path}: {shown}");
    }
    assert!(text(&client, S1).await.contains("\\u{202e}"));
}

#[tokio::test]
async fn any_session_opens_with_little_weight() {
    let client = shop().await;
    let mut delta = scratchbook::state::StateDelta::new();
    for n in 0..9_990 {
        delta.set(format!("user:key-{n:05}-{}", "k".repeat(40)), format!("<\"'&>{}", "v".repeat(200))).unwrap();
    }
    append(&client, Event::new("clerk").with_state_delta(delta)).await;
    set(&client, "text", "\"<&".repeat(1_000_000)).await;
    for n in 0..80 {
        let event = Event::new("clerk")
            .with_content(Content::user(format!("{n} {}", "<\"&'>".repeat(4000))))
            .with_state_delta(scratchbook::state::StateDelta::new().with("step", "<".repeat(9000)).unwrap());
        append(&client, event).await;
    }
    let files = ["inspector.css", "parts.js", "travel.js", "live.js", "time.js", "icon.svg"];
    let mut weight = 0;
    for file in files {
        weight += page(&client, &format!("/inspector/assets/{file}")).await.body.len();
    }
    for view in ["", "?at=5", "?at=4", "?key=step", "?find=key"] {
        let first = page(&client, &format!("{S1}{view}")).await;
        assert_eq!(first.status, 200, "{}", first.text());
        let all = weight + first.body.len();
        assert!(all < 150_000, "{view}: {all} bytes, {} of them the page", first.body.len());
        assert!(first.text().contains("more keys"), "{view}");
    }
    // Every key is reached page by page.
    let mut path = format!("{S1}/state?find=key-");
    for _ in 0..3 {
        let part = text(&client, &path).await;
        assert!(part.len() < 60_000, "{}", part.len());
        let next = part.rsplit("data-part=\"").next().unwrap().split('"').next().unwrap().replace("&amp;", "&");
        assert_ne!(next, path);
        path = next;
    }
}

#[tokio::test]
async fn secret_keys_and_credentials_are_shown_to_nobody() {
    let inner = connect("memory:").await.unwrap();
    let sessions = WithSecretKeys::new(inner.sessions.clone(), SecretKeys::new(["user:secret:"]));
    let store = Store::of(std::sync::Arc::new(sessions), inner.artifacts.clone());
    let client = TestClient::new(store, |server| server);
    client.session("shop", "alice", "s1").await;
    set(&client, "user:secret:pin", "hunter2-pin").await;
    set(&client, "login", json!({"authType": "oauth2", "oauth2": {"accessToken": "hunter2-token"}})).await;
    for path in ["", "?at=1&key=user%3Asecret%3Apin", "?at=2&key=login", "?at=2&with=0"] {
        assert!(!text(&client, &format!("{S1}{path}")).await.contains("hunter2"), "{path}");
    }
    for path in ["value?key=user%3Asecret%3Apin", "value?key=login", "value?key=login&at=2", "event?at=1", "event?at=2"]
    {
        let text = text(&client, &format!("{S1}/{path}")).await;
        assert!(!text.contains("hunter2"), "{path}: {text}");
    }
    assert!(text(&client, S1).await.contains("[secret]"));

    // A form has a digest of the value that it would replace. For a secret there is no such digest.
    let fields = "key=login&operation=set&value=1&seen=x";
    let request =
        Request::post(format!("{S1}/change")).header("host", "127.0.0.1").header("origin", "http://127.0.0.1");
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(Body::from(fields)).unwrap();
    let answer = client.request(request).await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(!answer.text().contains("seen"), "{}", answer.text());
}

#[tokio::test]
async fn an_address_costs_no_more_than_it_says() {
    let client = shop().await;
    let long = "(".repeat(60_000);
    for name in ["key", "find", "after"] {
        let answer = page(&client, &format!("{S1}?{name}={long}")).await;
        assert_eq!(answer.status, 400, "{name}");
        assert!(answer.body.len() < 10_000, "{} bytes", answer.body.len());
    }
    for last in ["at=18446744073709551615", "at=18446744073709551615&with=18446744073709551615"] {
        assert!(page(&client, &format!("{S1}?{last}")).await.status < 500, "{last}");
    }
}

#[tokio::test]
async fn a_deep_value_is_shown_without_more_memory_than_an_answer_may_take() {
    let client = shop().await;
    // As JSON on several lines, the value would take about 50 MB.
    let deep = format!("{}{}1{}", "[".repeat(60), "1,".repeat(400_000), "]".repeat(60));
    set(&client, "deep", serde_json::from_str::<serde_json::Value>(&deep).unwrap()).await;
    let shown = text(&client, &format!("{S1}/value?key=deep")).await;
    assert_eq!(shown, deep);
    let page = text(&client, &format!("{S1}?key=deep")).await;
    assert!(page.contains("too large to be edited here") && page.len() < 60_000, "{} bytes", page.len());
}
