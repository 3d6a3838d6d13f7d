//! Concurrent calls for the same thing, and calls whose futures are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::support::{TestApp, changing, saying, seqs, state};
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::session::{ChangeQuery, CreateSessionConfig, GetSessionConfig, Outcome, SessionServiceExt};
use scratchbook_core::store::Store;

/// Starts the calls together, each in a separate task, and returns their results.
pub(super) async fn race<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    calls: impl IntoIterator<Item = F>,
) -> Vec<T> {
    let calls: Vec<_> = calls.into_iter().collect();
    let barrier = Arc::new(Barrier::new(calls.len()));
    let mut tasks = JoinSet::new();
    for call in calls {
        let barrier = Arc::clone(&barrier);
        tasks.spawn(async move {
            barrier.wait().await;
            call.await
        });
    }
    tasks.join_all().await
}

fn sum<T>(results: &[Result<T>], kind: ErrorKind) -> (usize, usize) {
    let won = results.iter().filter(|result| result.is_ok()).count();
    let refused = results.iter().filter(|result| result.as_ref().is_err_and(|e| e.kind() == kind)).count();
    (won, refused)
}

/// Of concurrent creations of one id exactly one succeeds; the others are `AlreadyExists` and leave nothing behind.
pub async fn racing_creates_have_one_winner(store: &Store) {
    let test = TestApp::new(store);
    for round in 0..10 {
        let results = race((0..8).map(|racer| {
            let test = test.clone();
            let config = CreateSessionConfig::default()
                .with_session_id(format!("s{round}"))
                .with_state(json!({"racer": racer, "user:racer": racer, format!("user:{round}-{racer}"): 1}));
            async move { test.try_create("alice", config).await }
        }))
        .await;
        assert_eq!(sum(&results, ErrorKind::AlreadyExists), (1, 7), "won and lost");
        let winner = results.iter().find_map(|result| result.as_ref().ok()).unwrap();
        let read = test.get(winner.key()).await;
        assert_eq!(state(&read), state(winner), "what the winner was told is what is there");
        assert_eq!(read.state().get("user:racer"), read.state().get("racer"), "a loser wrote state");
    }
    assert_eq!(test.user_state("alice").await.as_object().unwrap().len(), 11, "one key a round and the shared one");
}

/// If some of many concurrent creations request the same id, exactly one creation succeeds for each free id. The others
/// are `AlreadyExists`, do not make other creations fail, and leave nothing behind.
pub async fn creations_at_once_are_each_whole(store: &Store) {
    const IDS: usize = 48;
    let test = TestApp::new(store);
    let user = |id: usize| ["alice", "bob", "carol"][id % 3];
    let config = |id: usize| CreateSessionConfig::default().with_session_id(format!("s{id}"));
    test.create_as(user(0), config(0).with_state(json!({"racer": "earlier"}))).await;
    let results = race((0..64).map(|racer| {
        let (test, id) = (test.clone(), racer % IDS);
        let config = match racer % 4 {
            0 => config(id),
            1 => config(id).with_state(json!({"racer": racer, format!("k{racer}"): "x"})),
            2 => config(id).with_state(json!({"racer": racer})),
            _ => config(id).with_state(json!({"racer": racer, format!("user:{racer}"): racer})),
        };
        async move { (racer, test.try_create(user(id), config).await) }
    }))
    .await;
    let mut winners = BTreeMap::new();
    for (racer, result) in results {
        match result {
            Ok(session) => {
                let again = winners.insert(racer % IDS, racer);
                assert_eq!(again, None, "two creations of one id");
                let names: Vec<_> = session.state().iter().map(|(name, _)| name).collect();
                let own = names.iter().filter(|name| !name.starts_with("user:")).count();
                assert_eq!(own, [0, 2, 1, 1][racer % 4], "the own keys of {racer}: {names:?}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
        }
    }
    assert_eq!(winners.keys().copied().collect::<Vec<_>>(), (1..IDS).collect::<Vec<_>>());
    let mut shared = 0;
    for (id, racer) in winners {
        let read = test.get(&test.key(user(id), &format!("s{id}"))).await;
        let expected = if racer % 4 == 0 { None } else { Some(json!(racer)) };
        assert_eq!(read.state().get("racer"), expected.as_ref(), "the session has its winner's state");
        assert!(read.events().is_empty());
        shared += usize::from(racer % 4 == 3);
    }
    let of_first = test.get(&test.key(user(0), "s0")).await;
    assert_eq!(of_first.state().get("racer"), Some(&json!("earlier")), "a refused creation wrote state");
    let mut written = 0;
    for user in ["alice", "bob", "carol"] {
        let owned = test.list(Some(user)).await;
        assert_eq!(owned.len(), IDS / 3);
        let state = state(&owned[0]);
        written += state.as_object().map_or(0, |keys| keys.keys().filter(|key| key.starts_with("user:")).count());
    }
    assert_eq!(written, shared, "a refused creation wrote a user's key");
}

/// Concurrent retries of one event are stored once, and all of them get the same result.
pub async fn racing_retries_are_stored_once(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    for round in 1..=10 {
        let results = race((0..8).map(|_| {
            let (test, key) = (test.clone(), key.clone());
            let event = changing(json!({"n": round, "user:n": round})).with_id(format!("e{round}"));
            async move { test.append(&key, event).await }
        }))
        .await;
        let stored = results.iter().filter(|committed| committed.outcome == Outcome::Stored).count();
        assert_eq!(stored, 1, "told that it was stored by this call");
        assert!(results.iter().all(|committed| committed.event == results[0].event));
        assert_eq!(results[0].event.seq, Some(round));
    }
    assert_eq!(seqs(&test.get(&key).await), (1..=10).collect::<Vec<_>>());
    let log = test.sessions().list_state_changes(&test.user("alice"), &ChangeQuery::After(0), 100).await.unwrap();
    assert_eq!(log.len(), 10, "a retry applied its changes again");
}

/// Of concurrent different events with one id exactly one is stored; the others are `AlreadyExists`.
pub async fn racing_events_of_one_id_have_one_winner(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let results = race((0..8).map(|racer| {
        let (test, key) = (test.clone(), key.clone());
        async move { test.try_append(&key, changing(json!({format!("{racer}"): 1})).with_id("e")).await }
    }))
    .await;
    assert_eq!(sum(&results, ErrorKind::AlreadyExists), (1, 7), "won and lost");
    let read = test.get(&key).await;
    assert_eq!((seqs(&read), read.state().len()), (vec![1], 1));
}

/// An append concurrent with a deletion is committed before the deletion, or is `NotFound`; it never leaves an event
/// without a session.
pub async fn appends_racing_a_delete_leave_no_orphan(store: &Store) {
    let test = TestApp::new(store);
    for round in 0..10 {
        let config = || CreateSessionConfig::default().with_session_id("s");
        let key = test.create_as("alice", config().with_state(json!({"life": round}))).await.key().clone();
        let results = race((0..9).map(|racer| {
            let (test, key) = (test.clone(), key.clone());
            async move {
                if racer == 4 {
                    return test.sessions().delete_session(&key).await.map(|()| None);
                }
                test.try_append(&key, changing(json!({format!("{racer}"): 1}))).await.map(Some)
            }
        }))
        .await;
        let (done, refused) = sum(&results, ErrorKind::NotFound);
        assert_eq!(done + refused, 9, "{results:?}");
        let read = test.sessions().get_session(&key, &GetSessionConfig::default()).await.unwrap();
        assert!(read.is_none(), "an append brought a deleted session back");
        let again = test.create_as("alice", config()).await;
        let read = test.get(again.key()).await;
        assert!(read.events().is_empty() && read.state().is_empty(), "orphans of a deleted session: {read:?}");
        assert_eq!(test.append(&key, saying("hello")).await.event.seq, Some(1));
        test.sessions().delete_session(&key).await.unwrap();
    }
}

/// If sessions with one id are created and deleted repeatedly during appends, each session has only its own events.
pub async fn lives_of_one_id_do_not_mix(store: &Store) {
    let test = TestApp::new(store);
    let key = test.key("alice", "s");
    let results = race((0..8).map(|racer| {
        let (test, key) = (test.clone(), key.clone());
        async move {
            for round in 0..15 {
                let name = format!("{racer}-{round}");
                let call = match (racer, round % 3) {
                    (0 | 1, 0 | 1) => {
                        let config =
                            CreateSessionConfig::default().with_session_id("s").with_state(json!({"life": name}));
                        test.try_create("alice", config).await.map(drop)
                    }
                    (0 | 1, _) => test.sessions().delete_session(&key).await,
                    _ => test.try_append(&key, changing(json!({format!("k{name}"): 1})).with_id(name)).await.map(drop),
                };
                if let Err(error) = call {
                    let fine = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists);
                    assert!(fine, "a race is lost as not_found or already_exists, not: {error}");
                }
                if let Some(read) = test.sessions().get_session(&key, &GetSessionConfig::default()).await.unwrap() {
                    let count = read.events().len() as u64;
                    assert_eq!(seqs(&read), (1..=count).collect::<Vec<_>>(), "numbers of one life");
                    assert_eq!(read.state().len() as u64, count + 1, "a key an event, and the life's own: {read:?}");
                }
            }
        }
    }))
    .await;
    assert_eq!(results.len(), 8);
}

/// An append whose future is dropped is committed completely or not at all, and a retry with its id is safe.
pub async fn a_dropped_append_is_whole_or_nothing(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({})).await;
    let event = |n: u64| changing(json!({"n": n, "user:n": n, "app:n": n, "temp:n": n})).with_id(format!("e{n}"));
    for n in 1..=40 {
        let before = (state(&session), session.seq());
        let patience = Duration::from_micros((n % 8) * 60);
        let answer = tokio::time::timeout(patience, async {
            tokio::task::yield_now().await;
            test.sessions().append_event(&mut session, event(n)).await
        })
        .await;
        if answer.is_err() {
            assert_eq!((state(&session), session.seq()), before, "a dropped append moved the copy");
        }
        let read = test.get(session.key()).await;
        let count = read.events().len() as u64;
        for key in ["n", "user:n", "app:n"] {
            let value: u64 = read.state().get_as(key).unwrap().unwrap_or(0);
            assert_eq!(value, count, "'{key}' of half a commit");
        }
        test.sessions().append_event(&mut session, event(n)).await.expect("a retry");
        assert_eq!((session.seq(), session.state().get("temp:n")), (n, Some(&json!(n))));
    }
    let read = test.get(session.key()).await;
    assert_eq!(seqs(&read), (1..=40).collect::<Vec<_>>());
    assert_eq!(read.events(), session.events());
}
