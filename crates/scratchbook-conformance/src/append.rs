//! Appending events: the contents and the order of commits, and refused events.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, saying, seqs, state, unnumbered};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::Outcome;
use scratchbook_core::store::Store;

/// An append commits the event, its changes in all scopes, the update time and the number together.
pub async fn an_append_commits_event_state_time_and_number(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 0})).await;
    let event = changing(json!({"a": 1, "user:b": 2, "app:c": 3})).with_id("e").with_timestamp(1_700_000_000.125);
    let committed = test.append(session.key(), event).await;
    assert_eq!(committed.outcome, Outcome::Stored);
    assert_eq!((committed.event.id.as_str(), committed.event.seq), ("e", Some(1)));
    let read = test.get(session.key()).await;
    assert_eq!(read.events().iter().collect::<Vec<_>>(), [&committed.event], "what is given back is what is stored");
    assert_eq!(state(&read), json!({"a": 1, "user:b": 2, "app:c": 3}));
    assert_eq!((read.last_update_time(), read.seq()), (1_700_000_000.125, 1));
}

/// The store assigns the numbers, per session, from 1 without gaps, whatever number an event already has.
pub async fn numbers_have_no_gaps(store: &Store) {
    let test = TestApp::new(store);
    let (first, second) = (test.create("alice", json!({})).await, test.create("alice", json!({})).await);
    for n in 1..=5 {
        for session in [&first, &second] {
            let mut event = saying("hello");
            event.seq = Some(77);
            let committed = test.append(session.key(), event).await;
            assert_eq!(test.number(session.key(), &committed).await, Some(n));
            let _ = test.try_append(session.key(), saying("refused").with_timestamp(-1.0)).await.unwrap_err();
        }
    }
    assert_eq!(seqs(&test.get(first.key()).await), [1, 2, 3, 4, 5]);
}

/// Events stay in the order of their commits, even with equal times and with times that go backwards.
pub async fn no_clock_orders_events(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let times = [500.0, 500.0, 500.0, 400.0, 300.0, 600.0, 0.0, 500.0];
    for (n, time) in times.into_iter().enumerate() {
        // Ids whose sort order differs from the order of arrival.
        let id = format!("{}", (n * 5) % 8);
        test.append(session.key(), changing(json!({"last": n})).with_id(id).with_timestamp(time)).await;
    }
    let read = test.get(session.key()).await;
    assert_eq!(seqs(&read), [1, 2, 3, 4, 5, 6, 7, 8]);
    let found: Vec<_> = read.events().iter().map(|event| event.timestamp.unwrap()).collect();
    assert_eq!(found, times);
    assert_eq!(state(&read), json!({"last": 7}), "the last commit wins, not the last time");
}

/// An event without an id or a time gets one from the store; generated ids are unique.
pub async fn an_event_gets_an_id_and_a_time(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let first = test.append(session.key(), saying("same")).await;
    let second = test.append(session.key(), saying("same")).await;
    assert!(!first.event.id.is_empty());
    assert_ne!(first.event.id, second.event.id);
    assert!(first.event.timestamp.is_some_and(|time| time > 1_600_000_000.0), "{:?}", first.event.timestamp);
    let read = test.get(session.key()).await;
    assert_eq!(unnumbered(read.events().iter()), unnumbered([&first.event, &second.event]));
}

/// Timestamps are kept bit for bit.
pub async fn timestamps_are_kept_bit_for_bit(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let times = [
        0.0,
        -0.0,
        5e-324,
        0.1,
        1_795_194_011.317_562_8,
        1_795_194_011.317_562_7,
        1_700_000_000.0,
        253_402_300_799.999_97,
    ];
    for time in times {
        let committed = test.append(session.key(), saying("hello").with_timestamp(time)).await;
        assert_eq!(committed.event.timestamp.map(f64::to_bits), Some(time.to_bits()), "{time} as given back");
    }
    let read = test.get(session.key()).await;
    for (event, time) in read.events().iter().zip(times) {
        assert_eq!(event.timestamp.map(f64::to_bits), Some(time.to_bits()), "{time} as read");
    }
}

/// A timestamp that is NaN, infinite, negative, or so large that it must be in milliseconds is `InvalidArgument`.
pub async fn bad_timestamps_are_refused(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for bad in
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -5e-324, 253_402_300_800.0, 1_795_194_011_317.0, 1e300]
    {
        let result = test.try_append(session.key(), changing(json!({"a": 1})).with_timestamp(bad)).await;
        assert_refused(result, ErrorKind::InvalidArgument, &format!("the timestamp {bad}"));
    }
    let read = test.get(session.key()).await;
    assert!(read.events().is_empty() && read.state().is_empty(), "something of a refused event was kept");
}

/// The update time is the time of the last appended event, to the microsecond, even if times go backwards.
pub async fn the_update_time_is_the_last_events(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    for (time, micros) in [
        (1_700_000_000.123_456, 1_700_000_000.123_456),
        (1_600_000_000.5, 1_600_000_000.5),
        (1_795_194_011.317_562_8, 1_795_194_011.317_563),
        (0.000_000_4, 0.0),
        (0.0, 0.0),
    ] {
        test.append(session.key(), saying("hello").with_timestamp(time)).await;
        assert_eq!(test.get(session.key()).await.last_update_time(), micros, "read after an event of {time}");
        assert_eq!(test.list(None).await[0].last_update_time(), micros, "listed after an event of {time}");
    }
}

/// Only a session's own appends change its update time. Appends to other sessions that change the user's state do not.
pub async fn other_sessions_do_not_move_the_update_time(store: &Store) {
    let test = TestApp::new(store);
    let (first, second) = (test.create("alice", json!({})).await, test.create("alice", json!({})).await);
    test.append(first.key(), saying("hello").with_timestamp(100.0)).await;
    test.append(second.key(), changing(json!({"user:a": 1, "app:a": 1})).with_timestamp(200.0)).await;
    let state = super::support::delta(json!({"b": 1}));
    match test.sessions().put_state(&test.user("alice"), state, "test".into()).await {
        // A store that has only sessions refuses this.
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        put => drop(put.unwrap()),
    }
    let read = test.get(first.key()).await;
    assert_eq!((read.last_update_time(), read.seq()), (100.0, 1));
}

/// A partial event is returned unchanged. It is not stored, and its changes are not applied.
pub async fn partial_events_are_not_stored(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let mut partial = changing(json!({"a": 1, "user:a": 1, "app:a": 1, "temp:t": 1})).with_id("p").with_timestamp(1.0);
    partial.partial = Some(true);
    let committed = test.append(session.key(), partial.clone()).await;
    assert_eq!((committed.outcome, committed.event.as_ref()), (Outcome::Partial, &partial));
    let read = test.get(session.key()).await;
    assert!(read.events().is_empty() && read.state().is_empty());
    assert_eq!(read.last_update_time(), session.last_update_time());
    partial.partial = Some(false);
    let whole = test.append(session.key(), partial).await;
    let number = test.number(session.key(), &whole).await;
    assert_eq!((whole.outcome, number), (Outcome::Stored, Some(1)), "the whole one of the same id");
}

/// Appending to a session that does not exist is `NotFound`, and creates neither a session nor state.
pub async fn appending_to_a_missing_session_is_not_found(store: &Store) {
    let (test, elsewhere) = (TestApp::new(store), TestApp::new(store));
    let session = test.create("alice", json!({})).await;
    for key in [test.key("alice", "other"), test.key("bob", session.id()), elsewhere.key("alice", session.id())] {
        let result = test.try_append(&key, changing(json!({"user:a": 1, "app:a": 1}))).await;
        assert_refused(result, ErrorKind::NotFound, "an append to a missing session");
    }
    for test in [&test, &elsewhere] {
        assert_eq!(test.app_state().await, json!({}));
        assert_eq!(test.user_state("alice").await, json!({}));
        assert_eq!(test.user_state("bob").await, json!({}));
    }
    assert_eq!(test.list(None).await.len(), 1);
    assert_eq!(elsewhere.list(None).await.len(), 0);
}
