//! Reads whose callers have gone: these reads end, and reads of other callers do not wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::{CreateSessionConfig, Event, GetSessionConfig, SessionKey, StateDelta, Store};
use tokio::time::timeout;

const EVENTS: usize = 8000;

async fn long(store: &Store) -> SessionKey {
    let text = "x".repeat(200);
    let event = |n: usize| {
        let delta = StateDelta::new().with("n", format!("{n} {text}")).unwrap();
        Event::new("agent").with_id(format!("e{n}")).with_state_delta(delta)
    };
    let events = (0..EVENTS).map(event).collect();
    let config = CreateSessionConfig::default().with_session_id("long").with_events(events);
    store.sessions.create_session("app", "alice", config).await.unwrap().key().clone()
}

async fn reads_that_nobody_waits_for_hold_up_nobody(store: Store) {
    let long = long(&store).await;
    let small = store.sessions.create_session("app", "bob", Default::default()).await.unwrap().key().clone();
    let begun = Instant::now();
    let whole = store.sessions.get_session(&long, &GetSessionConfig::default()).await.unwrap().unwrap();
    let one = begun.elapsed();
    assert_eq!(whole.events().len(), EVENTS);
    drop(whole);
    // Some of these reads are running when they are dropped; the others wait behind them.
    let reads = (0..100).map(|_| {
        let (store, long) = (store.clone(), long.clone());
        tokio::spawn(async move {
            let all = GetSessionConfig::default();
            let read = store.sessions.get_session(&long, &all);
            timeout(Duration::from_millis(50), read).await.is_err()
        })
    });
    let left = join_all(reads).await.into_iter().filter(|left| *left.as_ref().unwrap()).count();
    let begun = Instant::now();
    let read = timeout(Duration::from_secs(60), store.sessions.get_session(&small, &GetSessionConfig::default())).await;
    read.expect("it is read").unwrap().unwrap();
    let waited = begun.elapsed();
    println!("one read of {EVENTS} events {one:?}; after {left} that were left the next small one {waited:?}");
    assert!(waited < Duration::from_secs(1), "{waited:?} behind {left} reads that nobody waits for, of {one:?} each");
}

/// After a read was dropped, the next call on its connection gets its own answer.
async fn reads_beside_those_that_are_left_are_whole(store: Store) {
    let long = Arc::new(long(&store).await);
    let config = GetSessionConfig::default().with_num_recent_events(10);
    for round in 0..40 {
        let all = GetSessionConfig::default();
        let left = timeout(Duration::from_millis(round), store.sessions.get_session(&long, &all));
        let (_, last) = tokio::join!(left, store.sessions.get_session(&long, &config));
        let last = last.unwrap().unwrap();
        assert_eq!(last.events().iter().filter_map(|event| event.seq).next_back(), Some(EVENTS as u64));
        assert_eq!(last.events().len(), 10);
    }
}

macro_rules! leaving_tests {
    ($name:ident, $open:path) => {
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn reads_that_nobody_waits_for_hold_up_nobody() {
                let (store, _guard) = $open().await;
                super::reads_that_nobody_waits_for_hold_up_nobody(store).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn reads_beside_those_that_are_left_are_whole() {
                let (store, _guard) = $open().await;
                super::reads_beside_those_that_are_left_are_whole(store).await;
            }
        }
    };
}

for_each_store!(leaving_tests);
