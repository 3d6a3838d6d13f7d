//! Our client over the endpoint, in cases that the suite of promises cannot test, because the API lacks what it needs.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use scratchbook::content::Part;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::{Expiry, ListSessionsConfig, Prune, SessionUpdate};
use scratchbook::{
    AppendOptions, Content, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, LlmAgent, RunRequest, Runner,
    SessionKey, SessionServiceExt, StateDelta, connect,
};
use scratchbook_server::Server;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{over_memory, serve};

fn saying(n: usize) -> Event {
    Event::new("user").with_content(n.to_string()).with_timestamp(n as f64).with_id(format!("e{n}"))
}

fn changing(state: Value) -> Event {
    Event::new("agent").with_state_delta(StateDelta::try_from(state).unwrap())
}

fn ids(events: &scratchbook::session::Events) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_the_user_and_the_app_are_shared_and_temp_keys_gone() {
    let sessions = over_memory().await.sessions;
    let state = json!({"own": 1, "user:u": 1, "app:a": 1, "temp:t": 1});
    let config = CreateSessionConfig::default().with_state(state);
    let mut first = sessions.create_session("shop", "alice", config).await.unwrap();
    let second = sessions.create_session("shop", "alice", Default::default()).await.unwrap();
    let other = sessions.create_session("shop", "bob", Default::default()).await.unwrap();
    let foreign = sessions.create_session("bank", "alice", Default::default()).await.unwrap();
    assert_eq!(json!(first.state()), json!({"own": 1, "user:u": 1, "app:a": 1}));

    let mut delta = StateDelta::try_from(json!({"user:u": 2, "app:a": 2, "temp:t": 2, "list": [1.5, null]})).unwrap();
    delta.remove("own").unwrap();
    let given = sessions.append_event(&mut first, Event::new("agent").with_state_delta(delta)).await.unwrap();
    assert!(!serde_json::to_string(&given).unwrap().contains("temp:"));
    assert_eq!(json!(first.state()), json!({"list": [1.5, null], "user:u": 2, "app:a": 2, "temp:t": 2}));
    let of = async |key: &SessionKey| {
        let read = sessions.get_session(key, &GetSessionConfig::default()).await.unwrap().unwrap();
        json!(read.state())
    };
    assert_eq!(of(first.key()).await, json!({"list": [1.5, null], "user:u": 2, "app:a": 2}));
    assert_eq!(of(second.key()).await, json!({"user:u": 2, "app:a": 2}));
    assert_eq!(of(other.key()).await, json!({"app:a": 2}));
    assert_eq!(of(foreign.key()).await, json!({}));
    let read = sessions.get_session(first.key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert!(!serde_json::to_string(&read).unwrap().contains("temp:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_and_fifty_events_are_read_whole_or_in_part() {
    let store = over_memory().await;
    let sessions = &store.sessions;
    let session = sessions.create_session("shop", "alice", Default::default()).await.unwrap();
    let key = session.key();
    for n in 1..=250 {
        sessions.append(key, saying(n), AppendOptions::default()).await.unwrap();
    }
    let read = async |config: GetSessionConfig| sessions.get_session(key, &config).await.unwrap().unwrap();
    let expected = |from: usize, to: usize| (from..=to).map(|n| format!("e{n}")).collect::<Vec<_>>();
    let all = read(GetSessionConfig::default()).await;
    assert_eq!((ids(all.events()), all.seq()), (expected(1, 250).iter().map(String::as_str).collect(), 250));
    assert!(all.events().iter().zip(1..).all(|(event, seq)| event.seq == Some(seq)));
    for (config, from, to) in [
        (GetSessionConfig::default().with_num_recent_events(120), 131, 250),
        (GetSessionConfig::default().with_num_recent_events(1), 250, 250),
        (GetSessionConfig::default().with_num_recent_events(1000), 1, 250),
        (GetSessionConfig::default().with_after_timestamp(101.0), 101, 250),
        (GetSessionConfig::default().with_after_timestamp(100.5).with_num_recent_events(7), 244, 250),
        (GetSessionConfig::default().with_after_timestamp(240.0).with_num_recent_events(100), 240, 250),
        (GetSessionConfig::default().with_events_after(150, 30), 151, 180),
        (GetSessionConfig::default().with_events_before(150, 30), 120, 149),
    ] {
        let part = read(config.clone()).await;
        assert_eq!(ids(part.events()), expected(from, to), "{config:?}");
    }
    assert!(read(GetSessionConfig::default().with_after_timestamp(251.0)).await.events().is_empty());
    let page = read(GetSessionConfig::default().with_events_after(150, 30)).await;
    assert_eq!((page.events().get(0).unwrap().seq, page.known_seq()), (Some(151), Some(250)));
    // Over the server, the session can be read page by page to the end.
    let api = Server::builder(store.clone()).build().unwrap().router();
    let path = |rest: &str| format!("/v1/apps/shop/users/alice/sessions/{}{rest}", session.id());
    for (way, begin) in [("after", 0), ("before", 251)] {
        let (mut found, mut at) = (BTreeSet::new(), Some(begin));
        while let Some(from) = at {
            let page = get(&api, &path(&format!("/events?{way}={from}&limit=100"))).await;
            assert_eq!(page["eventCount"], 250);
            found.extend(page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
            at = page["next"].as_u64();
        }
        assert!(found.into_iter().eq(1..=250), "{way}");
    }
    assert_eq!(get(&api, &path("")).await["eventCount"], json!(null), "it is not counted");
    assert_eq!(get(&api, &path("/state")).await["seq"], json!(null));
}

async fn get(api: &axum::Router, path: &str) -> Value {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = api.clone().oneshot(request).await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_and_fifty_sessions_are_found_by_pages() {
    let sessions = over_memory().await.sessions;
    for n in 0..250 {
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_title(format!("t{}", n % 5));
        let config = config.with_label("tier", ["gold", "plain"][n % 2]).with_label("a.b", "\"x\\");
        sessions.create_session("shop", ["al\"ice", "bob"][n % 2], config).await.unwrap();
    }
    let all = async |config: ListSessionsConfig| {
        let (mut found, mut config) = (BTreeSet::new(), config);
        loop {
            let page = sessions.list_sessions("shop", &config).await.unwrap();
            assert!(page.sessions.len() <= config.page_size);
            for session in &page.sessions {
                assert!(found.insert(session.id().to_owned()), "{} comes twice", session.id());
            }
            match page.next_page_token {
                Some(token) => config = config.with_page_token(token),
                None => return found.len(),
            }
        }
    };
    let config = || ListSessionsConfig::default().with_page_size(60);
    assert_eq!(all(config()).await, 250);
    assert_eq!(all(config().newest_first()).await, 250);
    assert_eq!(all(config().with_user_id("al\"ice")).await, 125);
    assert_eq!(all(config().with_title("t3")).await, 50);
    assert_eq!(all(config().with_label("tier", "gold").with_label("a.b", "\"x\\").with_title("t0")).await, 25);
    assert_eq!(all(config().with_user_id("carol")).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rich_event_comes_back_whole() {
    let sessions = over_memory().await.sessions;
    let mut session = sessions.create_session("shop", "alice", Default::default()).await.unwrap();
    let sent = json!({
        "modelVersion": "m", "author": "agent \u{1f916}", "invocationId": "i", "id": "e", "timestamp": 1_795_194_011.317_562_8,
        "content": {"role": "model", "parts": [{"text": "x\u{0}", "thought": true, "thoughtSignature": "-_-_"},
            {"functionCall": {"id": "c", "name": "f", "args": {"n": 1.0, "m": null}}},
            {"functionResponse": {"id": "c", "name": "f", "response": {"ok": true}}},
            {"inlineData": {"data": "AAEC_w==", "mimeType": "a/b"}}, {"fileData": {"fileUri": "gs://x", "mimeType": "t/p"}},
            {"executableCode": {"code": "1", "language": "PYTHON"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}]},
        "groundingMetadata": {"chunks": [1]}, "usageMetadata": {"totalTokenCount": 3}, "customMetadata": {"k": {"z": 1, "a": 2}},
        "longRunningToolIds": ["c"], "branch": "a.b", "turnComplete": true, "errorCode": "E", "finishReason": "STOP",
        "zFuture": [0.1], "actions": {"stateDelta": {"b": -0.0, "a": {"z": 1, "a": 2}}, "artifactDelta": {"f": 3},
            "requestedAuthConfigs": {"c": {"x": 1}}, "escalate": false}
    });
    let event = Event::from_json(&sent.to_string()).unwrap();
    let given = sessions.append_event(&mut session, event.clone()).await.unwrap();
    assert_eq!((given.as_ref(), session.known_seq()), (&event, None));
    let read = sessions.get_session(session.key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    let stored = read.events().last().unwrap();
    assert_eq!(serde_json::to_string(stored.as_ref()).unwrap(), serde_json::to_string(&event).unwrap());
    assert_eq!(stored.timestamp.unwrap().to_bits(), 1_795_194_011.317_562_8_f64.to_bits());
    // The event is sent again with the same id and time. The server recognizes it, so it is still stored once.
    sessions.append_event(&mut session, event).await.unwrap();
    sessions.refresh(&mut session).await.unwrap();
    assert_eq!((session.events().len(), session.seq()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_labels_and_ends_are_changed() {
    let sessions = over_memory().await.sessions;
    let config = CreateSessionConfig::default().with_title("one").with_label("a", "1").with_label("b", "2");
    let config = config.with_time_to_live(Duration::from_secs(3600));
    let session = sessions.create_session("shop", "alice", config).await.unwrap();
    let key = session.key().clone();
    assert!(session.expire_time().unwrap() > session.create_time().unwrap());
    let update =
        SessionUpdate::default().with_title("two").with_label("b", "3").without_label("a").with_label("c", "4");
    sessions.update_session(&key, update.with_expiry(Expiry::At(4_000_000_000.5))).await.unwrap();
    let read = async || sessions.get_session(&key, &GetSessionConfig::state_only()).await.unwrap().unwrap();
    let session = read().await;
    assert_eq!((session.title(), json!(session.labels())), (Some("two"), json!({"b": "3", "c": "4"})));
    assert_eq!(session.expire_time(), Some(4_000_000_000.5));
    let nothing = SessionUpdate::default().without_title().without_other_labels().with_expiry(None);
    sessions.update_session(&key, nothing).await.unwrap();
    let session = read().await;
    assert_eq!((session.title(), session.labels().len(), session.expire_time()), (None, 0, None));
    sessions.set_expiry(&key, Some(Expiry::After(Duration::from_millis(300)))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().is_none());
    assert_eq!(sessions.prune(Prune::Expired, 100).await.unwrap(), 0, "the server sees to it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_runs_and_goes_on_over_the_client() {
    let url = serve().await;
    let uri = format!("vertexai://projects/p/locations/l/reasoningEngines/shop?endpoint={url}");
    let store = connect(&uri).await.unwrap();
    let session = store.sessions.create_session("my app", "alice", Default::default()).await.unwrap();
    let agent = LlmAgent::builder("greeter").model(ScriptedLlm::new(["Hello.", "And again."])).output_key("user:said");
    let runner = Runner::builder("my app", agent.build().unwrap(), store.sessions.clone()).build().unwrap();
    for answer in ["Hello.", "And again."] {
        let request = RunRequest::message("hi").with_state_delta(StateDelta::new().with("temp:t", 1).unwrap());
        let events: Vec<_> = runner.run("alice", session.id(), request).try_collect().await.unwrap();
        assert_eq!(events.last().unwrap().content.as_ref().map(Content::text).as_deref(), Some(answer));
    }
    let read = store.sessions.get_session(session.key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!((read.events().len(), json!(read.state())), (4, json!({"user:said": "And again."})));
    // The server's own store has the same session under the engine's name.
    let direct = connect(&format!("vertexai://projects/p/locations/l?endpoint={url}")).await.unwrap();
    let found = direct.sessions.locate_session("shop", session.id()).await.unwrap().unwrap();
    assert_eq!(found.user_id(), "alice");
    let refused = store.artifacts.save_artifact(session.key(), "f", Part::text("x"), Default::default()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    store.sessions.append(session.key(), changing(json!({"n": 1})), AppendOptions::default()).await.unwrap();
}
