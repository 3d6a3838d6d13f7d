//! Sessions on ADK's surface, in cases that were not recorded or in which this server does better.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use scratchbook::session::{EventCursor, forward_sessions};
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, GetSessionConfig, Result, Session, SessionKey, SessionService,
    SessionServiceExt, Store, connect,
};
use scratchbook_server::Server;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::replay;
use crate::support::{TestClient, resolve};

const SESSIONS: &str = "/apps/demo/users/u1/sessions";

async fn ask(client: &TestClient, method: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = client.send(method, &format!("{SESSIONS}{path}"), Some(&body)).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn an_exported_session_is_imported_whole_and_leaves_user_and_app_alone() {
    let client = TestClient::memory().await;
    ask(&client, "POST", "/old", json!({"k": 0, "z": 1, "user:lang": "en"})).await;
    for delta in [
        json!({"k": 1, "user:lang": "fr", "app:x": 1, "gone": true}),
        json!({"gone": "__ADK_SENTINEL_REMOVED__", "temp:t": 1}),
    ] {
        ask(&client, "PATCH", "/old", json!({"stateDelta": delta})).await;
    }
    let (_, exported) = client.get(&format!("{SESSIONS}/old")).await;
    ask(&client, "PATCH", "/old", json!({"stateDelta": {"user:lang": "de", "app:x": 2, "k": 2}})).await;

    // The body that ADK's interface sends.
    let import = json!({"events": exported["events"], "state": exported["state"]});
    let (status, made) = ask(&client, "POST", "", import).await;
    assert_eq!(status, 200, "{made}");
    let (_, read) = client.get(&format!("{SESSIONS}/{}", made["id"].as_str().unwrap())).await;
    assert_eq!(made, read);
    assert_eq!(read["events"], exported["events"]);
    assert_eq!(read["lastUpdateTime"], exported["lastUpdateTime"]);
    assert_eq!(read["state"], json!({"k": 1, "z": 1, "user:lang": "de", "app:x": 2}));

    let key = SessionKey::new("demo", "u1", made["id"].as_str().unwrap()).unwrap();
    let sessions = &client.store.sessions;
    assert_eq!(sessions.verify_session(&key).await.unwrap().unwrap().events, 2);
    for owner in [key.user(), key.app()] {
        sessions.verify_state(&owner).await.unwrap();
    }
}

#[tokio::test]
async fn of_events_that_cannot_be_taken_nothing_is_made() {
    let client = TestClient::memory().await;
    let with = |events: Value| json!({"sessionId": "s", "state": {"user:a": 1}, "events": events});
    let call =
        json!({"content": {"parts": [{"functionResponse": {"name": "adk_request_confirmation", "response": {}}}]}});
    for (events, detail) in [
        (json!([{"id": "a"}, {"id": "b"}, {"id": "a"}]), "Session initialization event 2 has the id of event 0: a."),
        (json!([{}, call]), "Session initialization event 1 cannot include ADK protocol function calls."),
        (json!([{"timestamp": 1_700_000_000_000_u64}]), "it looks like milliseconds"),
        (json!([{"id": "a\nb"}]), "control character"),
    ] {
        let (status, body) = ask(&client, "POST", "", with(events)).await;
        assert!(status == 400 && body["detail"].as_str().unwrap().contains(detail), "{body}");
    }
    assert_eq!(client.get(SESSIONS).await, (200, json!([])));
    ask(&client, "POST", "/other", json!({})).await;
    assert_eq!(client.get(&format!("{SESSIONS}/other")).await.1["state"], json!({}));
}

#[tokio::test]
async fn of_events_partial_ones_unknown_fields_and_internal_metadata_are_left_out() {
    let client = TestClient::memory().await;
    let events = json!([
        {"author": "a", "partial": true, "id": "x"},
        {"author": "a", "id": "x", "bogus": {"deep": 1}, "nodeInfo": {"path": "p", "bogus": 1}, "groundingMetadata":
            {"web_search_queries": ["q"], "groundingChunks": null}, "customMetadata": {"__adk_internal_restored_event": 1}},
    ]);
    let (status, made) = ask(&client, "POST", "", json!({"events": events})).await;
    assert_eq!((status, made["events"].as_array().map(Vec::len)), (200, Some(1)), "{made}");
    let event = &made["events"][0];
    assert_eq!(event["groundingMetadata"], json!({"webSearchQueries": ["q"]}));
    assert_eq!(
        (&event["nodeInfo"], &event["bogus"], &event["customMetadata"]),
        (&json!({"path": "p"}), &Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn what_others_have_stored_is_shown_with_adks_keys_alone() {
    let client = TestClient::memory().await;
    client.session("demo", "u1", "s").await;
    let key = SessionKey::new("demo", "u1", "s").unwrap();
    let text = r#"{"author": "a", "id": "e", "timestamp": 5.5, "invocationId": "i", "newer": 1,
        "nodeInfo": {"path": "", "newer": 1}, "customMetadata": {"__adk_internal_x": 1, "ok": {"authType": "http"}}}"#;
    client.store.sessions.append(&key, Event::from_json(text).unwrap(), AppendOptions::default()).await.unwrap();
    let (_, session) = client.get(&format!("{SESSIONS}/s")).await;
    let actions =
        json!({"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}});
    let event = json!({"author": "a", "id": "e", "timestamp": 5.5, "invocationId": "i", "nodeInfo": {"path": ""},
        "customMetadata": {"ok": {"authType": "http"}}, "actions": actions});
    let whole =
        json!({"id": "s", "appName": "demo", "userId": "u1", "state": {}, "events": [event], "lastUpdateTime": 5.5});
    assert_eq!(session, whole);
}

#[tokio::test]
async fn credentials_are_kept_and_not_shown() {
    let client = TestClient::memory().await;
    let credential = json!({"authType": "oauth2", "oauth2": {"clientId": "me", "accessToken": "hunter2"}});
    let (_, made) = ask(&client, "POST", "/s", json!({"c": credential, "list": [{"apiKey": "mine"}]})).await;
    let shown = json!({"c": {"authType": "oauth2", "oauth2": {"clientId": "me"}}, "list": [{"apiKey": "mine"}]});
    assert_eq!(made["state"], shown);
    let (_, patched) = ask(&client, "PATCH", "/s", json!({"stateDelta": {"c": credential}})).await;
    let (_, listed) = client.get(SESSIONS).await;
    assert!(!patched.to_string().contains("hunter2") && !listed.to_string().contains("hunter2"));
    let key = SessionKey::new("demo", "u1", "s").unwrap();
    let stored =
        client.store.sessions.get_session(&key, &scratchbook::GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(stored.state().get("c"), Some(&credential));
}

#[tokio::test]
async fn ids_are_trimmed_whatever_is_asked() {
    let client = TestClient::memory().await;
    assert_eq!(ask(&client, "POST", "/%20s%C2%A0", json!({})).await.1["id"], "s");
    for id in ["s", "%09s", "s%20%20"] {
        assert_eq!(client.get(&format!("{SESSIONS}/{id}")).await.0, 200);
        assert_eq!(ask(&client, "PATCH", &format!("/{id}"), json!({"stateDelta": {}})).await.0, 200);
    }
    let (status, body) = ask(&client, "POST", "", json!({"sessionId": " s "})).await;
    assert_eq!((status, &body["detail"]), (409, &json!("Session already exists:  s ")));
    assert_eq!(client.send("DELETE", &format!("{SESSIONS}/%20s"), None).await.text(), "null");
    assert_eq!(client.get(&format!("{SESSIONS}/s")).await.0, 404);
}

#[tokio::test]
async fn a_list_is_sent_in_pieces_however_much_all_of_it_shows() {
    let client = TestClient::memory().await;
    ask(&client, "POST", "/s-0", json!({"user:long": "x".repeat(100_000)})).await;
    for n in 1..20 {
        client.session("demo", "u1", &format!("s-{n}")).await;
    }
    let router = Server::builder(client.store.clone()).build().unwrap().router();
    let mut body = router.oneshot(Request::get(SESSIONS).body(Body::empty()).unwrap()).await.unwrap().into_body();
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let piece = frame.unwrap().into_data().unwrap();
        assert!(piece.len() < 200_000, "{}", piece.len());
        whole.extend_from_slice(&piece);
    }
    let listed: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 20);
    assert!(listed.as_array().unwrap().iter().all(|session| session["state"]["user:long"].is_string()));
}

#[tokio::test]
async fn a_list_has_all_pages_and_hides_what_evaluation_made() {
    let client = TestClient::memory().await;
    for id in ["adk-eval-session-1", "___eval___session___2"] {
        client.session("demo", "u1", id).await;
        assert_eq!(client.get(&format!("{SESSIONS}/{id}")).await.0, 200);
    }
    for n in 0..1001 {
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_create_time(f64::from(n));
        client.store.sessions.create_session("demo", "u1", config).await.unwrap();
    }
    let (_, listed) = client.get(SESSIONS).await;
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids[0], ids[1000]), (1001, "s0", "s1000"));
}

#[tokio::test]
async fn a_path_is_decoded_once_and_has_no_slash_in_a_name() {
    let client = TestClient::memory().await;
    for id in ["a/b", "a%2Fb", "...", "é😀", "100%"] {
        client.session("demo", "u1", id).await;
    }
    let not_found = (404, json!({"detail": "Not Found"}));
    assert_eq!(client.get(&format!("{SESSIONS}/a%2Fb")).await, not_found);
    assert_eq!(client.get("/apps/demo/users/u%2F1/sessions").await, not_found);
    for (path, id) in [("a%252Fb", "a%2Fb"), ("%2E%2e.", "..."), ("%C3%A9%F0%9F%98%80", "é😀"), ("100%", "100%")] {
        assert_eq!(client.get(&format!("{SESSIONS}/{path}")).await.1["id"], id);
    }
    for path in ["%zz", "%ff", "%2E"] {
        let no_session = (404, json!({"detail": "Session not found"}));
        assert_eq!(client.get(&format!("{SESSIONS}/{path}")).await, no_session, "{path}");
    }
    let (status, body) = client.get("/v1/apps/demo/users/u1/sessions/a%2Fb").await;
    assert_eq!((status, &body["id"]), (200, &json!("a/b")));
}

/// A client cannot send these ids in a path: its URL parser takes them for steps to another place.
#[tokio::test]
async fn ids_that_no_url_can_name_are_refused_by_every_route_that_creates() {
    let client = TestClient::memory().await;
    client.session("demo", "u1", "s-1").await;
    let artifact = json!({"filename": "..", "artifact": {"text": "x"}});
    let event = json!({"event": {"id": "..", "author": "x"}});
    let engine = json!({"author": "x", "timestamp": "2026-01-01T00:00:00Z", "rawEvent": {"id": ".."}});
    let message = json!({"role": "user", "parts": [{"text": "x"}]});
    let run = json!({"message": message, "invocationId": ".."});
    let put = json!({"author": "x", "stateDelta": {"k": 1}});
    let patch = json!({"author": "x", "stateDelta": {"k": 1}, "eventId": "."});
    for (method, path, body) in [
        ("POST", "/apps/demo/users/u1/sessions", json!({"sessionId": ".."})),
        ("POST", "/apps/demo/users/%2E%2E/sessions", json!({})),
        ("POST", "/apps/%2E/users/u1/sessions", json!({})),
        ("POST", "/apps/demo/users/u1/sessions/%2e%2e", json!({})),
        ("POST", "/apps/demo/users/u1/sessions", json!({"events": [{"id": "..", "author": "x"}]})),
        ("POST", "/apps/demo/users/u1/sessions/s-1/artifacts", artifact),
        ("POST", "/v1/apps/demo/users/u1/sessions", json!({"id": ".."})),
        ("POST", "/v1/apps/demo/users/u1/sessions/s-1/fork", json!({"id": "."})),
        ("POST", "/v1/apps/demo/users/u1/sessions/s-1/events", event),
        ("POST", "/v1/apps/demo/users/u1/sessions/s-1/runs", run),
        ("PATCH", "/v1/apps/demo/users/u1/sessions/s-1/state", patch),
        ("PATCH", "/v1/apps/demo/users/%2E%2E/state", put.clone()),
        ("PATCH", "/v1/apps/%2E%2E/state", put),
        ("POST", "/v1/reasoningEngines/demo/sessions", json!({"userId": ".."})),
        ("POST", "/v1/reasoningEngines/demo/sessions/s-1:appendEvent", engine),
    ] {
        let answer = client.send(method, path, Some(&body)).await;
        assert_eq!(answer.status, 400, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
    }
    let listed = client.store.sessions.list_sessions("demo", &Default::default()).await.unwrap();
    assert_eq!(listed.sessions.len(), 1);
    assert!(listed.sessions[0].state().is_empty());
}

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_refused_with_the_first_route_of_adk() {
    let client = TestClient::memory().await;
    client.session("demo", "u1", "s").await;
    for (path, allowed) in
        [(SESSIONS, "GET"), ("/apps/demo/users/u1/memory", "PATCH"), ("/run", "POST"), ("/health", "GET")]
    {
        for method in ["HEAD", "OPTIONS", "TRACE", "PUT", "FOO"] {
            let answer = client.send(method, path, None).await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_slash_at_the_end_is_taken_away_by_a_redirect() {
    let client = TestClient::memory().await;
    let ask = async |router: Router, method: &str, path: &str| {
        let request =
            Request::builder().method(method).uri(path).header("host", "me:8000").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let location = response.headers().get("location").map(|location| location.to_str().unwrap().to_owned());
        (response.status().as_u16(), location, response.into_body().collect().await.unwrap().to_bytes().len())
    };
    let server = replay::server(client.store.clone());
    for method in ["GET", "POST", "PATCH", "DELETE", "FOO"] {
        let path = "/apps/a%20b/users/u/sessions/s//?x=1&y";
        let (status, to, length) = ask(server.clone(), method, path).await;
        assert_eq!((status, length), (307, 0), "{method}");
        // No scheme and no host, which a proxy may have changed.
        let to = to.unwrap();
        assert_eq!(to, "../../../../../../../apps/a%20b/users/u/sessions/s?x=1&y", "{method}");
        assert_eq!(resolve(path, &to), "/apps/a%20b/users/u/sessions/s?x=1&y");
    }
    for path in ["/nope/", "/", "//", "/apps/", "//list-apps/"] {
        assert_eq!(ask(server.clone(), "GET", path).await.0, 404, "{path}");
    }
    let below = Router::new().nest("/below", server);
    let to = Some("../list-apps".to_owned());
    assert_eq!(ask(below.clone(), "GET", "/below/list-apps/").await, (307, to, 0));
    assert_eq!(ask(below, "GET", "/below/apps/demo/users/u%201/sessions").await.0, 200);
}

#[tokio::test]
async fn state_is_in_no_message() {
    let client = TestClient::memory().await;
    let secret = "hunter2".repeat(300);
    for body in [
        json!({"stateDelta": {"k": nested(&secret)}}),
        json!({"stateDelta": {"k": "__ADK_SENTINEL_REMOVED__", "bad\u{0}key": secret}}),
    ] {
        client.session("demo", "u1", "s").await;
        let (status, answer) = ask(&client, "PATCH", "/s", body).await;
        assert!((400..500).contains(&status), "{status}");
        assert!(!answer.to_string().contains(&secret), "{answer}");
        client.send("DELETE", &format!("{SESSIONS}/s"), None).await;
    }
}

fn nested(secret: &str) -> Value {
    (0..110).fold(json!(secret), |value, _| json!([value]))
}

#[tokio::test]
async fn a_change_with_an_idempotency_key_is_stored_once() {
    let client = TestClient::memory().await;
    ask(&client, "POST", "/s-1", json!({})).await;
    let patch = async |keys: &[&str], delta: Value| {
        let mut request = Request::patch(format!("{SESSIONS}/s-1")).header("content-type", "application/json");
        for key in keys {
            request = request.header("idempotency-key", *key);
        }
        let answer = client.request(request.body(json!({"stateDelta": delta}).to_string().into()).unwrap()).await;
        (answer.status, answer.json())
    };
    let first = patch(&["k-1"], json!({"n": 1, "temp:t": 1})).await;
    assert_eq!((first.0, &first.1["state"], &first.1["events"][0]["id"]), (200, &json!({"n": 1}), &json!("k-1")));
    assert_eq!(first, patch(&["k-1"], json!({"n": 1})).await, "a repeat is answered as the first was");
    let (status, refused) = patch(&["k-1"], json!({"n": 2})).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(patch(&["k-2"], json!({"n": 1})).await.1["events"].as_array().unwrap().len(), 2);
    assert_eq!(patch(&[], json!({"n": 1})).await.1["events"].as_array().unwrap().len(), 3);
    for (bad, said) in
        [(vec![""], "is empty"), (vec!["a", "a"], "is there twice"), (vec![&*"x".repeat(511)], "has 511 bytes")]
    {
        let (status, refused) = patch(&bad, json!({"n": 3})).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["detail"].as_str().unwrap().contains(said), "{refused}");
    }
    let (_, read) = client.get(&format!("{SESSIONS}/s-1")).await;
    assert_eq!((&read["state"], read["events"].as_array().unwrap().len()), (&json!({"n": 1}), 3));
}

/// A store in which a session is pruned whenever its second page is read.
#[derive(Debug)]
struct AlwaysMoves(Arc<dyn SessionService>);

#[async_trait]
impl SessionService for AlwaysMoves {
    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        match config.cursor {
            Some(EventCursor::After { seq, .. }) if seq > 0 => Ok(None),
            _ => self.0.get_session(key, config).await,
        }
    }

    forward_sessions!(self.0 =>
        append, capabilities, get_initial_state, get_state_at, blame, create_session, list_sessions, fork_session,
        locate_session, delete_session, put_state, get_state, state_bytes, list_state, list_state_changes, list_feed, commits,
        update_session, prune, list_event_hashes, list_owners, delete_user, check_writable, close);
}

#[tokio::test]
async fn session_that_is_changed_all_the_time_is_shown_in_part_after_a_write() {
    let inner = connect("memory:").await.unwrap();
    let store = Store::of(Arc::new(AlwaysMoves(inner.sessions.clone())), inner.artifacts.clone());
    let client = TestClient::new(store, |server| server);
    ask(&client, "POST", "/s", json!({"k": 0})).await;
    let key = SessionKey::new("demo", "u1", "s").unwrap();
    for _ in 0..600 {
        inner.sessions.append(&key, Event::new("agent"), AppendOptions::default()).await.unwrap();
    }
    assert_eq!(client.get(&format!("{SESSIONS}/s")).await.0, 503);
    let (status, session) = ask(&client, "PATCH", "/s", json!({"stateDelta": {"k": 1}})).await;
    assert_eq!((status, &session["state"]["k"]), (200, &json!(1)), "{session}");
    assert_eq!(session["events"].as_array().unwrap().last().unwrap()["author"], "user");
}
