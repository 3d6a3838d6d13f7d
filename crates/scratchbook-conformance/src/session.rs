//! The caller's snapshot: `append_event` advances it by the event and by nothing else.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, removal, saying, seqs, state, unnumbered};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{CreateSessionConfig, GetSessionConfig, SessionServiceExt};
use scratchbook_core::store::Store;

/// `append_event` advances the caller's snapshot by this event: its number, its changes, its time.
pub async fn a_copy_moves_by_its_own_events(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({"a": 0, "gone": 1, "user:gone": 1})).await;
    let event = changing(json!({"a": 1, "user:b": {"x": [1]}, "app:c": 3})).with_timestamp(100.000_000_4);
    let stored = test.sessions().append_event(&mut session, event).await.unwrap();
    let mut event = Event::new("agent").with_timestamp(200.0);
    event.actions.state_delta = removal(&["gone", "user:gone"]);
    test.sessions().append_event(&mut session, event).await.unwrap();
    assert_eq!(session.events().get(0), Some(&stored));
    let read = test.get(session.key()).await;
    assert_eq!(state(&session), json!({"a": 1, "user:b": {"x": [1]}, "app:c": 3}));
    assert_eq!(state(&session), state(&read));
    assert_eq!(session.events(), read.events());
    assert_eq!((session.seq(), session.last_update_time()), (read.seq(), read.last_update_time()));
}

/// An event's `temp:` keys are visible only in the caller's snapshot, until it is read again.
pub async fn temp_keys_are_seen_in_the_copy_alone(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({})).await;
    let event = changing(json!({"temp:t": 1, "temp:gone": 1, "a": 1}));
    let stored = test.sessions().append_event(&mut session, event).await.unwrap();
    let event = Event::new("agent").with_state_delta(removal(&["temp:gone"]));
    test.sessions().append_event(&mut session, event).await.unwrap();
    assert_eq!(state(&session), json!({"temp:t": 1, "a": 1}));
    assert!(!stored.actions.state_delta.contains("temp:t"), "the stored event holds a temp: key");
    assert_eq!(state(&test.get(session.key()).await), json!({"a": 1}));
    test.sessions().refresh(&mut session).await.unwrap();
    assert_eq!(state(&session), json!({"a": 1}));
}

/// Commits of others are not fetched; a gap in the numbers shows them, and `refresh` reads them.
pub async fn what_others_committed_shows_as_a_gap(store: &Store) {
    let test = TestApp::new(store);
    let mut mine = test.create("alice", json!({"a": 0})).await;
    test.sessions().append_event(&mut mine, saying("one")).await.unwrap();
    test.set(mine.key(), json!({"a": 1, "theirs": 1, "user:theirs": 1})).await;
    test.sessions().append_event(&mut mine, changing(json!({"mine": 1}))).await.unwrap();
    assert_eq!(seqs(&mine), [1, 3], "the gap");
    assert_eq!(state(&mine), json!({"a": 0, "mine": 1}));
    assert_eq!(mine.seq(), 1, "an own append over events by others does not count them as seen");
    test.sessions().refresh(&mut mine).await.unwrap();
    assert_eq!((seqs(&mine), mine.seq()), (vec![1, 2, 3], 3));
    assert_eq!(state(&mine), json!({"a": 1, "theirs": 1, "mine": 1, "user:theirs": 1}));
}

/// A stale snapshot is not refused: both commits stay, and the later one wins the keys that both wrote.
pub async fn stale_copies_merge_key_by_key(store: &Store) {
    let test = TestApp::new(store);
    let mut first = test.create("alice", json!({"both": 0})).await;
    let mut second = test.get(first.key()).await;
    for n in 0..5 {
        let event = changing(json!({"both": n, "first": n, "user:first": n}));
        test.sessions().append_event(&mut first, event).await.expect("an append from a stale copy");
        let event = changing(json!({"both": n + 100, "second": n, "user:second": n}));
        test.sessions().append_event(&mut second, event).await.expect("an append from a stale copy");
    }
    let read = test.get(first.key()).await;
    let expected = json!({"both": 104, "first": 4, "second": 4, "user:first": 4, "user:second": 4});
    assert_eq!(state(&read), expected);
    assert_eq!(read.events().len(), 10);
}

/// After an error, the snapshot and the store are unchanged.
pub async fn an_error_leaves_the_copy_unchanged(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({"a": 1})).await;
    test.sessions().append_event(&mut session, saying("one").with_id("one")).await.unwrap();
    let before = session.clone();
    let bad = [
        (changing(json!({"a": 2, "temp:t": 2})).with_timestamp(f64::NAN), ErrorKind::InvalidArgument),
        (changing(json!({"a": 2, "temp:t": 2})).with_id("one"), ErrorKind::AlreadyExists),
        (changing(json!({"a": 2, "temp:t": 2})).with_id("a\nb"), ErrorKind::InvalidArgument),
    ];
    for (event, kind) in bad {
        let result = test.sessions().append_event(&mut session, event).await;
        assert_refused(result, kind, "a bad event");
        assert_eq!((state(&session), session.events()), (state(&before), before.events()));
        assert_eq!((session.seq(), session.last_update_time()), (before.seq(), before.last_update_time()));
    }
    let read = test.get(session.key()).await;
    let events = |of: &scratchbook_core::session::Session| unnumbered(of.events().iter());
    assert_eq!((state(&read), events(&read)), (state(&before), events(&before)));
    test.sessions().delete_session(session.key()).await.unwrap();
    let result = test.sessions().append_event(&mut session, changing(json!({"a": 2}))).await;
    assert_refused(result, ErrorKind::NotFound, "an append to a deleted session");
    assert_eq!((state(&session), session.events()), (state(&before), before.events()));
    let refreshed = test.sessions().refresh(&mut session).await;
    assert_refused(refreshed, ErrorKind::NotFound, "a refresh of a deleted session");
}

/// A partial event does not advance the snapshot.
pub async fn a_partial_event_moves_no_copy(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({"a": 1})).await;
    let mut event = changing(json!({"a": 2, "temp:t": 1}));
    event.partial = Some(true);
    let given = test.sessions().append_event(&mut session, event.clone()).await.unwrap();
    assert_eq!(given.as_ref(), &event);
    assert_eq!((state(&session), session.seq(), session.events().len()), (json!({"a": 1}), 0, 0));
}

/// A retry advances the snapshot as the first attempt would have, and a second retry changes nothing.
pub async fn a_retry_moves_the_copy_once(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({})).await;
    let event = || changing(json!({"a": 1, "temp:t": 1})).with_id("e").with_timestamp(5.0);
    // The response to the first attempt is lost.
    test.append(session.key(), event()).await;
    for _ in 0..2 {
        test.sessions().append_event(&mut session, event()).await.unwrap();
        assert_eq!(state(&session), json!({"a": 1, "temp:t": 1}));
        assert_eq!((seqs(&session), session.seq()), (vec![1], 1));
    }
}

/// A retry does not change a snapshot that was read after the first attempt, whatever part of the session it has.
pub async fn a_retry_moves_no_copy_that_has_seen_it(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let event = || changing(json!({"a": 1, "temp:t": 1})).with_id("e").with_timestamp(5.0);
    test.append(&key, event()).await;
    test.append(&key, changing(json!({"a": 2})).with_timestamp(6.0)).await;
    for config in [GetSessionConfig::default(), GetSessionConfig::state_only()] {
        let mut copy = test.read(&key, config).await;
        let before = copy.clone();
        test.sessions().append_event(&mut copy, event()).await.unwrap();
        assert_eq!(state(&copy), json!({"a": 2}));
        assert_eq!((copy.events(), copy.last_update_time()), (before.events(), 6.0));
    }
}

/// A retry that comes after a later append does not undo the later changes.
pub async fn a_late_retry_takes_nothing_back(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({})).await;
    let lost = || changing(json!({"a": 1, "b": 1, "temp:a": 1})).with_id("lost").with_timestamp(5.0);
    test.append(session.key(), lost()).await;
    let later = changing(json!({"a": 2, "temp:a": 2})).with_timestamp(6.0);
    test.sessions().append_event(&mut session, later).await.unwrap();
    test.sessions().append_event(&mut session, lost()).await.unwrap();
    assert_eq!(state(&session), json!({"a": 2, "b": 1, "temp:a": 2}));
    assert_eq!((seqs(&session), session.seq(), session.last_update_time()), (vec![1, 2], 2, 6.0));
    let read = test.get(session.key()).await;
    assert_eq!((read.events(), read.last_update_time()), (session.events(), 6.0));
}

/// A snapshot of a part of the session advances like any other.
pub async fn a_part_moves_like_the_whole(store: &Store) {
    let test = TestApp::new(store);
    let created = test.create("alice", json!({"a": 1, "b": 1})).await;
    test.append(created.key(), saying("one")).await;
    let config = GetSessionConfig::state_only().with_state_keys(["a"]);
    let mut part = test.read(created.key(), config).await;
    test.sessions().append_event(&mut part, changing(json!({"c": 1}))).await.unwrap();
    assert_eq!((state(&part), seqs(&part), part.seq()), (json!({"a": 1, "c": 1}), vec![2], 2));
}

/// `refresh` adds unseen events to those of the snapshot. A snapshot that was read without events gets only the new
/// ones.
pub async fn refresh_reads_what_is_new(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    for n in 1..=5 {
        test.set(&key, json!({"n": n})).await;
    }
    let mut bare = test.read(&key, GetSessionConfig::state_only()).await;
    let mut some = test.read(&key, GetSessionConfig::default().with_num_recent_events(2)).await;
    test.set(&key, json!({"n": 6})).await;
    for (copy, numbers) in [(&mut bare, vec![6]), (&mut some, vec![4, 5, 6])] {
        test.sessions().refresh(copy).await.unwrap();
        assert_eq!((seqs(copy), copy.seq()), (numbers, 6));
        assert_eq!(state(copy), json!({"n": 6}));
    }
    test.sessions().refresh(&mut some).await.unwrap();
    assert_eq!(seqs(&some), [4, 5, 6], "nothing is new");
}

/// If a session was deleted and created again, `refresh` shows only the new session.
pub async fn refresh_shows_a_session_made_anew(store: &Store) {
    let test = TestApp::new(store);
    let mut copy = test.create("alice", json!({"old": 1})).await;
    let key = copy.key().clone();
    test.sessions().append_event(&mut copy, changing(json!({"old": 2}))).await.unwrap();
    test.sessions().delete_session(&key).await.unwrap();
    let config = CreateSessionConfig::default().with_session_id(key.session_id());
    test.create_as("alice", config).await;
    for n in 1..=3 {
        test.set(&key, json!({"new": n})).await;
    }
    test.sessions().refresh(&mut copy).await.unwrap();
    assert_eq!((seqs(&copy), state(&copy)), (vec![1, 2, 3], json!({"new": 3})));
}
