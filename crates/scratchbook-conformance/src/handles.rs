//! Deadlines and shared handles.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::support::{TestApp, changing, delta, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::layer::deadline::WithDeadline;
use scratchbook_core::session::{AppendOptions, ChangeQuery, GetSessionConfig, SessionService};
use scratchbook_core::store::Store;

/// With a long enough deadline every call works as without one.
pub async fn a_deadline_that_is_met_changes_nothing(store: &Store) {
    let test = TestApp::new(store);
    let patient = WithDeadline::new(Arc::clone(&store.sessions), Duration::from_secs(60));
    let store = Store::of(Arc::new(patient), Arc::clone(&store.artifacts));
    let behind = TestApp { store, app: test.app.clone() };
    let session = behind.create("alice", json!({"a": 1, "user:b": 1})).await;
    behind.append(session.key(), changing(json!({"a": 2}))).await;
    behind.sessions().put_state(&test.app(), delta(json!({"c": 3})), "test".into()).await.unwrap();
    assert_eq!(state(&test.get(session.key()).await), json!({"a": 2, "user:b": 1, "app:c": 3}));
    assert_eq!(behind.list(None).await.len(), 1);
    assert_eq!(behind.app_state().await, json!({"c": 3}));
    assert_eq!(behind.sessions().list_state_changes(&test.app(), &ChangeQuery::After(0), 9).await.unwrap().len(), 1);
    behind.sessions().delete_session(session.key()).await.unwrap();
    behind.sessions().delete_user(&test.app, "alice").await.unwrap();
    assert!(test.list(None).await.is_empty());
}

/// A call that exceeds its deadline is `Unavailable`; it is committed completely or not at all, and safe to retry.
pub async fn a_deadline_that_is_missed_is_unavailable(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let hurried = WithDeadline::new(Arc::clone(&store.sessions), Duration::ZERO);
    for n in 1..=20_u64 {
        let event = || changing(json!({"n": n, "user:n": n})).with_id(format!("e{n}"));
        if let Err(error) = hurried.append(&key, event(), AppendOptions::default()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.is_retryable() && error.to_string().contains("deadline"), "{error}");
        }
        test.append(&key, event()).await;
        let read = test.get(&key).await;
        assert_eq!((state(&read), read.seq()), (json!({"n": n, "user:n": n}), n));
    }
}

/// Every handle on a store sees the writes of the others, including a plain value inside an `Arc`.
pub async fn handles_share_the_store(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1})).await;
    let twice = Arc::new(Arc::clone(&store.sessions));
    let read = SessionService::get_session(&twice, session.key(), &GetSessionConfig::default()).await.unwrap();
    assert_eq!(read.map(|session| state(&session)), Some(json!({"a": 1})));
}
