//! Our client against servers that are busy, slow, broken or strict.

use std::time::{Duration, Instant};

use scratchbook::session::ListSessionsConfig;
use scratchbook::store::VertexAiSessionService;
use scratchbook::{AppendOptions, CreateSessionConfig, ErrorKind, GetSessionConfig, SessionService};
use serde_json::json;

use super::scripted::{MethodScript, ServiceAnswer, append, error, error_with, hello, key, made, ok, session, text};

#[tokio::test]
async fn busy_servers_are_asked_again() {
    let busy = [error(429, "RESOURCE_EXHAUSTED"), error(503, "UNAVAILABLE")];
    let then = |last: ServiceAnswer| [&busy[..], &[last]].concat();
    let (get, append_to, create) = (then(ok(session())), then(ok(json!({}))), then(made()));
    let answers = [("get", &get[..]), ("append", &append_to[..]), ("create", &create[..])];
    let (script, client) = MethodScript::client(&answers).await;
    assert!(client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap().is_some());
    append(&client).await.unwrap();
    client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap();
    assert_eq!(["get", "append", "create"].map(|method| script.asked(method).len()), [4, 3, 3]);
}

#[tokio::test]
async fn a_server_is_left_alone_for_as_long_as_it_asks() {
    let detail = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.700s"}]);
    for (busy, millis) in [
        (error(429, "RESOURCE_EXHAUSTED").retry_after("1"), 1000),
        (error_with(503, "UNAVAILABLE", detail), 700),
        (error(503, "UNAVAILABLE").retry_after("Sun, 22 Nov 2020 02:00:00 GMT"), 0),
    ] {
        let (script, client) = MethodScript::client(&[
            ("get", &[busy.clone(), ok(session())]),
            ("append", &[busy.clone(), ok(json!({}))]),
        ])
        .await;
        let begun = Instant::now();
        client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap();
        append(&client).await.unwrap();
        let took = begun.elapsed();
        let asked = Duration::from_millis(2 * millis);
        assert!((asked..asked + Duration::from_millis(1500)).contains(&took), "{busy:?}: {took:?}");
        assert_eq!(["get", "append"].map(|method| script.asked(method).len()), [2, 2]);
    }
}

#[tokio::test]
async fn who_asks_for_more_time_than_there_is_is_not_asked_again() {
    let busy = error(429, "RESOURCE_EXHAUSTED").retry_after("60");
    let (script, client) = MethodScript::client(&[("get", &[busy])]).await;
    let begun = Instant::now();
    let error = client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap_err();
    assert_eq!((error.kind(), script.asked("get").len()), (ErrorKind::ResourceExhausted, 1));
    assert!(error.to_string().ends_with("said by the server; it asks to wait 60 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(2));
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
            MethodScript::client(&[("get", &[ok(session())]), ("append", std::slice::from_ref(&answer))]).await;
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
    let (script, client) = MethodScript::client(&[("get", &answers)]).await;
    assert!(client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap().is_some());
    assert_eq!(script.asked("get").len(), 4);
}

#[tokio::test]
async fn patience_ends() {
    let (script, options) = MethodScript::serve(&[("get", &[error(503, "UNAVAILABLE")])]).await;
    let options = options.with_retry_timeout(Duration::from_millis(600));
    let client = VertexAiSessionService::open(options).await.unwrap();
    let (begun, refused) = (Instant::now(), client.get_session(&key(), &GetSessionConfig::state_only()).await);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() < Duration::from_secs(10) && script.asked("get").len() > 1);
}

#[tokio::test]
async fn nobody_there_is_unavailable_and_nothing_was_done() {
    let (_, options) = MethodScript::serve(&[]).await;
    let options = options.with_endpoint("http://127.0.0.1:9").with_retry_timeout(Duration::ZERO);
    let client = VertexAiSessionService::open(options).await.unwrap();
    let error = client.create_session("7", "alice", CreateSessionConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.to_string().contains("not known"), "{error}");
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
        (413, "INVALID_ARGUMENT", ErrorKind::PayloadTooLarge),
        (501, "UNIMPLEMENTED", ErrorKind::Unsupported),
    ] {
        let (script, client) = MethodScript::client(&[("list", &[error(code, status)])]).await;
        let error = client.list_sessions("7", &ListSessionsConfig::default()).await.unwrap_err();
        assert_eq!((error.kind(), script.asked("list").len()), (kind, 1), "{error}");
        assert!(error.to_string().contains("said by the server"), "{error}");
    }
    let (_, client) = MethodScript::client(&[("list", &[text(403, "<html>a wall that says S3CRET</html>")])]).await;
    let error = client.list_sessions("7", &ListSessionsConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(!format!("{error:?}").contains("S3CRET"), "{error:?}");
}

#[tokio::test]
async fn what_is_not_there_is_none() {
    let missing = error(404, "NOT_FOUND");
    let answers: Vec<_> = ["get", "events", "append"].map(|method| (method, std::slice::from_ref(&missing))).into();
    let (script, client) = MethodScript::client(&answers).await;
    assert!(client.get_session(&key(), &GetSessionConfig::default()).await.unwrap().is_none());
    assert_eq!(client.locate_session("7", "s").await.unwrap(), None);
    client.delete_session(&key()).await.unwrap();
    let error = append(&client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("7/alice/s") && script.asked("append").is_empty(), "{error}");
    // An error page of a proxy is not an answer of the API.
    let (_, client) = MethodScript::client(&[("get", &[text(404, "no such page")])]).await;
    let error = client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn what_could_not_be_read_again_is_not_sent() {
    let (script, client) = MethodScript::client(&[("get", &[ok(session())]), ("append", &[ok(json!({}))])]).await;
    let mut versions = hello();
    versions.actions.artifact_delta.insert("f".to_owned(), 1 << 31);
    let mut grounding = hello();
    grounding.grounding_metadata = Some(json!({"groundingChunks": 1}).into());
    for (event, named) in [(versions, "31 bits"), (grounding, "groundingMetadata")] {
        let error = client.append(&key(), event, AppendOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(named), "{error}");
    }
    assert!(script.asked("append").is_empty());
}
