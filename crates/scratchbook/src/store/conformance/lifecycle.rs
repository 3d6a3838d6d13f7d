//! Deadlines, shared handles and closing. Those whose name begins with `closing` or `a_closed` close the store.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};

use super::support::{Ground, assert_refused, changing, delta, saying, state};
use crate::{
    AppendOptions, CreateSessionConfig, ErrorKind, GetSessionConfig, ListSessionsConfig, SessionService, Store,
    WithDeadline,
};

/// Behind a deadline that is long enough every call works as without one.
pub async fn a_deadline_that_is_met_changes_nothing(store: &Store) {
    let ground = Ground::new(store);
    let patient = WithDeadline::new(Arc::clone(&store.sessions), Duration::from_secs(60));
    let behind = Ground { store: Store { sessions: Arc::new(patient), ..store.clone() }, app: ground.app.clone() };
    let session = behind.create("alice", json!({"a": 1, "user:b": 1})).await;
    behind.append(session.key(), changing(json!({"a": 2}))).await;
    behind.sessions().put_state(&ground.app(), delta(json!({"c": 3})), "test").await.unwrap();
    assert_eq!(state(&ground.get(session.key()).await), json!({"a": 2, "user:b": 1, "app:c": 3}));
    assert_eq!(behind.list(None).await.len(), 1);
    assert_eq!(behind.app_state().await, json!({"c": 3}));
    assert_eq!(behind.sessions().list_state_changes(&ground.app(), 0, 9).await.unwrap().len(), 1);
    behind.sessions().delete_session(session.key()).await.unwrap();
    behind.sessions().delete_user(&ground.app, "alice").await.unwrap();
    assert!(ground.list(None).await.is_empty());
}

/// A call that runs into its deadline is `Unavailable`, committed whole or not at all, and safe to try again.
pub async fn a_deadline_that_is_missed_is_unavailable(store: &Store) {
    let ground = Ground::new(store);
    let key = ground.create("alice", json!({})).await.key().clone();
    let hurried = WithDeadline::new(Arc::clone(&store.sessions), Duration::ZERO);
    for n in 1..=20_u64 {
        let event = || changing(json!({"n": n, "user:n": n})).with_id(format!("e{n}"));
        if let Err(error) = hurried.append(&key, event(), AppendOptions::default()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.is_retryable() && error.to_string().contains("deadline"), "{error}");
        }
        ground.append(&key, event()).await;
        let read = ground.get(&key).await;
        assert_eq!((state(&read), read.seq()), (json!({"n": n, "user:n": n}), n));
    }
}

/// Every handle on a store sees what the others wrote, the one as a plain value inside an `Arc` too.
pub async fn handles_share_the_store(store: &Store) {
    let ground = Ground::new(store);
    let session = ground.create("alice", json!({"a": 1})).await;
    let twice = Arc::new(Arc::clone(&store.sessions));
    let read = SessionService::get_session(&twice, session.key(), &GetSessionConfig::default()).await.unwrap();
    assert_eq!(read.map(|session| state(&session)), Some(json!({"a": 1})));
}

/// Closing finishes what was accepted: each append that was under way is answered, well or as refused.
pub async fn closing_finishes_what_was_accepted(store: &Store) {
    let ground = Ground::new(store);
    let key = ground.create("alice", json!({})).await.key().clone();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..32 {
        let (ground, key) = (ground.clone(), key.clone());
        tasks.spawn(async move { ground.try_append(&key, saying(&format!("{n}"))).await });
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

/// A closed service refuses every call with `FailedPrecondition`; closing twice is fine.
pub async fn a_closed_service_refuses_every_call(store: &Store) {
    let ground = Ground::new(store);
    for _ in 0..2 {
        store.sessions.close().await.expect("close");
    }
    let (sessions, key) = (&store.sessions, ground.key("alice", "s"));
    let closed = ErrorKind::FailedPrecondition;
    let config = CreateSessionConfig::default();
    assert_refused(sessions.create_session(&ground.app, "alice", config).await, closed, "create_session");
    assert_refused(sessions.get_session(&key, &GetSessionConfig::default()).await, closed, "get_session");
    assert_refused(sessions.list_sessions(&ground.app, &ListSessionsConfig::default()).await, closed, "list_sessions");
    assert_refused(sessions.delete_session(&key).await, closed, "delete_session");
    assert_refused(ground.try_append(&key, saying("hello")).await, closed, "append");
    let mut partial = saying("hel");
    partial.partial = Some(true);
    assert_refused(ground.try_append(&key, partial).await, closed, "append of a partial event");
    for owner in [ground.user("alice"), ground.app()] {
        assert_refused(sessions.get_state(&owner).await, closed, "get_state");
        assert_refused(sessions.put_state(&owner, delta(json!({"a": 1})), "test").await, closed, "put_state");
        assert_refused(sessions.list_state_changes(&owner, 0, 1).await, closed, "list_state_changes");
    }
    let error = assert_refused(sessions.delete_user(&ground.app, "alice").await, closed, "delete_user");
    assert!(error.to_string().contains("closed") && !error.is_retryable(), "{error}");
    let artifacts = &store.artifacts;
    let part = crate::Part::text("x");
    assert_refused(artifacts.save_artifact(&key, "f", part, Map::new()).await, closed, "save_artifact");
    assert_refused(artifacts.load_artifact(&key, "f", None).await, closed, "load_artifact");
    assert_refused(artifacts.list_artifacts(&key).await, closed, "list_artifacts");
    assert_refused(artifacts.list_artifact_versions(&key, "f").await, closed, "list_artifact_versions");
    assert_refused(artifacts.delete_artifact(&key, "f").await, closed, "delete_artifact");
}
