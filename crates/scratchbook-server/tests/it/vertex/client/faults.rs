//! Our client against servers that are busy, slow, broken or strict.

use std::time::{Duration, Instant};

use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, ListSessionsConfig, SessionKey,
    SessionService, StateDelta, VertexAiCredentials, VertexAiSessionService,
};
use serde_json::{Value, json};

use super::scripted::{Answer, Script, error, ok, text};

const NAME: &str = "projects/p1/locations/l1/reasoningEngines/7/sessions/s";

fn session() -> Value {
    json!({"name": NAME, "userId": "alice", "createTime": "2026-01-01T00:00:00Z",
        "updateTime": "2026-01-01T00:00:01Z", "sessionState": {"a": 1}})
}

fn event(n: u32) -> Value {
    json!({"name": format!("{NAME}/events/{n}"), "author": "agent", "invocationId": "i",
        "timestamp": format!("2026-01-01T00:00:{n:02}Z"), "rawEvent": {"id": format!("e{n}")}})
}

fn made() -> Answer {
    ok(json!({"name": format!("{NAME}/operations/1"), "done": true,
        "response": with_type(session())}))
}

fn with_type(mut session: Value) -> Value {
    session["@type"] = json!("type.googleapis.com/google.cloud.aiplatform.v1.Session");
    session
}

fn key() -> SessionKey {
    SessionKey::new("7", "alice", "s").unwrap()
}

fn hello() -> Event {
    Event::new("user").with_content("hello").with_state_delta(StateDelta::new().with("a", "S3CRET").unwrap())
}

async fn append(client: &VertexAiSessionService) -> scratchbook::Result<scratchbook::Committed> {
    client.append(&key(), hello(), AppendOptions::default()).await
}

#[tokio::test]
async fn busy_servers_are_asked_again() {
    let busy = [error(429, "RESOURCE_EXHAUSTED"), error(503, "UNAVAILABLE")];
    let then = |last: Answer| [&busy[..], &[last]].concat();
    let (get, append_to, create) = (then(ok(session())), then(ok(json!({}))), then(made()));
    let answers = [("get", &get[..]), ("append", &append_to[..]), ("create", &create[..])];
    let (script, client) = Script::client(&answers).await;
    assert!(client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap().is_some());
    append(&client).await.unwrap();
    client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap();
    assert_eq!(["get", "append", "create"].map(|method| script.asked(method).len()), [3, 3, 3]);
}

#[tokio::test]
async fn an_append_of_unknown_outcome_is_sent_once() {
    for (answer, kind) in [
        (error(500, "INTERNAL"), ErrorKind::Internal),
        (text(502, "<html>bad gateway</html>"), ErrorKind::Unavailable),
        (error(504, "DEADLINE_EXCEEDED"), ErrorKind::Unavailable),
        (ok(json!({})).after(900), ErrorKind::Unavailable),
        (text(200, "no JSON"), ErrorKind::DataCorrupted),
    ] {
        let (script, client) =
            Script::client(&[("get", &[ok(session())]), ("append", std::slice::from_ref(&answer))]).await;
        let error = append(&client).await.unwrap_err();
        assert_eq!((error.kind(), script.asked("append").len()), (kind, 1), "{answer:?}: {error}");
        assert!(!format!("{error:?}").contains("S3CRET"), "{error:?}");
    }
}

#[tokio::test]
async fn a_read_is_tried_again_whatever_became_of_it() {
    let answers = [error(500, "INTERNAL"), ok(session()).after(900), text(502, "bad gateway"), ok(session())];
    let (script, client) = Script::client(&[("get", &answers)]).await;
    assert!(client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap().is_some());
    assert_eq!(script.asked("get").len(), 4);
}

#[tokio::test]
async fn patience_ends() {
    let (script, options) = Script::serve(&[("get", &[error(503, "UNAVAILABLE")])]).await;
    let options = options.with_retry_timeout(Duration::from_millis(600));
    let client = VertexAiSessionService::open(options).await.unwrap();
    let (begun, refused) = (Instant::now(), client.get_session(&key(), &GetSessionConfig::state_only()).await);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() < Duration::from_secs(10) && script.asked("get").len() > 1);
}

#[tokio::test]
async fn nobody_there_is_unavailable_and_nothing_was_done() {
    let (_, options) = Script::serve(&[]).await;
    let options = options.with_endpoint("http://127.0.0.1:9").with_retry_timeout(Duration::ZERO);
    let client = VertexAiSessionService::open(options).await.unwrap();
    let error = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.to_string().contains("not known"), "{error}");
}

#[tokio::test]
async fn an_operation_is_waited_for() {
    let begun = ok(json!({"name": format!("{NAME}/operations/1"), "done": false}));
    let answers = [begun.clone(), error(503, "UNAVAILABLE"), begun.clone(), made()];
    let (script, client) = Script::client(&[("create", &[begun]), ("operation", &answers)]).await;
    let session = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap();
    assert_eq!((session.id(), session.state().get("a")), ("s", Some(&json!(1))));
    assert_eq!((script.asked("create").len(), script.asked("operation").len()), (1, 4));
    assert!(script.asked("operation")[0].path.starts_with(&format!("/v1/{NAME}/operations/1?")));
}

#[tokio::test]
async fn an_operation_that_takes_too_long_has_an_unknown_outcome() {
    let begun = ok(json!({"name": format!("{NAME}/operations/1")}));
    let (_, options) =
        Script::serve(&[("create", std::slice::from_ref(&begun)), ("operation", std::slice::from_ref(&begun))]).await;
    let client = VertexAiSessionService::open(options.with_create_timeout(Duration::from_millis(700))).await.unwrap();
    let error = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("0.7 s") && error.to_string().contains("not known"), "{error}");
}

#[tokio::test]
async fn an_operation_that_failed_says_why() {
    let failed = |code: u16| {
        ok(json!({"name": format!("{NAME}/operations/1"), "done": true, "error": {"code": code, "message": "why"}}))
    };
    for (code, kind) in
        [(6, ErrorKind::AlreadyExists), (3, ErrorKind::InvalidArgument), (7, ErrorKind::PermissionDenied)]
    {
        let (_, client) = Script::client(&[("create", &[failed(code)])]).await;
        let config = CreateSessionConfig::default().with_session_id("s");
        assert_eq!(client.create_session("7", "alice", config).await.unwrap_err().kind(), kind);
    }
}

#[tokio::test]
async fn a_status_is_a_kind() {
    for (code, status, kind) in [
        (400, "INVALID_ARGUMENT", ErrorKind::InvalidArgument),
        (400, "FAILED_PRECONDITION", ErrorKind::FailedPrecondition),
        (401, "UNAUTHENTICATED", ErrorKind::Unauthenticated),
        (403, "PERMISSION_DENIED", ErrorKind::PermissionDenied),
        (404, "NOT_FOUND", ErrorKind::NotFound),
        (409, "ABORTED", ErrorKind::Conflict),
        (413, "RESOURCE_EXHAUSTED", ErrorKind::ResourceExhausted),
        (501, "UNIMPLEMENTED", ErrorKind::Unsupported),
    ] {
        let (script, client) = Script::client(&[("list", &[error(code, status)])]).await;
        let error = client.list_sessions("7", &ListSessionsConfig::default()).await.unwrap_err();
        assert_eq!((error.kind(), script.asked("list").len()), (kind, 1), "{error}");
        assert!(error.to_string().contains("said by the server"), "{error}");
    }
    let (_, client) = Script::client(&[("list", &[text(403, "<html>a wall that says S3CRET</html>")])]).await;
    let error = client.list_sessions("7", &ListSessionsConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(!format!("{error:?}").contains("S3CRET"), "{error:?}");
}

#[tokio::test]
async fn what_is_not_there_is_none() {
    let missing = error(404, "NOT_FOUND");
    let answers: Vec<_> = ["get", "events", "append"].map(|method| (method, std::slice::from_ref(&missing))).into();
    let (script, client) = Script::client(&answers).await;
    assert!(client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().is_none());
    assert_eq!(client.locate_session("7", "s").await.unwrap(), None);
    client.delete_session(&key()).await.unwrap();
    let error = append(&client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("7/alice/s") && script.asked("append").is_empty(), "{error}");
    // A wall in between is no answer of the API.
    let (_, client) = Script::client(&[("get", &[text(404, "no such page")])]).await;
    let error = client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn anothers_session_is_as_good_as_none() {
    let answers: [(_, &[_]); 2] = [("get", &[ok(session())]), ("events", &[ok(json!({"sessionEvents": [event(1)]}))])];
    let (script, client) = Script::client(&answers).await;
    let bobs = SessionKey::new("7", "bob", "s").unwrap();
    assert!(client.get_session(&bobs, &GetSessionConfig::default()).await.unwrap().is_none());
    client.delete_session(&bobs).await.unwrap();
    let refused = client.append(&bobs, hello(), AppendOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let refused = client.set_expiry(&bobs, None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(["delete", "append", "update"].iter().all(|method| script.asked(method).is_empty()));
    assert_eq!(client.locate_session("7", "s").await.unwrap(), Some(key()));
}

#[tokio::test]
async fn whose_a_session_is_is_asked_once_for_many_appends() {
    let (script, client) = Script::client(&[("get", &[ok(session())]), ("append", &[ok(json!({}))])]).await;
    for _ in 0..3 {
        append(&client).await.unwrap();
    }
    assert_eq!((script.asked("get").len(), script.asked("append").len()), (1, 3));
    let sent = &script.asked("append")[0];
    assert!(sent.path.starts_with(&format!("/v1/{NAME}:appendEvent?")), "{}", sent.path);
    let [own, whole] = [&sent.body["actions"]["stateDelta"], &sent.body["rawEvent"]["actions"]["stateDelta"]];
    assert_eq!((own, whole), (&json!({"a": "S3CRET"}), &json!({"a": "S3CRET"})));
    assert_eq!(sent.body["content"]["parts"][0]["text"], "hello");
    let mut partial = hello();
    partial.partial = Some(true);
    client.append(&key(), partial, AppendOptions::default()).await.unwrap();
    assert_eq!(script.asked("append").len(), 3, "a piece of a stream is not sent");
}

#[tokio::test]
async fn recent_events_are_not_looked_for_further_back() {
    let newest = ok(json!({"sessionEvents": [event(9), event(8)], "nextPageToken": "more"}));
    let (script, client) = Script::client(&[("get", &[ok(session())]), ("events", &[newest])]).await;
    let config = GetSessionConfig::default().with_num_recent_events(2).with_after_timestamp(1_767_225_601.5);
    let read = client.get_session(&key(), &config).await.unwrap().unwrap();
    assert_eq!(read.events().iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["e8", "e9"]);
    assert!(read.events().iter().all(|event| event.seq.is_none()), "nobody knows their numbers");
    let [asked] = &script.asked("events")[..] else { panic!("one page") };
    for part in ["pageSize=2&", "orderBy=timestamp+desc", "timestamp%3E%3D%222026-01-01T00%3A00%3A01.499999Z%22"] {
        assert!(asked.path.contains(part), "{part} in {}", asked.path);
    }
}

#[tokio::test]
async fn an_empty_page_may_be_followed_by_another() {
    let page = |events: &[Value], token: &str| ok(json!({"sessionEvents": events, "nextPageToken": token}));
    let pages = [page(&[], "1"), page(&[event(1)], "2"), page(&[], "3"), ok(json!({"sessionEvents": [event(2)]}))];
    let (script, client) = Script::client(&[("get", &[ok(session())]), ("events", &pages)]).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(read.events().iter().map(|event| event.seq).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!((read.seq(), script.asked("events").len()), (2, 4));
    let (_, client) = Script::client(&[("get", &[ok(session())]), ("events", &[page(&[], "1")])]).await;
    let error = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_not_quoted() {
    let mut odd = event(1);
    odd["rawEvent"] = json!({"id": "e1", "actions": {"stateDelta": "S3CRET"}});
    let mut timeless = event(1);
    timeless.as_object_mut().unwrap().remove("timestamp");
    for (answer, named) in [
        (ok(json!({"sessionEvents": [odd]})), "events/1"),
        (ok(json!({"sessionEvents": [timeless]})), "events/1"),
        (ok(json!({"sessionEvents": "S3CRET"})), "list the events"),
        (text(200, "{\"sessionEvents\": [\"S3CRET"), "list the events"),
    ] {
        let (_, client) = Script::client(&[("get", &[ok(session())]), ("events", &[answer])]).await;
        let error = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
        assert!(error.to_string().contains(named) && !format!("{error:?}").contains("S3CRET"), "{error:?}");
    }
}

#[tokio::test]
async fn an_event_without_a_whole_one_is_read_from_its_fields() {
    let said = json!({"name": format!("{NAME}/events/77"), "author": "agent", "invocationId": "i",
        "timestamp": "2026-01-01T00:00:01Z", "content": {"role": "model", "parts": [{"text": "hi"}]},
        "actions": {"stateDelta": {"n": 1}, "transferAgent": "other"}, "eventMetadata": {"turnComplete": true}});
    let answers: [(_, &[_]); 2] = [("get", &[ok(session())]), ("events", &[ok(json!({"sessionEvents": [said]}))])];
    let (_, client) = Script::client(&answers).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    let event = read.events().get(0).unwrap();
    assert_eq!((event.id.as_str(), event.turn_complete), ("77", Some(true)));
    assert_eq!(event.actions.transfer_to_agent.as_deref(), Some("other"));
    assert_eq!(event.content.as_ref().map(|content| content.text()).as_deref(), Some("hi"));
}

#[tokio::test]
async fn a_removed_key_is_not_shown() {
    let mut shown = session();
    shown["sessionState"] = json!({"a": 1, "gone": "__ADK_SENTINEL_REMOVED__", "temp:t": 1});
    let (_, client) = Script::client(&[("get", &[ok(shown)])]).await;
    let read = client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap().unwrap();
    assert_eq!(read.state().to_map(), *json!({"a": 1}).as_object().unwrap());
}

#[tokio::test]
async fn a_token_is_sent_where_there_is_one() {
    let (script, options) = Script::serve(&[("get", &[ok(session())])]).await;
    let config = GetSessionConfig::state_only();
    let nobody = VertexAiSessionService::open(options.clone()).await.unwrap();
    nobody.get_session(&key(), &config).await.unwrap();
    let options = options.with_credentials(VertexAiCredentials::token("s3cret"));
    let somebody = VertexAiSessionService::open(options).await.unwrap();
    for _ in 0..2 {
        somebody.get_session(&key(), &config).await.unwrap();
    }
    let sent: Vec<_> = script.asked("get").into_iter().map(|asked| asked.authorization).collect();
    assert_eq!(sent, [None, Some("Bearer s3cret".to_owned()), Some("Bearer s3cret".to_owned())]);
    assert!(!format!("{somebody:?}").contains("s3cret"));
}

#[tokio::test]
async fn one_engine_may_be_for_all_apps() {
    let (script, options) = Script::serve(&[("get", &[ok(session())])]).await;
    let client = VertexAiSessionService::open(options.with_reasoning_engine("7")).await.unwrap();
    let key = SessionKey::new("any app", "alice", "s").unwrap();
    let read = client.get_session(&key, &GetSessionConfig::state_only()).await.unwrap().unwrap();
    assert_eq!(read.app_name(), "any app");
    assert!(script.asked("get")[0].path.starts_with(&format!("/v1/{NAME}?")));
}
