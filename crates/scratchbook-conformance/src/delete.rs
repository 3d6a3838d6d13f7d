//! Deleting sessions, and erasing users.

use serde_json::{Map, json};

use super::support::{TestApp, changing, delta, ids, saying, state};
use scratchbook_core::content::Part;
use scratchbook_core::event::Event;
use scratchbook_core::session::{ChangeQuery, CreateSessionConfig, GetSessionConfig};
use scratchbook_core::store::Store;

async fn is_there(test: &TestApp, user: &str, id: &str) -> bool {
    let read = test.sessions().get_session(&test.key(user, id), &GetSessionConfig::default()).await;
    read.expect("get_session").is_some()
}

fn with_id(id: &str) -> CreateSessionConfig {
    CreateSessionConfig::default().with_session_id(id)
}

/// Deleting removes the session with its events and its own state; the user's and the app's state stay.
pub async fn a_deleted_session_is_gone_and_shared_state_stays(store: &Store) {
    let test = TestApp::new(store);
    test.create_as("alice", with_id("s").with_state(json!({"a": 1, "user:b": 2, "app:c": 3}))).await;
    test.create_as("alice", with_id("other").with_state(json!({"a": 4}))).await;
    test.append(&test.key("alice", "s"), changing(json!({"user:d": 5}))).await;
    test.sessions().delete_session(&test.key("alice", "s")).await.unwrap();
    assert!(!is_there(&test, "alice", "s").await);
    assert_eq!(ids(&test.list(None).await), ["other"]);
    assert_eq!(ids(&test.list(Some("alice")).await), ["other"]);
    assert_eq!(test.user_state("alice").await, json!({"b": 2, "d": 5}));
    assert_eq!(test.app_state().await, json!({"c": 3}));
    let other = test.get(&test.key("alice", "other")).await;
    assert_eq!(state(&other), json!({"a": 4, "user:b": 2, "user:d": 5, "app:c": 3}));
    let log = test.sessions().list_state_changes(&test.user("alice"), &ChangeQuery::After(0), 10).await.unwrap();
    assert_eq!(log.len(), 2, "the user's log stays too");
}

/// Deleting a session that does not exist does nothing, and deletes no other.
pub async fn deleting_a_missing_session_is_silent(store: &Store) {
    let (test, elsewhere) = (TestApp::new(store), TestApp::new(store));
    test.create_as("alice", with_id("s")).await;
    for key in [test.key("alice", "other"), test.key("bob", "s"), elsewhere.key("alice", "s")] {
        for _ in 0..2 {
            test.sessions().delete_session(&key).await.expect("deleting what is not there");
        }
    }
    assert!(is_there(&test, "alice", "s").await);
}

/// A session that is created with the id of a deleted session has no events and no keys of the session, and its first
/// event gets number 1.
pub async fn a_session_made_again_begins_empty(store: &Store) {
    let test = TestApp::new(store);
    test.create_as("alice", with_id("s").with_state(json!({"a": 1, "user:b": 2}))).await;
    for n in 0..3 {
        test.append(&test.key("alice", "s"), changing(json!({"n": n}))).await;
    }
    test.sessions().delete_session(&test.key("alice", "s")).await.unwrap();
    let again = test.create_as("alice", with_id("s")).await;
    let read = test.get(again.key()).await;
    assert!(read.events().is_empty(), "it has events of its former life");
    assert_eq!((state(&read), read.seq()), (json!({"user:b": 2}), 0));
    let committed = test.append(again.key(), saying("hello")).await;
    assert_eq!(test.number(again.key(), &committed).await, Some(1));
    let since = GetSessionConfig::default().with_after_timestamp(0.0);
    assert_eq!(test.seqs(again.key(), since).await, [1]);
}

/// Erasing a user removes sessions, events, state, log and artifacts in one call, and does nothing if there are none.
pub async fn an_erased_user_is_gone_wholly(store: &Store) {
    let test = TestApp::new(store);
    for id in ["1", "2"] {
        let key = test.create_as("alice", with_id(id).with_state(json!({"user:a": 1}))).await.key().clone();
        test.append(&key, changing(json!({"x": 1, "user:b": 2}))).await;
        for name in ["own.txt", "user:shared.txt"] {
            store.artifacts.save_artifact(&key, name, Part::text("secret"), Map::new()).await.unwrap();
        }
    }
    for _ in 0..2 {
        test.sessions().delete_user(&test.app, "alice").await.expect("delete_user");
        assert!(!is_there(&test, "alice", "1").await && !is_there(&test, "alice", "2").await);
        assert!(test.list(None).await.is_empty() && test.list(Some("alice")).await.is_empty());
        assert_eq!(test.user_state("alice").await, json!({}));
        let log = test.sessions().list_state_changes(&test.user("alice"), &ChangeQuery::After(0), 10).await.unwrap();
        assert_eq!(log, [], "the user's log");
        let artifacts = store.artifacts.list_artifacts(&test.key("alice", "1")).await.unwrap();
        assert_eq!(artifacts, [""; 0], "the user's artifacts");
    }
    let again = test.create_as("alice", with_id("1")).await;
    assert_eq!((state(&again), again.seq()), (json!({}), 0));
}

/// Erasing a user does not touch other users, and does not touch the same user id in another app.
pub async fn erasing_a_user_touches_no_other(store: &Store) {
    let (test, elsewhere) = (TestApp::new(store), TestApp::new(store));
    for (test, user) in [(&test, "alice"), (&test, "bob"), (&test, "alice2"), (&elsewhere, "alice")] {
        let session = test.create_as(user, with_id("s").with_state(json!({"user:a": user}))).await;
        test.append(session.key(), saying("hello")).await;
        store.artifacts.save_artifact(session.key(), "user:f", Part::text(user), Map::new()).await.unwrap();
    }
    test.sessions().delete_user(&test.app, "alice").await.unwrap();
    for (test, user) in [(&test, "bob"), (&test, "alice2"), (&elsewhere, "alice")] {
        let read = test.get(&test.key(user, "s")).await;
        assert_eq!((state(&read), read.events().len()), (json!({"user:a": user}), 1));
        assert_eq!(test.list(Some(user)).await.len(), 1);
        let part = store.artifacts.load_artifact(read.key(), "user:f", None).await.unwrap();
        assert_eq!(part, Some(Part::text(user)));
    }
}

/// An erased user's writes to the app's keys stay, in state and log, without the user's name.
pub async fn an_erased_users_app_writes_stay_without_the_name(store: &Store) {
    let test = TestApp::new(store);
    let alice = test.create("alice", json!({"app:a": 1})).await;
    let bob = test.create("bob", json!({"app:b": 1})).await;
    test.append(alice.key(), changing(json!({"app:a": 2}))).await;
    test.sessions().delete_user(&test.app, "alice").await.unwrap();
    assert_eq!(test.app_state().await, json!({"a": 2, "b": 1}));
    assert_eq!(state(&test.get(bob.key()).await), json!({"app:a": 2, "app:b": 1}));
    let log = test.sessions().list_state_changes(&test.app(), &ChangeQuery::After(0), 10).await.unwrap();
    let values: Vec<_> = log.iter().map(|change| (change.name.as_str(), change.value.clone())).collect();
    assert_eq!(values, [("a", Some(json!(1))), ("b", Some(json!(1))), ("a", Some(json!(2)))]);
    assert!(!format!("{log:?}").contains("alice"), "the log names the erased user: {log:?}");
    assert_eq!(log[1].origin, Some((bob.key().clone(), 0)), "bob's writes name bob as before");
}

/// An erased user is not an author in the app's log any more; other authors stay.
pub async fn an_erased_user_is_no_author_in_the_apps_log(store: &Store) {
    let test = TestApp::new(store);
    let alice = test.create("alice", json!({})).await;
    let bob = test.create("bob", json!({})).await;
    for (key, author) in [(alice.key(), "alice"), (bob.key(), "alice"), (bob.key(), "bob"), (alice.key(), "agent")] {
        test.append(key, Event::new(author).with_state_delta(delta(json!({"app:a": 1})))).await;
    }
    test.sessions().delete_user(&test.app, "alice").await.unwrap();
    let log = test.sessions().list_state_changes(&test.app(), &ChangeQuery::After(0), 10).await.unwrap();
    let authors: Vec<_> = log.iter().map(|change| change.author.as_str()).collect();
    assert_eq!(authors, ["", "", "bob", "agent"]);
    assert!(!format!("{log:?}").contains("alice"), "the log names the erased user: {log:?}");
}
