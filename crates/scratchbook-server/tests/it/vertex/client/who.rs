//! The credentials, the users and the address with which our client calls its server.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Extensions, HeaderMap, Request};
use google_cloud_auth::credentials::{CacheableResource, Credentials, CredentialsProvider};
use google_cloud_auth::errors::CredentialsError;
use scratchbook::session::SessionUpdate;
use scratchbook::store::{VertexAiCredentials, VertexAiOptions, VertexAiSessionService};
use scratchbook::{AppendOptions, ErrorKind, GetSessionConfig, SessionKey, SessionService, Store};
use scratchbook_server::Server;
use serde_json::json;
use tower::ServiceExt;

use super::scripted::{MethodScript, NAME, append, error, event, hello, key, ok, session, text};

#[tokio::test]
async fn a_server_that_answers_is_ready() {
    for (answer, status) in [
        (error(404, "NOT_FOUND"), 200),
        (error(400, "INVALID_ARGUMENT"), 200),
        (error(403, "PERMISSION_DENIED"), 503),
        (text(500, "broken"), 503),
    ] {
        let (script, client) =
            MethodScript::client(&[("get", &[answer]), ("events", &[error(404, "NOT_FOUND")])]).await;
        let api = Server::builder(Store::new(Arc::new(client))).build().unwrap().router();
        let request = Request::get("/health/ready").body(Body::empty()).unwrap();
        assert_eq!(api.oneshot(request).await.unwrap().status(), status);
        let asked = &script.asked("get")[0].path;
        assert!(asked.contains("/reasoningEngines/nobody/sessions/nobody"), "{asked}");
    }
}

#[tokio::test]
async fn a_token_that_does_not_come_is_not_waited_for() {
    #[derive(Debug)]
    struct NeverAnswers;
    impl CredentialsProvider for NeverAnswers {
        async fn headers(&self, _: Extensions) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
            pending().await
        }

        async fn universe_domain(&self) -> Option<String> {
            pending().await
        }
    }
    let (script, options) = MethodScript::serve(&[("get", &[ok(session())])]).await;
    let credentials = VertexAiCredentials::Google(Credentials::from(NeverAnswers));
    let options = options.with_credentials(credentials).with_retry_timeout(Duration::ZERO);
    let begun = Instant::now();
    let client = VertexAiSessionService::open(options).await.unwrap();
    let error = client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(10) && script.asked("get").is_empty());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no token"), "{error}");
}

#[test]
fn without_a_runtime_there_is_an_error() {
    let options = VertexAiOptions::new("p", "l").with_endpoint("http://127.0.0.1:9");
    let opened = at_once(VertexAiSessionService::open(options));
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::FailedPrecondition);
}

/// Runs a future that does not wait.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

#[tokio::test]
async fn a_token_is_sent_where_there_is_one() {
    let (script, options) = MethodScript::serve(&[("get", &[ok(session())])]).await;
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
    let (script, options) = MethodScript::serve(&[("get", &[ok(session())])]).await;
    let client = VertexAiSessionService::open(options.with_reasoning_engine("7")).await.unwrap();
    let key = SessionKey::new("any app", "alice", "s").unwrap();
    let read = client.get_session(&key, &GetSessionConfig::state_only()).await.unwrap().unwrap();
    assert_eq!(read.app_name(), "any app");
    assert!(script.asked("get")[0].path.starts_with(&format!("/v1/{NAME}?")));
}

#[tokio::test]
async fn anothers_session_is_as_good_as_none() {
    let answers: [(_, &[_]); 2] = [("get", &[ok(session())]), ("events", &[ok(json!({"sessionEvents": [event(1)]}))])];
    let (script, client) = MethodScript::client(&answers).await;
    let bobs = SessionKey::new("7", "bob", "s").unwrap();
    assert!(client.get_session(&bobs, &GetSessionConfig::default()).await.unwrap().is_none());
    client.delete_session(&bobs).await.unwrap();
    let refused = client.append(&bobs, hello(), AppendOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let refused = client.update_session(&bobs, SessionUpdate::default().with_expiry(None)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(["delete", "append", "update"].iter().all(|method| script.asked(method).is_empty()));
    assert_eq!(client.locate_session("7", "s").await.unwrap(), Some(key()));
}

#[tokio::test]
async fn whose_a_session_is_is_asked_once_for_many_appends() {
    let (script, client) = MethodScript::client(&[("get", &[ok(session())]), ("append", &[ok(json!({}))])]).await;
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
async fn a_session_that_was_read_while_it_was_deleted_is_not_known_any_more() {
    let deleted = ok(json!({"name": format!("{NAME}/operations/1"), "done": true})).after(300);
    let answers: [(_, &[_]); 3] = [("get", &[ok(session())]), ("delete", &[deleted]), ("append", &[ok(json!({}))])];
    let (script, client) = MethodScript::client(&answers).await;
    let read = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.get_session(&key(), &GetSessionConfig::state_only()).await.unwrap()
    };
    let key = key();
    let (deleted, read) = tokio::join!(client.delete_session(&key), read);
    assert!(deleted.is_ok() && read.is_some());
    let asked = script.asked("get").len();
    append(&client).await.unwrap();
    assert_eq!(script.asked("get").len(), asked + 1, "the next of this id may be another's");
}
