//! The bytes of an answer are limited, whatever is stored.

use scratchbook::session::{Prune, PutStateOptions, StateOwner};
use scratchbook::{CreateSessionConfig, Event, SessionKey, StateDelta, Store, connect};
use scratchbook_server::{Server, ServerLimits};
use serde_json::{Value, json};

use crate::support::{Answer, TestClient};

const SESSION: &str = "/apps/demo/users/u1/sessions/s-1";
const OF_USER: &str = "/v1/apps/demo/users/u1/sessions";
const ENGINE: &str = "/v1beta1/projects/p/locations/l/reasoningEngines/demo/sessions";

const MIB: usize = 1 << 20;

fn key() -> SessionKey {
    SessionKey::new("demo", "u1", "s-1").unwrap()
}

/// Creates a session with `count` events of about `bytes` bytes each.
async fn with_events(client: &TestClient, count: usize, bytes: usize) {
    client.session("demo", "u1", "s-1").await;
    for n in 0..count {
        let event = Event::new("agent").with_content(format!("{n} {}", "x".repeat(bytes)));
        client.store.sessions.append(&key(), event, Default::default()).await.unwrap();
    }
}

fn seqs(answer: &Value) -> Vec<u64> {
    answer["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

async fn small(limits: ServerLimits) -> TestClient {
    TestClient::with(|server| server.limits(limits)).await
}

#[tokio::test]
async fn state_that_sessions_share_is_shown_once_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite://{}", folder.path().join("test.db").display());
    for uri in ["memory:", &sqlite] {
        let client = TestClient::over(uri).await;
        for n in 0..1000 {
            let config = CreateSessionConfig::default().with_session_id(format!("s-{n}")).with_state(json!({"n": n}));
            client.store.sessions.create_session("demo", "u1", config).await.unwrap();
        }
        let profile = "x".repeat(4 * MIB - 10);
        let owner = StateOwner::user("demo", "u1").unwrap();
        let delta = StateDelta::new().with("profile", profile.as_str()).unwrap();
        client.store.sessions.put_state(&owner, delta, PutStateOptions::by("support")).await.unwrap();
        let delta = StateDelta::new().with("catalogue", 7).unwrap();
        let app = StateOwner::app("demo").unwrap();
        client.store.sessions.put_state(&app, delta, PutStateOptions::by("support")).await.unwrap();
        let answer = client.send("GET", &format!("{OF_USER}?pageSize=1000"), None).await;
        assert_eq!(answer.status, 200);
        assert!(answer.body.len() < 5 * MIB, "{}", answer.body.len());
        let page = answer.json();
        assert_eq!(page["sessions"].as_array().unwrap().len(), 1000);
        assert_eq!(page["sessions"][0]["state"].as_object().unwrap().keys().collect::<Vec<_>>(), ["n"]);
        assert_eq!(page["userStates"]["u1"]["user:profile"].as_str().map(str::len), Some(profile.len()));
        assert_eq!(
            (page["userStates"].as_object().unwrap().len(), &page["appState"]),
            (1, &json!({"app:catalogue": 7}))
        );
        // ADK's clients are shown the shared state in each session. All sessions together exceed the limit of an
        // answer.
        let answer = client.send("GET", "/apps/demo/users/u1/sessions", None).await;
        assert_eq!(answer.status, 413);
        assert!(answer.json()["detail"].as_str().unwrap().contains("/v1/"), "{}", answer.text());
        // Google's clients are shown it too, but page by page.
        for order in ["update_time", "create_time"] {
            let answer = client.send("GET", &format!("{ENGINE}?pageSize=1000&orderBy={order}"), None).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.body.len() < 9 * MIB, "{}", answer.body.len());
            let page = answer.json();
            let (first, token) = (page["sessions"].as_array().unwrap().len(), page["nextPageToken"].as_str().unwrap());
            let next = client.get(&format!("{ENGINE}?pageSize=1000&orderBy={order}&pageToken={token}")).await.1;
            let (last, name) = (&page["sessions"][first - 1]["name"], &next["sessions"][0]["name"]);
            assert!(name.is_string() && name != last, "{name}");
        }
    }
}

#[tokio::test]
async fn a_list_of_an_app_has_the_state_of_each_of_its_users() {
    let client = TestClient::memory().await;
    for user in ["u1", "u2"] {
        let state = json!({"own": user, "user:name": user, "app:last": user});
        let config = CreateSessionConfig::default().with_session_id("s-1").with_state(state);
        client.store.sessions.create_session("demo", user, config).await.unwrap();
    }
    let page = client.get("/v1/apps/demo/sessions").await.1;
    assert_eq!(page["userStates"], json!({"u1": {"user:name": "u1"}, "u2": {"user:name": "u2"}}));
    assert_eq!(page["appState"], json!({"app:last": "u2"}));
    assert_eq!(page["sessions"][1]["state"], json!({"own": "u2"}));
    let nothing = client.get("/v1/apps/demo/users/nobody/sessions").await.1;
    assert_eq!(nothing, json!({"sessions": [], "userStates": {}, "appState": {}, "nextPageToken": null}));
}

#[tokio::test]
async fn pages_of_events_end_by_their_bytes_and_say_so() {
    let client = TestClient::memory().await;
    with_events(&client, 10, MIB).await;
    let (mut after, mut all) = (Some(0), Vec::new());
    while let Some(seq) = after {
        let answer = client.send("GET", &format!("{OF_USER}/s-1/events?limit=1000&after={seq}"), None).await;
        assert!(answer.body.len() < 5 * MIB, "{}", answer.body.len());
        all.extend(seqs(&answer.json()));
        after = answer.json()["next"].as_u64();
    }
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
    let (mut before, mut all) = (Some(11), Vec::new());
    while let Some(seq) = before {
        let answer = client.send("GET", &format!("{OF_USER}/s-1/events?limit=1000&before={seq}"), None).await;
        assert!(answer.body.len() < 5 * MIB, "{}", answer.body.len());
        drop(all.splice(0..0, seqs(&answer.json())));
        before = answer.json()["next"].as_u64();
    }
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
    let session = client.get(&format!("{OF_USER}/s-1?numRecentEvents=10")).await.1;
    assert_eq!((seqs(&session).last(), session["eventCount"].as_u64()), (Some(&10), Some(10)));
    assert!(seqs(&session).len() < 5, "{:?}", seqs(&session));
    // Pruned events are not on a page before the kept ones.
    client.store.sessions.prune(Prune::events(&key(), 4), 100).await.unwrap();
    let page = client.get(&format!("{OF_USER}/s-1/events?before=6")).await.1;
    assert_eq!((seqs(&page), &page["next"]), (vec![4, 5], &Value::Null));
}

#[tokio::test]
async fn adks_clients_are_told_of_a_session_that_is_larger_than_an_answer() {
    let client = small(ServerLimits::default().with_answer_bytes(5 * MIB)).await;
    with_events(&client, 10, MIB).await;
    let refused = client.send("GET", SESSION, None).await;
    assert_eq!(refused.status, 413);
    assert!(refused.json()["detail"].as_str().unwrap().contains("num_recent_events"), "{}", refused.text());
    for count in [0, 1, 3] {
        let answer = client.get(&format!("{SESSION}?num_recent_events={count}")).await;
        let events = answer.1["events"].as_array().unwrap();
        assert_eq!((answer.0, events.len()), (200, count));
        assert!(
            events
                .iter()
                .rev()
                .zip(["9 ", "8 ", "7 "])
                .all(|(event, begin)| { event["content"]["parts"][0]["text"].as_str().unwrap().starts_with(begin) })
        );
    }
    let (status, body) = client.get(&format!("{SESSION}?num_recent_events=many")).await;
    assert_eq!((status, body["detail"].as_str().unwrap().contains("many")), (400, true));
    // A write that was committed is not answered with a refusal.
    let answer = client.send("PATCH", SESSION, Some(&json!({"stateDelta": {"step": 1}}))).await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!({"step": 1})));
    assert!(answer.body.len() < 5 * MIB);
    let list = client.send("GET", "/apps/demo/users/u1/sessions", None).await;
    assert_eq!((list.status, list.json().as_array().map(Vec::len)), (200, Some(1)));
}

#[tokio::test]
async fn adks_clients_are_shown_a_session_of_many_pages_whole() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite://{}", folder.path().join("test.db").display());
    for uri in ["memory:", &sqlite] {
        let client = TestClient::over(uri).await;
        let events: Vec<_> = (0..2_500).map(|n| Event::new("agent").with_content(format!("say {n}"))).collect();
        let config = CreateSessionConfig::default().with_session_id("s-1").with_events(events);
        let config = config.with_state(json!({"own": 1, "user:name": "Ada"}));
        client.store.sessions.create_session("demo", "u1", config).await.unwrap();
        let text = |event: &Value| event["content"]["parts"][0]["text"].as_str().unwrap().to_owned();
        // Like ADK's server, this server ignores `num_recent_events`, unless the answer would be too large.
        let limits = ServerLimits::default().with_answer_bytes(500_000);
        let narrow = Server::builder(client.store.clone()).limits(limits).build().unwrap().router();
        let narrow = TestClient { store: client.store.clone(), router: narrow };
        for (client, query, first) in [
            (&client, "", 0),
            (&client, "?num_recent_events=5", 0),
            (&narrow, "?num_recent_events=1200", 1_300),
            (&narrow, "?num_recent_events=1", 2_499),
        ] {
            let session = client.get(&format!("{SESSION}{query}")).await.1;
            let texts: Vec<_> = session["events"].as_array().unwrap().iter().map(text).collect();
            assert_eq!(texts, (first..2_500).map(|n| format!("say {n}")).collect::<Vec<_>>());
            assert_eq!(session["state"], json!({"own": 1, "user:name": "Ada"}));
            let keys: Vec<_> = session.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["id", "appName", "userId", "state", "events", "lastUpdateTime"]);
        }
        assert_eq!(narrow.get(SESSION).await.0, 413);
        client.store.sessions.prune(Prune::events(&key(), 100), 1000).await.unwrap();
        let session = client.get(SESSION).await.1;
        assert_eq!(text(&session["events"][0]), "say 99");
        assert_eq!(session["events"].as_array().unwrap().len(), 2_401);
    }
}

#[tokio::test]
async fn a_state_that_is_larger_than_an_answer_is_read_by_its_keys() {
    let client = small(ServerLimits::default().with_answer_bytes(2 * MIB)).await;
    let state = json!({"a": "x".repeat(MIB), "b": "x".repeat(MIB), "c": 1});
    let config = CreateSessionConfig::default().with_session_id("s-1").with_state(state);
    client.store.sessions.create_session("demo", "u1", config).await.unwrap();
    for path in [SESSION, &format!("{OF_USER}/s-1"), &format!("{OF_USER}/s-1/state"), &format!("{ENGINE}/s-1")] {
        let answer = client.send("GET", path, None).await;
        assert_eq!(answer.status, 413, "{path}");
        assert!(answer.text().contains("2097152"), "{path}: {}", answer.text());
    }
    for path in
        [&format!("{OF_USER}/s-1?key=c"), &format!("{OF_USER}/s-1?state=none"), &format!("{OF_USER}/s-1/state/a")]
    {
        assert_eq!(client.send("GET", path, None).await.status, 200, "{path}");
    }
    // A write is answered nevertheless.
    let answer = client.send("PATCH", SESSION, Some(&json!({"stateDelta": {"c": 2}}))).await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!({})));
}

/// Answers that nobody reads hold their share of the memory until they are dropped.
#[tokio::test]
async fn all_answers_together_have_a_bound() {
    let store: Store = connect("memory:").await.unwrap();
    let limits = ServerLimits::default().with_answer_bytes(MIB);
    let router = Server::builder(store.clone()).limits(limits).build().unwrap().router();
    let config =
        CreateSessionConfig::default().with_session_id("s-1").with_state(json!({"a": "x".repeat(MIB - 2_000)}));
    store.sessions.create_session("demo", "u1", config).await.unwrap();
    let get = |path: &str| {
        use tower::ServiceExt;
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        router.clone().oneshot(request)
    };
    for path in [SESSION, &format!("{OF_USER}/s-1"), &format!("{ENGINE}/s-1")] {
        let mut held = Vec::new();
        let refused = loop {
            let answer = get(path).await.unwrap();
            if answer.status() != 200 {
                break answer;
            }
            held.push(answer);
        };
        assert_eq!((held.len(), refused.status().as_u16()), (8, 503), "{path}");
        assert_eq!(refused.headers()["retry-after"], "1");
        held.pop();
        assert_eq!(get(path).await.unwrap().status(), 200);
    }
}

/// A write that was committed is answered, even if other callers read their answers so slowly that no memory for answers
/// to reads is left. Otherwise, its client would send it again.
#[tokio::test]
async fn a_write_is_answered_while_reads_take_up_the_memory_for_answers() {
    let client = small(ServerLimits::default().with_answer_bytes(MIB)).await;
    let config =
        CreateSessionConfig::default().with_session_id("s-1").with_state(json!({"a": "x".repeat(MIB - 2_000)}));
    client.store.sessions.create_session("demo", "u1", config).await.unwrap();
    let get = || {
        use tower::ServiceExt;
        let request = axum::http::Request::get(SESSION).body(axum::body::Body::empty()).unwrap();
        client.router.clone().oneshot(request)
    };
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(get().await.unwrap());
    }
    assert!(held.iter().all(|answer| answer.status() == 200));
    assert_eq!(get().await.unwrap().status(), 503);
    // ADK's clients are shown the session without its large parts.
    let answer = client.send("PATCH", SESSION, Some(&json!({"stateDelta": {"step": 1}}))).await;
    assert_eq!((answer.status, &answer.json()["id"], &answer.json()["state"]), (200, &json!("s-1"), &json!({})));
    let text = "y".repeat(200 << 10);
    let event = json!({"author": "agent", "content": {"role": "model", "parts": [{"text": text}]}});
    let answer = client.send("POST", &format!("{OF_USER}/s-1/events"), Some(&json!({ "event": event }))).await;
    assert!(answer.status == 200 && answer.text().contains(&text), "{}", answer.status);
    let other = json!({"sessionId": "s-2", "state": {"b": "x".repeat(200 << 10)}});
    let answer = client.send("POST", "/apps/demo/users/u1/sessions", Some(&other)).await;
    assert_eq!((answer.status, &answer.json()["id"]), (200, &json!("s-2")));
    let session = client.store.sessions.get_session(&key(), &Default::default()).await.unwrap().unwrap();
    assert_eq!(session.events().len(), 2);
}

#[tokio::test]
async fn an_answer_says_how_long_it_is() {
    let client = TestClient::memory().await;
    with_events(&client, 2, MIB).await;
    for path in [SESSION, &format!("{OF_USER}/s-1"), "/apps/demo/users/u1/sessions"] {
        let answer: Answer = client.send("GET", path, None).await;
        let length = answer.header("content-length").map(|length| length.parse().unwrap());
        assert_eq!(length.unwrap_or(answer.body.len()), answer.body.len(), "{path}");
    }
}
