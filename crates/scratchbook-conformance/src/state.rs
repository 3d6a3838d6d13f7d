//! State of users and apps outside of any session.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, delta, removal, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{SessionServiceExt, StateOwner};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

/// The state of a user or an app is read with names without prefix, in byte order; it is empty if there is none.
pub async fn shared_state_is_read_without_prefixes(store: &Store) {
    let test = TestApp::new(store);
    assert_eq!(test.user_state("alice").await, json!({}));
    assert_eq!(test.app_state().await, json!({}));
    test.create("alice", json!({"user:b": 1, "user:a": 2, "user:Z": 3, "app:\u{e9}": 4, "app:z": 5, "own": 6})).await;
    assert_eq!(test.user_state("alice").await.to_string(), json!({"Z": 3, "a": 2, "b": 1}).to_string());
    assert_eq!(test.app_state().await.to_string(), json!({"z": 5, "\u{e9}": 4}).to_string());
    assert_eq!(test.user_state("bob").await, json!({}));
    let by_name = test.sessions().get_user_state(&test.app, "alice").await.unwrap();
    assert_eq!(json!(by_name), json!({"Z": 3, "a": 2, "b": 1}));
    assert_eq!(json!(test.sessions().get_app_state(&test.app).await.unwrap()), test.app_state().await);
}

/// `put_state` changes a user's or an app's keys at once for all sessions, even if there is no session yet.
pub async fn put_state_reaches_every_session(store: &Store) {
    let test = TestApp::new(store);
    let put =
        |owner, delta| async move { store.sessions.put_state(&owner, delta, "admin".into()).await.expect("put_state") };
    put(test.user("alice"), delta(json!({"a": 1, "b": 1}))).await;
    put(test.app(), delta(json!({"c": 1}))).await;
    let session = test.create("alice", json!({"own": 1})).await;
    let other = test.create("bob", json!({})).await;
    assert_eq!(state(&session), json!({"own": 1, "user:a": 1, "user:b": 1, "app:c": 1}));
    put(test.user("alice"), StateDelta::new().with("a", 2).unwrap()).await;
    put(test.user("alice"), removal(&["b", "never"])).await;
    put(test.app(), delta(json!({"c": null, "d": 2}))).await;
    let read = test.get(session.key()).await;
    assert_eq!(state(&read), json!({"own": 1, "user:a": 2, "app:c": null, "app:d": 2}));
    assert_eq!(state(&test.get(other.key()).await), json!({"app:c": null, "app:d": 2}));
    assert!(read.events().is_empty(), "a write outside of any session is no event");
    assert_eq!(test.user_state("alice").await, json!({"a": 2}));
}

/// `put_state` takes names without prefix: a name that looks prefixed has no special meaning.
pub async fn put_state_takes_names_without_prefix(store: &Store) {
    let test = TestApp::new(store);
    let names = json!({"user:x": 1, "app:x": 2, "temp:x": 3, "": 4});
    test.sessions().put_state(&test.user("alice"), delta(names.clone()), "admin".into()).await.unwrap();
    assert_eq!(test.user_state("alice").await, names);
    let session = test.create("alice", json!({})).await;
    let expected = json!({"user:user:x": 1, "user:app:x": 2, "user:temp:x": 3, "user:": 4});
    assert_eq!(state(&session), expected);
}

/// An invalid owner, name or value in `put_state` is `InvalidArgument`, and nothing of the delta is written.
pub async fn a_bad_put_writes_nothing(store: &Store) {
    let test = TestApp::new(store);
    let name = "n".repeat(1022);
    for owner in [test.user("alice"), test.app()] {
        let bad = delta(json!({"a": 1})).with(name.as_str(), 1).unwrap().with("z", 1).unwrap();
        let refused = test.sessions().put_state(&owner, bad, "admin".into()).await;
        assert_refused(refused, ErrorKind::InvalidArgument, "a name that is too long with its prefix");
    }
    for owner in [StateOwner::user(&test.app, "..").unwrap(), StateOwner::app(".").unwrap()] {
        let refused = test.sessions().put_state(&owner, delta(json!({"a": 1})), "admin".into()).await;
        assert_refused(refused, ErrorKind::InvalidArgument, "an owner that no URL can name");
    }
    assert_eq!(test.user_state("alice").await, json!({}));
    assert_eq!(test.app_state().await, json!({}));
}

/// Writes by events and writes by `put_state` go to the same keys; the later one wins.
pub async fn events_and_puts_write_the_same_keys(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"user:a": 1})).await;
    test.sessions().put_state(&test.user("alice"), delta(json!({"a": 2, "b": 2})), "admin".into()).await.unwrap();
    assert_eq!(test.user_state("alice").await, json!({"a": 2, "b": 2}));
    test.append(session.key(), changing(json!({"user:a": 3}))).await;
    assert_eq!(test.user_state("alice").await, json!({"a": 3, "b": 2}));
}
