//! Closing. These promises close the store.

use std::time::Duration;

use serde_json::{Map, json};

use super::support::{TestApp, assert_refused, delta, saying};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{
    CreateSessionConfig, FeedStart, ForkConfig, GetSessionConfig, ListSessionsConfig, ListStateConfig, SessionUpdate,
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

/// A closed service refuses every call with `FailedPrecondition`; closing twice is allowed.
pub async fn a_closed_service_refuses_every_call(store: &Store) {
    let test = TestApp::new(store);
    // If the store was already closed, subscribing fails.
    let notices = store.sessions.commits();
    for _ in 0..2 {
        store.sessions.close().await.expect("close");
    }
    let (sessions, key) = (&store.sessions, test.key("alice", "s"));
    let closed = ErrorKind::FailedPrecondition;
    let config = CreateSessionConfig::default();
    assert_refused(sessions.create_session(&test.app, "alice", config).await, closed, "create_session");
    assert_refused(sessions.get_session(&key, &GetSessionConfig::default()).await, closed, "get_session");
    assert_refused(sessions.get_initial_state(&key).await, closed, "get_initial_state");
    assert_refused(sessions.get_state_at(&key, 0).await, closed, "get_state_at");
    assert_refused(sessions.blame(&key).await, closed, "blame");
    assert_refused(sessions.fork_session(&key, ForkConfig::default()).await, closed, "fork_session");
    assert_refused(sessions.list_state(&test.app(), &ListStateConfig::default()).await, closed, "list_state");
    assert_refused(sessions.list_key_changes(&test.app(), "k", 9, 9).await, closed, "list_key_changes");
    assert_refused(sessions.list_feed(&test.app(), &FeedStart::Now, 9).await.map(drop), closed, "list_feed");
    assert_refused(sessions.commits().map(drop), closed, "commits");
    if let Ok(mut notices) = notices {
        assert_refused(notices.next().await, closed, "waiting for commits");
    }
    assert_refused(sessions.set_expiry(&key, None).await, closed, "set_expiry");
    assert_refused(sessions.update_session(&key, SessionUpdate::default()).await, closed, "update_session");
    assert_refused(sessions.delete_expired(9).await, closed, "delete_expired");
    assert_refused(sessions.prune_events(&key, 9, 9).await, closed, "prune_events");
    assert_refused(sessions.prune_state_log(&test.app(), 9, 9).await, closed, "prune_state_log");
    assert_refused(sessions.list_owners(None, 1).await, closed, "list_owners");
    assert_refused(sessions.list_sessions(&test.app, &ListSessionsConfig::default()).await, closed, "list_sessions");
    assert_refused(sessions.locate_session(&test.app, "s").await, closed, "locate_session");
    assert_refused(sessions.delete_session(&key).await, closed, "delete_session");
    assert_refused(test.try_append(&key, saying("hello")).await, closed, "append");
    let mut partial = saying("hel");
    partial.partial = Some(true);
    assert_refused(test.try_append(&key, partial).await, closed, "append of a partial event");
    for owner in [test.user("alice"), test.app()] {
        assert_refused(sessions.get_state(&owner).await, closed, "get_state");
        assert_refused(sessions.put_state(&owner, delta(json!({"a": 1})), "test".into()).await, closed, "put_state");
        assert_refused(sessions.list_state_changes(&owner, 0, 1).await, closed, "list_state_changes");
    }
    assert_refused(sessions.check_writable().await, closed, "check_writable");
    let error = assert_refused(sessions.delete_user(&test.app, "alice").await, closed, "delete_user");
    assert!(error.to_string().contains("closed") && !error.is_retryable(), "{error}");
    let artifacts = &store.artifacts;
    let part = scratchbook_core::content::Part::text("x");
    assert_refused(artifacts.save_artifact(&key, "f", part, Map::new()).await, closed, "save_artifact");
    assert_refused(artifacts.load_artifact(&key, "f", None).await, closed, "load_artifact");
    assert_refused(artifacts.list_artifacts(&key).await, closed, "list_artifacts");
    assert_refused(artifacts.list_artifact_versions(&key, "f").await, closed, "list_artifact_versions");
    assert_refused(artifacts.delete_artifact(&key, "f").await, closed, "delete_artifact");
}
