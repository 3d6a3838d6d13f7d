//! Reading sessions: completely, or in part.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, saying, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{CreateSessionConfig, GetSessionConfig, SessionKey};
use scratchbook_core::store::Store;

/// Times that go back and forth, as if several clocks set them. The event with number n has the n-th of these times.
const TIMES: [f64; 10] = [105.0, 101.0, 109.0, 101.0, 110.0, 102.0, 108.0, 103.0, 107.0, 104.0];

async fn ten_events(test: &TestApp) -> SessionKey {
    let events = TIMES.iter().map(|time| changing(json!({"last": time})).with_timestamp(*time)).collect();
    let config = CreateSessionConfig::default().with_state(json!({"user:a": 1, "app:b": 2, "c": 3}));
    test.create_with("alice", config, events).await.key().clone()
}

fn config() -> GetSessionConfig {
    GetSessionConfig::default()
}

/// Reading a session that does not exist returns `None`, whether the app, the user or the id is unknown.
pub async fn a_missing_session_is_none(store: &Store) {
    let (test, elsewhere) = (TestApp::new(store), TestApp::new(store));
    let session = test.create("alice", json!({})).await;
    for key in [test.key("alice", "other"), test.key("bob", session.id()), elsewhere.key("alice", session.id())] {
        for config in [config(), GetSessionConfig::state_only(), config().with_num_recent_events(1)] {
            let read = store.sessions.get_session(&key, &config).await.expect("get_session");
            assert!(read.is_none(), "{key} is there");
        }
    }
}

/// Merged state is current: it includes the committed `user:` and `app:` writes of other sessions at once.
pub async fn merged_state_is_live(store: &Store) {
    let test = TestApp::new(store);
    let (first, second) = (test.create("alice", json!({})).await, test.create("alice", json!({})).await);
    let other = test.create("bob", json!({})).await;
    for n in 0..5 {
        test.set(first.key(), json!({"user:n": n, "app:n": n, "n": n})).await;
        assert_eq!(state(&test.get(second.key()).await), json!({"user:n": n, "app:n": n}));
        assert_eq!(state(&test.get(other.key()).await), json!({"app:n": n}));
    }
}

/// A session that was read is a snapshot: later commits do not change it.
pub async fn a_read_session_is_a_snapshot(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1, "user:a": 1, "app:a": 1})).await;
    let before = test.get(session.key()).await;
    test.set(session.key(), json!({"a": 2, "user:a": 2, "app:a": 2})).await;
    test.sessions().delete_session(session.key()).await.unwrap();
    assert_eq!(state(&before), json!({"a": 1, "user:a": 1, "app:a": 1}));
    assert!(before.events().is_empty());
}

/// By default all events are read, in the store's order.
pub async fn all_events_are_read_by_default(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    assert_eq!(test.seqs(&key, config()).await, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

/// `num_recent_events` reads this many of the last events, in the store's order: none for 0, all if there are fewer.
pub async fn recent_events_are_the_last_by_number(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    for (count, expected) in [
        (0, &[][..]),
        (1, &[10]),
        (3, &[8, 9, 10]),
        (9, &[2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (10, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (11, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (usize::MAX, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ] {
        let read = test.read(&key, config().with_num_recent_events(count)).await;
        assert_eq!(test.numbers(&read).await, expected, "the last {count}");
        assert_eq!(read.state().get("last"), Some(&json!(104.0)), "the state is whole all the same");
    }
}

/// `after_timestamp` reads the events from that time on, inclusive, in the store's order.
pub async fn after_timestamp_is_inclusive(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    for (from, expected) in [
        (0.0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10][..]),
        (-0.0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (101.0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (101.000_000_000_001, &[1, 3, 5, 6, 7, 8, 9, 10]),
        (104.0, &[1, 3, 5, 7, 9, 10]),
        (108.0, &[3, 5, 7]),
        (110.0, &[5]),
        (110.000_000_000_001, &[]),
        (253_402_300_799.0, &[]),
    ] {
        assert_eq!(test.seqs(&key, config().with_after_timestamp(from)).await, expected, "from {from} on");
    }
}

/// The time `-0.0` equals `0.0`: it is before all others.
pub async fn negative_zero_is_a_time_like_zero(store: &Store) {
    let test = TestApp::new(store);
    let events = [1.0, -0.0, 2.0].map(|time| saying("hello").with_timestamp(time)).to_vec();
    let created = test.create_with("alice", scratchbook_core::session::CreateSessionConfig::default(), events).await;
    for (from, expected) in [(0.5, &[1, 3][..]), (0.0, &[1, 2, 3]), (-0.0, &[1, 2, 3]), (1.5, &[3])] {
        let read = test.seqs(created.key(), config().with_after_timestamp(from)).await;
        assert_eq!(read, expected, "from {from} on");
    }
}

/// With both options, the events from that time on are selected first, and of these the given number from the end.
pub async fn after_timestamp_comes_before_the_last_n(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    for (from, count, expected) in [
        (104.0, 0, &[][..]),
        (104.0, 1, &[10]),
        (104.0, 3, &[7, 9, 10]),
        (104.0, 5, &[3, 5, 7, 9, 10]),
        (104.0, 6, &[1, 3, 5, 7, 9, 10]),
        (104.0, 100, &[1, 3, 5, 7, 9, 10]),
        (110.0, 2, &[5]),
        (111.0, 2, &[]),
        (0.0, 2, &[9, 10]),
    ] {
        let config = config().with_after_timestamp(from).with_num_recent_events(count);
        assert_eq!(test.seqs(&key, config).await, expected, "the last {count} from {from} on");
    }
}

/// A cursor reads events forwards, page by page to the end, each event once.
pub async fn a_cursor_reads_forwards(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    for limit in 1..=11 {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let page = test.seqs(&key, config().with_events_after(after, limit)).await;
            assert!(page.len() <= limit, "a page of {} with a limit of {limit}", page.len());
            let Some(last) = page.last() else { break };
            after = *last;
            seen.extend(page);
            assert!(seen.len() <= 10, "pages of {limit} come to no end: {seen:?}");
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "pages of {limit}");
    }
    for (seq, limit) in [(0, 0), (10, 5), (11, 5), (u64::MAX, 5), (u64::MAX, usize::MAX)] {
        let page = test.seqs(&key, config().with_events_after(seq, limit)).await;
        assert_eq!(page, [] as [u64; 0], "{limit} after {seq}");
    }
    assert_eq!(test.seqs(&key, config().with_events_after(8, usize::MAX)).await, [9, 10]);
}

/// A cursor reads events backwards, page by page to the beginning, each page in the store's order.
pub async fn a_cursor_reads_backwards(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    for limit in 1..=11 {
        let (mut seen, mut before) = (Vec::new(), u64::MAX);
        loop {
            let page = test.seqs(&key, config().with_events_before(before, limit)).await;
            assert!(page.len() <= limit, "a page of {} with a limit of {limit}", page.len());
            let Some(first) = page.first() else { break };
            before = *first;
            seen.splice(0..0, page);
            assert!(seen.len() <= 10, "pages of {limit} come to no end: {seen:?}");
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "pages of {limit}");
    }
    for (seq, limit) in [(0, 5), (1, 5), (5, 0)] {
        let page = test.seqs(&key, config().with_events_before(seq, limit)).await;
        assert_eq!(page, [] as [u64; 0], "{limit} before {seq}");
    }
    assert_eq!(test.seqs(&key, config().with_events_before(3, usize::MAX)).await, [1, 2]);
}

/// The state can be read without any events.
pub async fn the_state_can_be_read_alone(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    let read = test.read(&key, GetSessionConfig::state_only()).await;
    assert!(read.events().is_empty());
    assert_eq!(state(&read), json!({"user:a": 1, "app:b": 2, "c": 3, "last": 104.0}));
    assert_eq!(read.last_update_time(), 104.0);
}

/// Some keys of the state can be read alone; missing ones are left out.
pub async fn some_keys_can_be_read_alone(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    for (keys, expected) in [
        (&["user:a", "c"][..], json!({"user:a": 1, "c": 3})),
        (&["app:b"], json!({"app:b": 2})),
        (&["app:b", "app:b", "missing", "user:missing", "app:missing", "temp:t"], json!({"app:b": 2})),
        (&["a", "b", "user:c", "app:c", ""], json!({})),
        (&[], json!({})),
    ] {
        let read = test.read(&key, config().with_state_keys(keys.iter().copied())).await;
        assert_eq!(state(&read), expected, "of {keys:?}");
        assert_eq!(read.events().len(), 10, "the events are whole all the same");
    }
    let bad = config().with_state_keys(["a\0b"]);
    let refused = store.sessions.get_session(&key, &bad).await;
    assert_refused(refused, ErrorKind::InvalidArgument, "a key that can be none");
}

/// Whatever part is read, the snapshot has the session's number and update time.
pub async fn every_part_knows_where_the_session_stands(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    let parts = [
        config(),
        GetSessionConfig::state_only(),
        config().with_num_recent_events(2),
        config().with_after_timestamp(110.0),
        config().with_events_after(0, 2),
        config().with_events_before(3, 1),
        config().with_state_keys(["c"]),
    ];
    for part in parts {
        let read = test.read(&key, part.clone()).await;
        assert_eq!((read.seq(), read.last_update_time()), (10, 104.0), "{part:?}");
    }
    test.append(&key, saying("more").with_timestamp(90.0)).await;
    let read = test.read(&key, config().with_num_recent_events(1)).await;
    assert_eq!((read.seq(), read.last_update_time()), (11, 90.0));
}

/// Contradictory options, and invalid times, are `InvalidArgument`.
pub async fn options_that_mean_nothing_are_refused(store: &Store) {
    let test = TestApp::new(store);
    let key = ten_events(&test).await;
    for bad in [
        config().with_events_after(0, 1).with_num_recent_events(1),
        config().with_events_before(5, 1).with_after_timestamp(1.0),
        config().with_after_timestamp(f64::NAN),
        config().with_after_timestamp(f64::INFINITY),
        config().with_after_timestamp(-1.0),
        config().with_after_timestamp(1_795_194_011_317.0),
    ] {
        let refused = store.sessions.get_session(&key, &bad).await;
        assert_refused(refused, ErrorKind::InvalidArgument, &format!("{bad:?}"));
    }
}

/// The last N events since a time are exact, whatever the clocks show: times in order, out of order, or one far off.
pub async fn the_last_n_since_a_time_are_exact_on_any_clock(store: &Store) {
    let test = TestApp::new(store);
    let in_order = (0..300).map(|n| n * 10).collect::<Vec<u64>>();
    let shuffled = (0..300).map(|n| n * 7919 % 300 * 10).collect::<Vec<u64>>();
    let one_off = (0..300).map(|n| if n == 297 { 1 } else { n * 10 }).collect::<Vec<u64>>();
    let backwards = (0..300).map(|n| 3000 - n * 10).collect::<Vec<u64>>();
    for times in [in_order, shuffled, one_off, backwards] {
        let event = |time: &u64| Event::new("agent").with_timestamp(*time as f64);
        let config = CreateSessionConfig::default().with_events(times.iter().map(event).collect());
        let session = test.create_as("alice", config).await;
        for since in [0, 15, 1500, 2900, 2970, 2990, 5000] {
            for count in [1, 2, 3, 20, 100, 300, 1000] {
                let numbers = (1_u64..).zip(&times).filter(|(_, time)| **time >= since).map(|(seq, _)| seq);
                let numbers = numbers.collect::<Vec<_>>();
                let last = &numbers[numbers.len().saturating_sub(count)..];
                let config = GetSessionConfig::default().with_after_timestamp(since as f64);
                let found = test.seqs(session.key(), config.with_num_recent_events(count)).await;
                assert_eq!(found, last, "the last {count} since {since} of {times:?}");
            }
        }
    }
}
