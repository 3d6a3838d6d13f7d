//! What the pages show for each address.

use axum::body::Body;
use axum::http::Request;
use scratchbook::content::Part;
use scratchbook::state::StateDelta;
use scratchbook::{Content, CreateSessionConfig, Event, SessionKey};
use serde_json::json;

use super::{S1, append, page, set, shop, text};
use crate::support::TestClient;

/// Returns the part of a page between two texts.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from} in {text}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to} in {rest}")).0
}

#[tokio::test]
async fn a_browser_is_led_to_the_inspector_and_a_program_is_not() {
    let client = shop().await;
    let answer = page(&client, "/").await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("./inspector")));
    let named = json!({"detail": "Not Found", "docs": "/docs", "inspector": "/inspector"});
    assert_eq!(client.get("/").await, (404, named));
    for path in ["/docs", "/inspector"] {
        assert_eq!(client.send("GET", path, None).await.status, 200, "{path}");
    }
    let posted = client.request(Request::post("/").header("accept", "text/html").body(Body::empty()).unwrap()).await;
    assert_eq!(posted.status, 404);
}

#[tokio::test]
async fn the_inspector_can_be_left_out() {
    let client = TestClient::with(|server| server.without_inspector()).await;
    assert_eq!(page(&client, "/").await.header("location"), Some("./docs"));
    assert_eq!(client.get("/").await, (404, json!({"detail": "Not Found", "docs": "/docs"})));
    for path in ["/inspector", "/inspector/", "/inspector/apps/shop", "/inspector/assets/inspector.css"] {
        assert_eq!(page(&client, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn the_pages_lead_from_apps_over_sessions_to_one() {
    let client = shop().await;
    let apps = text(&client, "/inspector").await;
    assert!(apps.contains("href=\"/inspector/apps/shop\"") && apps.contains("href=\"/inspector/apps/demo\""), "{apps}");
    let sessions = text(&client, "/inspector/apps/shop").await;
    assert!(sessions.contains(&format!("href=\"{S1}\"")) && sessions.contains("Groceries"), "{sessions}");
    assert!(text(&client, "/inspector/apps/shop/users").await.contains("href=\"/inspector/apps/shop/users/alice\""));
    assert!(text(&client, "/inspector/apps/shop/users/alice").await.contains(S1));
    let session = text(&client, S1).await;
    for shown in ["message 1", "message 3", "user:tier", "&quot;gold&quot;", "run-1"] {
        assert!(session.contains(shown), "{shown} in {session}");
    }
    assert_eq!(page(&client, "/inspector/apps/shop/users/alice/sessions/nope").await.status, 404);
    assert_eq!(page(&client, "/inspector/nowhere").await.status, 404);
}

/// The history of a key at an event has no later write, whatever its scope, and names the tool that wrote each value.
#[tokio::test]
async fn history_at_an_event_has_no_later_write_and_names_tools() {
    let client = shop().await;
    client.session("shop", "alice", "s2").await;
    client.session("shop", "bob", "b1").await;
    let changed_by_tool = |n: usize| {
        let delta = ["count", "user:count", "app:count"]
            .into_iter()
            .fold(StateDelta::new(), |delta, key| delta.with(key, format!("write {n}")).unwrap());
        let answer = Part::function_response("call", format!("tool_{n}"), json!({}));
        Event::new("clerk").with_content(Content::new("user", vec![answer])).with_state_delta(delta)
    };
    // Events 4, 5 and 6 of the session, each followed by a write of another session.
    for n in 4..=6 {
        append(&client, changed_by_tool(n)).await;
        for (user, session) in [("alice", "s2"), ("bob", "b1")] {
            let key = SessionKey::new("shop", user, session).unwrap();
            client.store.sessions.append(&key, changed_by_tool(10 * n), Default::default()).await.unwrap();
        }
    }
    for (key, writes_then, later) in [
        ("count", &[4, 5][..], &[6, 50, 60][..]),
        ("user:count", &[4, 40, 5], &[6, 50, 60]),
        ("app:count", &[4, 40, 5], &[6, 50, 60]),
    ] {
        for path in [format!("{S1}?at=5&key={key}"), format!("{S1}/history?at=5&key={key}&written_before=999999")] {
            let page = text(&client, &path).await;
            let history = between(&page, "id=\"history\"", "</section>");
            for n in writes_then {
                assert!(history.contains(&format!("&quot;write {n}&quot;")), "{n} in {path}: {history}");
                assert!(history.contains(&format!("tool <b><bdi>tool_{n}</bdi></b>")), "{n} in {path}: {history}");
            }
            for n in later {
                assert!(!history.contains(&format!("write {n}&")), "{n} in {path}: {history}");
            }
        }
        let v1 = format!("/v1/apps/shop/users/alice/sessions/s1/history?key={key}&at=5");
        let (status, body) = client.get(&v1).await;
        assert_eq!((status, &body["writes"][0]["value"]), (200, &json!("write 5")), "{v1}");
        assert!(text(&client, &format!("{S1}?at=99&key={key}")).await.contains("has no event 99"), "{key}");
    }
}

#[tokio::test]
async fn sessions_are_found_by_title_label_and_id_and_listed_newest_first() {
    let client = TestClient::memory().await;
    for n in 0..60 {
        let config = CreateSessionConfig::default()
            .with_session_id(format!("s{n}"))
            .with_title(format!("Order {n}"))
            .with_label("team", if n % 2 == 0 { "even" } else { "odd" })
            .with_create_time(1000.0 + f64::from(n));
        client.store.sessions.create_session("shop", "alice", config).await.unwrap();
    }
    let all = text(&client, "/inspector/apps/shop").await;
    let place = |title: &str| all.find(title).unwrap_or(usize::MAX);
    assert!(place(">Order 59<") < place(">Order 58<") && place(">Order 5<") == usize::MAX);
    let next = between(&all, "rel=\"next\" href=\"", "\"").replace("&amp;", "&");
    let older = text(&client, &next).await;
    assert!(older.contains(">Order 5<") && !older.contains(">Order 59<"));
    for (find, found, other) in [("order%2057", "Order 57", "Order 58"), ("s13", "Order 13", "Order 14")] {
        let page = text(&client, &format!("/inspector/apps/shop?find={find}")).await;
        assert!(page.contains(&format!(">{found}<")) && !page.contains(&format!(">{other}<")), "{find}");
    }
    let odd = text(&client, "/inspector/apps/shop?find=team%3Dodd").await;
    assert!(odd.contains(">Order 59<") && !odd.contains(">Order 58<"));
    assert!(text(&client, "/inspector/apps/shop?find=nothing").await.contains("No session has this"));
}

#[tokio::test]
async fn the_state_at_an_event_marks_what_the_event_changed() {
    let client = shop().await;
    let state = text(&client, &format!("{S1}/state?at=2")).await;
    assert!(state.contains("State at event 2"), "{state}");
    let changes = between(&state, "<div class=\"changes\">", "</div>");
    assert!(changes.contains("<li class=\"changed\">") && changes.contains("<del><code>1</code></del>"), "{changes}");
    assert!(changes.contains("<ins><code>2</code></ins>"), "{changes}");
    let removed = between(changes, "<li class=\"removed\">", "</li>");
    assert!(removed.contains("draft") && removed.contains("<del><code>true</code></del>"), "{removed}");
    assert!(!state.contains("user:tier"), "it was written later");
    let third = text(&client, &format!("{S1}/state?at=3")).await;
    let added = between(&third, "<li class=\"added\">", "</li>");
    assert!(added.contains("user:tier") && added.contains("gold"), "{added}");
    let start = text(&client, &format!("{S1}/state?at=0")).await;
    assert!(start.contains("State at the start") && start.contains("draft"), "{start}");
    let compared = text(&client, &format!("{S1}/state?at=3&with=0")).await;
    assert!(compared.contains("Changed since event 0") && compared.contains("<del><code>0</code></del>"), "{compared}");
    let late = text(&client, &format!("{S1}/state?at=9")).await;
    assert!(late.contains("class=\"empty\""), "{late}");
}

#[tokio::test]
async fn what_another_session_wrote_is_told_apart() {
    let client = shop().await;
    let config = CreateSessionConfig::default().with_session_id("s2").with_state(json!({"user:tier": "platinum"}));
    client.store.sessions.create_session("shop", "alice", config).await.unwrap();
    set(&client, "step", 3).await;
    let state = text(&client, &format!("{S1}/state?at=4")).await;
    let changes = between(&state, "<div class=\"changes\">", "</div>");
    let tier = changes.split("<li").find(|line| line.contains("user:tier")).unwrap();
    let step = changes.split("<li").find(|line| line.contains(">step<")).unwrap();
    assert!(tier.contains("elsewhere") && !step.contains("elsewhere"), "{changes}");
}

#[tokio::test]
async fn a_key_shows_its_writes_with_who_made_them() {
    let client = shop().await;
    let page = text(&client, &format!("{S1}?key=step")).await;
    let writes = between(&page, "<ol class=\"writes\">", "</ol>");
    let values: Vec<_> =
        writes.split("<code class=\"value\">").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
    assert_eq!(values, ["2", "1", "0"]);
    assert!(writes.contains("clerk") && writes.contains("at the start"), "{writes}");
    assert!(writes.contains(&format!("{S1}?at=2&amp;key=step")), "{writes}");
    let before = text(&client, &format!("{S1}/history?key=step&at=1")).await;
    assert!(!before.contains("clerk") && before.contains("event 1"), "{before}");
    let tier = text(&client, &format!("{S1}/history?key=user%3Atier")).await;
    assert!(tier.contains("gold") && tier.contains("event 3"), "{tier}");
    let none = text(&client, &format!("{S1}/history?key=nope")).await;
    assert!(none.contains("No write to this key is known"), "{none}");
}

#[tokio::test]
async fn a_long_conversation_comes_by_pages() {
    let client = shop().await;
    for n in 4..=200 {
        set(&client, "step", n).await;
    }
    let newest = text(&client, S1).await;
    assert!(newest.contains("id=\"e200\"") && !newest.contains("id=\"e100\""));
    let earlier = between(&newest, "href=\"", "\"").to_owned();
    assert!(!earlier.is_empty());
    let part = newest.split("data-part=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let first = newest.split("id=\"e").nth(1).unwrap().split('"').next().unwrap().parse::<u32>().unwrap();
    let earlier = text(&client, &part).await;
    assert!(earlier.contains(&format!("id=\"e{}\"", first - 1)) && !earlier.contains("id=\"e200\""), "{part}");
    let middle = text(&client, &format!("{S1}?at=50")).await;
    assert!(middle.contains("id=\"e50\"") && middle.contains("aria-current=\"true\""));
    assert!(middle.contains("State at event 50"));
}

#[tokio::test]
async fn a_whole_value_and_a_whole_event_are_text() {
    let client = shop().await;
    set(&client, "page", "<script>".repeat(1000)).await;
    let value = page(&client, &format!("{S1}/value?key=page")).await;
    assert_eq!((value.status, value.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    assert_eq!(value.json(), json!("<script>".repeat(1000)));
    let event = page(&client, &format!("{S1}/event?at=2")).await;
    assert_eq!(event.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(event.json()["actions"]["stateDelta"]["step"], 2);
    assert_eq!(page(&client, &format!("{S1}/value?key=nope")).await.status, 404);
    assert_eq!(page(&client, &format!("{S1}/event?at=99")).await.status, 404);
}
