//! Idempotent appends: an event is stored once, however often it is sent.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, removal, saying, seqs, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{ChangeQuery, Outcome};
use scratchbook_core::store::Store;

/// An event whose id and content are already in the session is answered with the stored one; nothing changes.
pub async fn the_same_event_is_stored_once(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let event = || changing(json!({"a": 1, "user:a": 1, "app:a": 1})).with_id("e").with_timestamp(100.5);
    let first = test.append(session.key(), event()).await;
    test.append(session.key(), changing(json!({"a": 2, "user:a": 2, "app:a": 2})).with_timestamp(200.0)).await;
    for _ in 0..2 {
        let again = test.append(session.key(), event()).await;
        assert_eq!((again.outcome, &again.event), (Outcome::Replayed, &first.event));
        let read = test.get(session.key()).await;
        assert_eq!((seqs(&read), read.last_update_time()), (vec![1, 2], 200.0));
        assert_eq!(state(&read), json!({"a": 2, "user:a": 2, "app:a": 2}), "a retry applied its changes again");
    }
    let log = test.sessions().list_state_changes(&test.user("alice"), &ChangeQuery::After(0), 10).await.unwrap();
    assert_eq!(log.len(), 2, "{log:?}");
}

/// A retry without a timestamp is recognized, although the stored event has one.
pub async fn a_retry_without_a_time_is_known(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let first = test.append(session.key(), saying("hello").with_id("e")).await;
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    let again = test.append(session.key(), saying("hello").with_id("e")).await;
    assert_eq!((again.outcome, &again.event), (Outcome::Replayed, &first.event));
    assert_eq!(seqs(&test.get(session.key()).await), [1]);
}

/// Events that differ only in `temp:` keys are the same.
pub async fn temp_keys_make_no_difference(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for (n, delta) in
        [json!({"a": 1, "temp:t": 1}), json!({"temp:t": 2, "a": 1}), json!({"a": 1})].into_iter().enumerate()
    {
        let committed = test.append(session.key(), changing(delta).with_id("e")).await;
        assert_eq!(committed.outcome, if n == 0 { Outcome::Stored } else { Outcome::Replayed });
    }
}

/// An event whose id is in the session with different content is `AlreadyExists`, and nothing changes.
pub async fn another_event_of_the_same_id_is_refused(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let event = changing(json!({"a": 1})).with_id("e").with_timestamp(100.0);
    test.append(session.key(), event.clone()).await;
    let mut other_author = event.clone();
    other_author.author = "other".to_owned();
    let mut removed = event.clone();
    removed.actions.state_delta = removal(&["a"]);
    let others = [
        changing(json!({"a": 2})).with_id("e").with_timestamp(100.0),
        changing(json!({"a": 1.0})).with_id("e").with_timestamp(100.0),
        event.clone().with_timestamp(100.000_000_1),
        event.clone().with_content("text"),
        event.clone().with_invocation_id("inv"),
        other_author,
        removed,
        Event::new("agent").with_id("e"),
    ];
    for other in others {
        let result = test.try_append(session.key(), other.clone()).await;
        assert_refused(result, ErrorKind::AlreadyExists, &format!("{other:?}"));
    }
    let read = test.get(session.key()).await;
    assert_eq!((seqs(&read), state(&read), read.last_update_time()), (vec![1], json!({"a": 1}), 100.0));
}

/// The same event id in another session is a different event.
pub async fn event_ids_are_a_sessions_own(store: &Store) {
    let test = TestApp::new(store);
    for user in ["alice", "alice", "bob"] {
        let session = test.create(user, json!({})).await;
        let committed = test.append(session.key(), saying(user).with_id("e")).await;
        assert_eq!((committed.outcome, test.number(session.key(), &committed).await), (Outcome::Stored, Some(1)));
    }
}

/// Event ids are compared byte by byte.
pub async fn event_ids_are_compared_byte_by_byte(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let names: Vec<_> = super::support::NAMES.iter().copied().chain(["cart ", " cart", " "]).collect();
    for name in &names {
        let committed = test.append(session.key(), saying(name).with_id(*name)).await;
        assert_eq!((committed.outcome, committed.event.id.as_str()), (Outcome::Stored, *name));
    }
    let read = test.get(session.key()).await;
    assert_eq!(read.events().iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), names);
}

/// After a session is deleted, its event ids are free again.
pub async fn a_deleted_sessions_event_ids_are_free(store: &Store) {
    let test = TestApp::new(store);
    for text in ["first life", "second life"] {
        let config = scratchbook_core::session::CreateSessionConfig::default().with_session_id("s");
        let session = test.create_as("alice", config).await;
        let committed = test.append(session.key(), saying(text).with_id("e")).await;
        assert_eq!((committed.outcome, test.number(session.key(), &committed).await), (Outcome::Stored, Some(1)));
        test.sessions().delete_session(session.key()).await.unwrap();
    }
}
