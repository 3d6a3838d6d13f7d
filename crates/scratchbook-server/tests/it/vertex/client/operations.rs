//! Sessions that are created and deleted by operations that take some time.

use std::time::Duration;

use scratchbook::store::VertexAiSessionService;
use scratchbook::{CreateSessionConfig, ErrorKind, SessionService};
use serde_json::json;

use super::scripted::{MethodScript, NAME, ServiceAnswer, error, key, made, ok, session, text, with_type};

#[tokio::test]
async fn an_operation_is_waited_for() {
    let begun = ok(json!({"name": format!("{NAME}/operations/1"), "done": false}));
    let answers = [begun.clone(), error(503, "UNAVAILABLE"), begun.clone(), made()];
    let (script, client) =
        MethodScript::client(&[("create", &[begun]), ("operation", &answers), ("get", &[ok(session())])]).await;
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
        let (script, client) = MethodScript::client(&[("create", &[made]), ("get", &[ok(session())])]).await;
        let session = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap();
        assert_eq!((session.id(), session.state().get("a")), ("s", Some(&json!(1))));
        assert!(session.create_time().is_some() && session.known_seq() == Some(0));
        assert!(script.asked("get")[0].path.starts_with(&format!("/v1/{NAME}?")));
    }
    let (_, client) = MethodScript::client(&[("create", &[made()]), ("get", &[error(403, "PERMISSION_DENIED")])]).await;
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
        let (_, client) = MethodScript::client(&answers).await;
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
    let create = async |answers: &[ServiceAnswer], user: &str| {
        let (_, client) = MethodScript::client(&[("create", answers), ("get", &[ok(session())])]).await;
        let config = CreateSessionConfig::default().with_session_id("s");
        client.create_session("7", user, config).await.map(|session| session.id().to_owned())
    };
    assert_eq!(create(&[busy.clone(), taken.clone()], "alice").await.unwrap(), "s");
    // A session of another user, and a session that this call cannot have created.
    for (answers, user) in [(&[busy, taken.clone()][..], "bob"), (&[taken][..], "alice")] {
        assert_eq!(create(answers, user).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}

#[tokio::test]
async fn an_operation_that_takes_too_long_has_an_unknown_outcome() {
    let begun = ok(json!({"name": format!("{NAME}/operations/1")}));
    let (_, options) =
        MethodScript::serve(&[("create", std::slice::from_ref(&begun)), ("operation", std::slice::from_ref(&begun))])
            .await;
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
        let (_, client) = MethodScript::client(&[("create", &[failed(code)])]).await;
        let config = CreateSessionConfig::default().with_session_id("s");
        assert_eq!(client.create_session("7", "alice", config).await.unwrap_err().kind(), kind);
    }
}
