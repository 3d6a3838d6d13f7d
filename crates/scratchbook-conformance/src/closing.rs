//! Closing. These promises close the store.

use std::fmt::Debug;
use std::time::Duration;

use serde_json::{Map, json};

use super::support::{TestApp, assert_refused, delta, saying};
use scratchbook_core::artifact::ListVersionsConfig;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::session::{
    Capabilities, ChangeQuery, CreateSessionConfig, FeedStart, ForkConfig, GetSessionConfig, ListSessionsConfig,
    ListStateConfig, Prune, SessionUpdate,
};
use scratchbook_core::store::Store;

/// Closing finishes the accepted calls: each append in progress is answered, with its result or an error.
pub async fn closing_finishes_what_was_accepted(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..32 {
        let (test, key) = (test.clone(), key.clone());
        tasks.spawn(async move { test.try_append(&key, saying(&format!("{n}"))).await });
    }
    tokio::task::yield_now().await;
    let closed = tokio::time::timeout(Duration::from_secs(30), store.sessions.close()).await;
    closed.expect("closing takes for ever").expect("close");
    let answers =
        tokio::time::timeout(Duration::from_secs(30), tasks.join_all()).await.expect("an append was left hanging");
    for answer in answers {
        if let Err(error) = answer {
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        }
    }
}

/// A closed service refuses every call with `FailedPrecondition`, or as `Unsupported` if it lacks what the call needs;
/// closing twice is allowed.
pub async fn a_closed_service_refuses_every_call(store: &Store) {
    let test = TestApp::new(store);
    // If the store was already closed, subscribing fails.
    let notices = store.sessions.commits();
    for _ in 0..2 {
        store.sessions.close().await.expect("close");
    }
    let (sessions, key) = (&store.sessions, test.key("alice", "s"));
    let closed = Closed { may_lack: store.sessions.capabilities() != Capabilities::all() };
    let config = CreateSessionConfig::default();
    closed.refused(sessions.create_session(&test.app, "alice", config).await, "create_session");
    closed.refused(sessions.get_session(&key, &GetSessionConfig::default()).await, "get_session");
    closed.refused(sessions.get_initial_state(&key).await, "get_initial_state");
    closed.refused(sessions.get_state_at(&key, 0).await, "get_state_at");
    closed.refused(sessions.blame(&key).await, "blame");
    closed.refused(sessions.fork_session(&key, ForkConfig::default()).await, "fork_session");
    closed.refused(sessions.list_state(&test.app(), &ListStateConfig::default()).await, "list_state");
    closed.refused(
        sessions.list_state_changes(&test.app(), &ChangeQuery::of_key("k", 9), 9).await,
        "list_state_changes of a key",
    );
    closed.refused(sessions.list_feed(&test.app(), &FeedStart::Now, 9).await.map(drop), "list_feed");
    closed.refused(sessions.commits().map(drop), "commits");
    if let Ok(mut notices) = notices {
        closed.refused(notices.next().await, "waiting for commits");
    }
    closed.refused(sessions.update_session(&key, SessionUpdate::default()).await, "update_session");
    closed.refused(sessions.prune(Prune::Expired, 9).await, "prune expired sessions");
    closed.refused(sessions.prune(Prune::events(&key, 9), 9).await, "prune events");
    closed.refused(sessions.prune(Prune::state_log(&test.app(), 9), 9).await, "prune a log");
    closed.refused(sessions.list_owners(None, 1).await, "list_owners");
    closed.refused(sessions.list_sessions(&test.app, &ListSessionsConfig::default()).await, "list_sessions");
    closed.refused(sessions.locate_session(&test.app, "s").await, "locate_session");
    closed.refused(sessions.delete_session(&key).await, "delete_session");
    closed.refused(test.try_append(&key, saying("hello")).await, "append");
    let mut partial = saying("hel");
    partial.partial = Some(true);
    closed.refused(test.try_append(&key, partial).await, "append of a partial event");
    for owner in [test.user("alice"), test.app()] {
        closed.refused(sessions.get_state(&owner).await, "get_state");
        closed.refused(sessions.put_state(&owner, delta(json!({"a": 1})), "test".into()).await, "put_state");
        closed.refused(sessions.list_state_changes(&owner, &ChangeQuery::After(0), 1).await, "list_state_changes");
    }
    closed.refused(sessions.delete_user(&test.app, "alice").await, "delete_user");
    let error = closed.refused(sessions.check_writable().await, "check_writable");
    assert!(error.to_string().contains("closed") && !error.is_retryable(), "{error}");
    let artifacts = &store.artifacts;
    let part = scratchbook_core::content::Part::text("x");
    closed.refused(artifacts.save_artifact(&key, "f", part, Map::new()).await, "save_artifact");
    closed.refused(artifacts.load_artifact(&key, "f", None).await, "load_artifact");
    closed.refused(artifacts.list_artifacts(&key).await, "list_artifacts");
    closed.refused(
        artifacts.list_artifact_versions(&key, "f", &ListVersionsConfig::default()).await,
        "list_artifact_versions",
    );
    closed.refused(artifacts.delete_artifact(&key, "f").await, "delete_artifact");
}

/// How a closed service answers.
struct Closed {
    may_lack: bool,
}

impl Closed {
    #[track_caller]
    fn refused<T: Debug>(&self, result: Result<T>, what: &str) -> Error {
        let lacks = self.may_lack && result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported);
        assert_refused(result, if lacks { ErrorKind::Unsupported } else { ErrorKind::FailedPrecondition }, what)
    }
}
