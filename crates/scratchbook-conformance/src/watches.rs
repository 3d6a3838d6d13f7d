//! Many watches of one feed that share their reads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::support::{TestApp, assert_refused, changing, delta};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{
    CreateSessionConfig, FeedCommit, FeedEntry, FeedStart, Prune, SessionKey, SessionService, Watch, Watched, Watches,
};
use scratchbook_core::store::Store;

// Long, because hundreds of promises may run side by side on two busy cores.
const SOON: Duration = Duration::from_mins(5);

type SharedSessions = Arc<dyn SessionService>;

async fn next(watch: &mut Watch<SharedSessions>) -> FeedEntry {
    timeout(SOON, watch.next()).await.expect("an entry comes soon").expect("an entry")
}

/// Takes events until each session has this many, and asserts that none is missing or repeated.
async fn take(
    watches: &Watches<SharedSessions>,
    what: Watched,
    mut watch: Watch<SharedSessions>,
    sessions: usize,
    each: u64,
    pause: u64,
) {
    let (mut lasts, mut seen) = (HashMap::<SessionKey, u64>::new(), 0_u64);
    while lasts.len() < sessions || lasts.values().any(|last| *last < each) {
        let entry = next(&mut watch).await;
        let FeedCommit::Event { session, event } = &entry.commit else { continue };
        let last = lasts.entry(session.clone()).or_default();
        *last += 1;
        assert_eq!(event.seq, Some(*last), "{session}");
        seen += 1;
        if pause > 0 && seen.is_multiple_of(pause) {
            // One watch is slow, and one disconnects and resumes.
            if pause.is_multiple_of(2) {
                tokio::time::sleep(Duration::from_millis(30)).await;
            } else {
                let start = FeedStart::After(watch.cursor().clone());
                watch = watches.start(what.clone(), start).await.expect("a watch");
            }
        }
    }
}

/// Any number of watches of an app, a user or a session, fast, slow or disconnecting, each get every event once and in
/// order.
pub async fn who_reads_together_misses_nothing(store: &Store) {
    const WRITERS: u64 = 3;
    const EACH: u64 = 60;
    let test = TestApp::new(store);
    let watches = Arc::new(Watches::new(Arc::clone(test.sessions())));
    let mut keys = Vec::new();
    for n in 0..WRITERS {
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}"));
        keys.push(test.create_as("alice", config).await.key().clone());
    }
    let mut followers = JoinSet::new();
    for pause in [0, 0, 0, 7, 7, 9, 20, 20, 31] {
        let whats = [
            (Watched::app(&test.app).unwrap(), keys.len()),
            (Watched::user(&test.app, "alice").unwrap(), keys.len()),
            (Watched::session(keys[0].clone()), 1),
        ];
        for (what, sessions) in whats {
            for start in [FeedStart::Beginning, FeedStart::Now] {
                let (watches, what) = (Arc::clone(&watches), what.clone());
                // Nothing is written yet, so watches that start now have to get every entry.
                let watch = watches.start(what.clone(), start).await.expect("a watch");
                followers.spawn(async move { take(&watches, what, watch, sessions, EACH, pause).await });
            }
        }
    }
    let mut writers = JoinSet::new();
    for key in keys {
        let test = test.clone();
        writers.spawn(async move {
            for n in 0..EACH {
                test.append(&key, changing(json!({"n": n}))).await;
            }
        });
    }
    writers.join_all().await;
    timeout(SOON * 3, followers.join_all()).await.expect("all get all");
}

/// Each watch returns the entries of its own prefix, whatever the others follow. If the session is deleted, each of
/// its watches ends with an error.
pub async fn each_of_those_who_read_together_has_its_own_prefix(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let watches = Watches::new(Arc::clone(test.sessions()));
    let user = Watched::user(&test.app, "alice").unwrap();
    let begin = |what: Watched| watches.start(what, FeedStart::Now);
    let mut all = begin(user.clone()).await.unwrap();
    let mut cart = begin(user.with_key_prefix("user:cart")).await.unwrap();
    let mut one = begin(Watched::session(key.clone())).await.unwrap();
    let mut same = begin(Watched::session(key.clone())).await.unwrap();
    for n in 0..3 {
        test.set(&key, json!({"n": n})).await;
        test.sessions().put_state(&test.user("alice"), delta(json!({"cart": n})), "admin".into()).await.unwrap();
        assert_eq!(next(&mut all).await.keys(), ["n"]);
        assert_eq!(next(&mut all).await.keys(), ["user:cart"]);
        assert_eq!(next(&mut cart).await.keys(), ["user:cart"]);
        assert_eq!(next(&mut one).await.keys(), ["n"]);
        assert_eq!(next(&mut same).await.keys(), ["n"]);
    }
    test.sessions().delete_session(&key).await.unwrap();
    for watch in [&mut one, &mut same] {
        let ended = timeout(SOON, watch.next()).await.expect("its followers hear of it").map(drop);
        assert_refused(ended, ErrorKind::NotFound, "a session that was deleted");
    }
}

/// A watch whose next entry was pruned ends with an error, and no other watch of the session does.
pub async fn a_watch_that_lags_behind_a_prune_ends_no_other(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let watches = Watches::new(Arc::clone(test.sessions()));
    let begin = || watches.start(Watched::session(key.clone()), FeedStart::Now);
    let mut slow = begin().await.unwrap();
    // It reaches the end and waits there. Then nobody asks for its entries.
    assert!(timeout(Duration::from_millis(500), slow.next()).await.is_err());
    for n in 1..=5 {
        test.set(&key, json!({ "n": n })).await;
    }
    test.sessions().prune(Prune::events(&key, 4), 100).await.unwrap();
    let mut quick = begin().await.unwrap();
    let mut writer = JoinSet::new();
    writer.spawn({
        let (test, key) = (test.clone(), key.clone());
        async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            test.set(&key, json!({"last": true})).await;
        }
    });
    assert_eq!(next(&mut quick).await.keys(), ["last"]);
    writer.join_all().await;
    let lost = timeout(SOON, slow.next()).await.expect("it hears of it").map(drop);
    assert_refused(lost, ErrorKind::FailedPrecondition, "an event that was pruned before it was read");
}
