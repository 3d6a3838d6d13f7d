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
    assert_eq!(["get", "append", "create"].map(|method| script.asked(method).len()), [4, 3, 3]);
}

#[tokio::test]
async fn an_append_of_unknown_outcome_is_sent_once() {
    for (answer, kind) in [
        (error(500, "INTERNAL"), ErrorKind::Internal),
        (text(502, "<html>bad gateway</html>"), ErrorKind::Unavailable),
        (error(504, "DEADLINE_EXCEEDED"), ErrorKind::Unavailable),
        (text(408, "too slow"), ErrorKind::Unavailable),
        (ok(json!({})).after(900), ErrorKind::Unavailable),
        (text(200, "no JSON"), ErrorKind::DataCorrupted),
    ] {
        let (script, client) =
            Script::client(&[("get", &[ok(session())]), ("append", std::slice::from_ref(&answer))]).await;
        let error = append(&client).await.unwrap_err();
        assert_eq!((error.kind(), script.asked("append").len()), (kind, 1), "{answer:?}: {error}");
        assert!(error.to_string().contains("not known whether it was done"), "{error}");
        assert!(!error.is_retryable(), "a second append is a second event: {error}");
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
    let (script, client) =
        Script::client(&[("create", &[begun]), ("operation", &answers), ("get", &[ok(session())])]).await;
    let session = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap();
    assert_eq!((session.id(), session.state().get("a")), ("s", Some(&json!(1))));
    assert_eq!((script.asked("create").len(), script.asked("operation").len()), (1, 4));
    assert!(script.asked("operation")[0].path.starts_with(&format!("/v1/{NAME}/operations/1?")));
}

#[tokio::test]
async fn what_was_made_is_read() {
    let only_the_name = with_type(json!({"name": NAME}));
    for response in [only_the_name, with_type(json!({})), json!({"@type": "type.googleapis.com/google.protobuf.Empty"})]
    {
        let made = ok(json!({"name": format!("{NAME}/operations/1"), "done": true, "response": response}));
        let (script, client) = Script::client(&[("create", &[made]), ("get", &[ok(session())])]).await;
        let session = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap();
        assert_eq!((session.id(), session.state().get("a")), ("s", Some(&json!(1))));
        assert!(session.create_time().is_some() && session.known_seq() == Some(0));
        assert!(script.asked("get")[0].path.starts_with(&format!("/v1/{NAME}?")));
    }
    let (_, client) = Script::client(&[("create", &[made()]), ("get", &[error(403, "PERMISSION_DENIED")])]).await;
    let error = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap_err();
    assert!(error.to_string().contains("sessions/s was made") && !error.is_retryable(), "{error}");
}

#[tokio::test]
async fn an_operation_that_nobody_may_look_at_has_an_unknown_outcome() {
    let begun = ok(json!({"name": format!("{NAME}/operations/1")}));
    for answer in [error(403, "PERMISSION_DENIED"), error(404, "NOT_FOUND"), text(404, "no such page")] {
        let answers: [(_, &[_]); 4] = [
            ("get", &[ok(session())]),
            ("create", std::slice::from_ref(&begun)),
            ("delete", std::slice::from_ref(&begun)),
            ("operation", &[answer]),
        ];
        let (_, client) = Script::client(&answers).await;
        let made = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap_err();
        let deleted = client.delete_session(&key()).await.unwrap_err();
        for error in [made, deleted] {
            assert!(error.to_string().contains("not known whether it was done"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_creation_that_was_sent_again_may_meet_itself() {
    let (busy, taken) = (error(503, "UNAVAILABLE"), error(409, "ALREADY_EXISTS"));
    let create = async |answers: &[Answer], user: &str| {
        let (_, client) = Script::client(&[("create", answers), ("get", &[ok(session())])]).await;
        let config = CreateSessionConfig::default().with_session_id("s");
        client.create_session("7", user, config).await.map(|session| session.id().to_owned())
    };
    assert_eq!(create(&[busy.clone(), taken.clone()], "alice").await.unwrap(), "s");
    // Another's, and one that nobody can have made by this call.
    for (answers, user) in [(&[busy, taken.clone()][..], "bob"), (&[taken][..], "alice")] {
        assert_eq!(create(answers, user).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
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
    let (ones, two) = ([page(&[], "1")], [page(&[], "1"), page(&[], "2"), page(&[], "1")]);
    for endless in [&ones[..], &two[..]] {
        let (_, client) = Script::client(&[("get", &[ok(session())]), ("events", endless)]).await;
        let error = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
    }
}

#[tokio::test]
async fn who_reads_by_number_is_told_the_last_number() {
    let page = |events: &[Value], token: &str| ok(json!({"sessionEvents": events, "nextPageToken": token}));
    let pages = [page(&[event(1), event(2)], "1"), page(&[event(3)], "2"), page(&[event(4), event(5)], "")];
    let config = GetSessionConfig::default();
    for (config, numbers, last) in [
        (config.clone().with_events_after(0, 2), &[1, 2][..], Some(5)),
        (config.clone().with_events_after(4, 2), &[5], Some(5)),
        (config.clone().with_events_after(7, 2), &[], Some(5)),
        (config.clone().with_events_after(0, 0), &[], Some(5)),
        (config.clone().with_events_before(4, 2), &[2, 3], Some(5)),
        (config.clone().with_events_before(1, 2), &[], Some(5)),
        (config.clone().with_events_before(u64::MAX, 2), &[4, 5], Some(5)),
        (config.clone(), &[1, 2, 3, 4, 5], Some(5)),
        (GetSessionConfig::state_only(), &[], None),
        (config.clone().with_after_timestamp(1.0).with_num_recent_events(0), &[], None),
    ] {
        let (_, client) = Script::client(&[("get", &[ok(session())]), ("events", &pages)]).await;
        let read = client.get_session(&key(), &config).await.unwrap().unwrap();
        let found: Vec<_> = read.events().iter().map(|event| event.seq.unwrap()).collect();
        assert_eq!((&found[..], read.known_seq()), (numbers, last), "{config:?}");
        assert!(read.events().iter().all(|event| event.id == format!("e{}", event.seq.unwrap())), "{config:?}");
    }
}

#[tokio::test]
async fn an_event_that_is_there_twice_is_one() {
    let mut other = event(3);
    other["rawEvent"]["id"] = json!("e1");
    let list = json!({"sessionEvents": [event(1), event(1), event(2), event(1), other]});
    let (_, client) = Script::client(&[("get", &[ok(session())]), ("events", &[ok(list)])]).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    let found: Vec<_> = read.events().iter().map(|event| (event.seq.unwrap(), event.id.as_str())).collect();
    // The last has another time: it is not the same event.
    assert_eq!((found, read.seq()), (vec![(1, "e1"), (2, "e2"), (3, "e1")], 3));
    let newest = ok(json!({"sessionEvents": [event(2), event(2)], "nextPageToken": "1"}));
    let older = ok(json!({"sessionEvents": [event(1)], "nextPageToken": "2"}));
    let (_, client) = Script::client(&[("get", &[ok(session())]), ("events", &[newest, older])]).await;
    let config = GetSessionConfig::default().with_num_recent_events(2);
    let read = client.get_session(&key(), &config).await.unwrap().unwrap();
    assert_eq!(read.events().iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["e1", "e2"]);
}

#[tokio::test]
async fn what_is_wrong_with_anothers_events_is_not_told() {
    let odd = json!({"name": format!("{NAME}/events/1"), "author": "agent"});
    let answers: [(_, &[_]); 2] = [("get", &[ok(session())]), ("events", &[ok(json!({"sessionEvents": [odd]}))])];
    let (_, client) = Script::client(&answers).await;
    let bobs = SessionKey::new("7", "bob", "s").unwrap();
    assert!(client.get_session(&bobs, &GetSessionConfig::default()).await.unwrap().is_none());
    assert!(client.get_session(&key(), &GetSessionConfig::default()).await.is_err());
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
async fn what_a_newer_server_says_is_left_out() {
    let place = |value: &mut Value, at: &str| {
        value.pointer_mut(at).unwrap()["futureField"] = json!({"x": [1]});
    };
    let said = json!({"name": format!("{NAME}/events/77"), "author": "agent", "invocationId": "i",
        "timestamp": "2026-01-01T00:00:01Z", "actions": {"stateDelta": {"n": 1}}, "eventMetadata": {"turnComplete": true},
        "content": {"role": "model", "parts": [{"text": "hi"}, {"functionCall": {"name": "f", "args": {}}}]}});
    let whole = json!({"name": format!("{NAME}/events/77"), "author": "agent", "invocationId": "i",
        "timestamp": "2026-01-01T00:00:01Z", "actions": {"stateDelta": {"n": 1}}, "rawEvent": {"id": "77",
            "turnComplete": true, "actions": {"stateDelta": {"n": 1}, "artifactDelta": {"f": 1.0}},
            "content": {"role": "model", "parts": [{"text": "hi"}, {"functionCall": {"name": "f", "args": {}}}]}}});
    let of_content = ["", "/parts/0", "/parts/1", "/parts/1/functionCall"];
    let of_whole = of_content.map(|of| format!("/rawEvent/content{of}"));
    let of_said = of_content.map(|of| format!("/content{of}"));
    let more = ["", "/actions", "/eventMetadata"].map(str::to_owned);
    let whole_too = ["", "/actions", "/rawEvent", "/rawEvent/actions"].map(str::to_owned);
    for (event, places) in [(said, [&of_said[..], &more].concat()), (whole, [&of_whole[..], &whole_too].concat())] {
        for at in places {
            let (mut newer, mut of) = (event.clone(), session());
            place(&mut newer, &at);
            place(&mut of, "");
            let list = ok(json!({"sessionEvents": [newer], "futureField": 1}));
            let (_, client) = Script::client(&[("get", &[ok(of)]), ("events", &[list])]).await;
            let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
            let event = read.events().get(0).unwrap();
            assert_eq!((event.id.as_str(), event.turn_complete), ("77", Some(true)), "{at}");
            assert_eq!(event.content.as_ref().map(|content| content.text()).as_deref(), Some("hi"), "{at}");
            assert_eq!(event.function_calls().count(), 1, "{at}");
        }
    }
}

#[tokio::test]
async fn whole_floats_are_integers_where_those_are_meant() {
    let (mut of, mut said) = (session(), event(1));
    of["sessionState"] = json!({"user:high_score": 7.0, "list": [1.0, 2.5]});
    said["rawEvent"]["actions"] = json!({"artifactDelta": {"f": 2.0}});
    let answers: [(_, &[_]); 2] = [("get", &[ok(of)]), ("events", &[ok(json!({"sessionEvents": [said]}))])];
    let (_, client) = Script::client(&answers).await;
    let read = client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(read.state().get_as::<u64>("user:high_score").unwrap(), Some(7));
    assert_eq!(read.state().get_as::<(u8, f64)>("list").unwrap(), Some((1, 2.5)));
    assert_eq!(read.events().get(0).unwrap().actions.artifact_delta["f"], 2);
}

#[tokio::test]
async fn what_could_not_be_read_again_is_not_sent() {
    let (script, client) = Script::client(&[("get", &[ok(session())]), ("append", &[ok(json!({}))])]).await;
    let mut versions = hello();
    versions.actions.artifact_delta.insert("f".to_owned(), 1 << 31);
    let mut grounding = hello();
    grounding.grounding_metadata = Some(json!({"groundingChunks": 1}));
    for (event, named) in [(versions, "31 bits"), (grounding, "groundingMetadata")] {
        let error = client.append(&key(), event, AppendOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(named), "{error}");
    }
    assert!(script.asked("append").is_empty());
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
