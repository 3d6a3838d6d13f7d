//! Watching a feed, and resuming from a cursor.

use std::time::Duration;

use futures_util::future::join;
use serde_json::json;
use tokio::time::timeout;

use super::support::{TestApp, assert_refused, changing, delta, removal};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{
    CreateSessionConfig, FeedCommit, FeedCursor, FeedEntry, FeedStart, Prune, SessionService, SessionServiceExt, Watch,
    Watched,
};
use scratchbook_core::store::Store;

// Long, because hundreds of promises may run side by side on two busy cores.
const SOON: Duration = Duration::from_mins(5);

async fn next<S: std::ops::Deref<Target: SessionService> + Send + Sync>(watch: &mut Watch<S>) -> FeedEntry {
    timeout(SOON, watch.next()).await.expect("an entry comes soon").expect("an entry")
}

fn number(entry: &FeedEntry) -> u64 {
    match &entry.commit {
        FeedCommit::Event { event, .. } => event.seq.expect("a number"),
        other => panic!("not an event: {other:?}"),
    }
}

/// A session's watch returns its existing and its new events, and ends when the session is deleted.
pub async fn a_session_is_followed(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    test.set(&key, json!({"n": 1})).await;
    let watch = |start| test.sessions().watch(Watched::session(key.clone()), start);
    let (mut all, mut new) = (watch(FeedStart::Beginning).await.unwrap(), watch(FeedStart::Now).await.unwrap());
    assert_eq!(number(&next(&mut all).await), 1);
    assert!(timeout(Duration::from_millis(50), all.next()).await.is_err(), "there is nothing more yet");
    test.set(&key, json!({"n": 2})).await;
    assert_eq!(number(&next(&mut all).await), 2);
    let entry = next(&mut new).await;
    assert_eq!((number(&entry), entry.keys()), (2, vec!["n".to_owned()]));
    let delete = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        test.sessions().delete_session(&key).await.unwrap();
    };
    let (ended, ()) = join(timeout(SOON, all.next()), delete).await;
    assert_refused(ended.expect("who waits is told").map(drop), ErrorKind::NotFound, "a session that was deleted");
    let gone = timeout(SOON, watch(FeedStart::Now)).await.unwrap().map(drop);
    assert_refused(gone, ErrorKind::NotFound, "a session that is gone");
}

/// A watch with a key prefix only returns changes of such keys; its cursor advances over all entries.
pub async fn a_key_prefix_is_followed(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let cart = Watched::user(&test.app, "alice").unwrap().with_key_prefix("user:cart");
    let mut watch = test.sessions().watch(cart.clone(), FeedStart::Now).await.unwrap();
    test.set(&key, json!({"cart": "not this", "user:other": 1})).await;
    test.set(&key, json!({"user:cart.total": 3})).await;
    assert_eq!(next(&mut watch).await.keys(), ["user:cart.total"]);
    let changes = delta(json!({"cart": [1], "other": 2}));
    test.sessions().put_state(&test.user("alice"), changes, "admin".into()).await.unwrap();
    assert_eq!(next(&mut watch).await.keys(), ["user:cart", "user:other"], "a commit is whole");
    test.sessions().put_state(&test.user("alice"), removal(&["cart"]), "admin".into()).await.unwrap();
    let kept = next(&mut watch).await.cursor;
    assert_eq!(&kept, watch.cursor());
    let mut again = test.sessions().watch(cart, FeedStart::After(kept)).await.unwrap();
    test.set(&key, json!({"user:cart": 2})).await;
    assert_eq!(next(&mut again).await.keys(), ["user:cart"]);
}

/// The entries of a watch can also be listed in pages; an empty page is the end only if its cursor equals the previous
/// one.
pub async fn what_is_watched_is_listed_by_pages(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    for n in 1..=7 {
        test.set(&key, if n % 3 == 0 { json!({"user:cart": n}) } else { json!({"n": n}) }).await;
    }
    let user = Watched::user(&test.app, "alice").unwrap();
    for (what, expected) in [
        (Watched::session(key.clone()), vec![1, 2, 3, 4, 5, 6, 7]),
        (Watched::session(key.clone()).with_key_prefix("user:"), vec![3, 6]),
        (user.clone().with_key_prefix("user:"), vec![3, 6]),
        (user.with_key_prefix("none"), vec![]),
    ] {
        let (mut found, mut start) = (Vec::new(), FeedStart::Beginning);
        loop {
            let page = test.sessions().list_watched(&what, &start, 2).await.unwrap();
            found.extend(page.entries.iter().map(number));
            let next = FeedStart::After(page.cursor);
            if page.entries.is_empty() && next == start {
                break;
            }
            start = next;
        }
        assert_eq!(found, expected, "{what:?}");
    }
}

/// A watcher that disconnects and resumes a hundred times, while many write, gets every event once and in order.
pub async fn a_watcher_that_comes_back_misses_nothing(store: &Store) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 100;
    let test = TestApp::new(store);
    let mut writers = Vec::new();
    for n in 0..WRITERS {
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}"));
        let key = test.create_as("alice", config).await.key().clone();
        let test = test.clone();
        writers.push(tokio::spawn(async move {
            for n in 0..EACH {
                let state = if n % 3 == 0 { json!({"user:n": n}) } else { json!({"n": n}) };
                test.append(&key, changing(state)).await;
            }
        }));
    }
    let (mut start, mut lasts, mut seen) = (FeedStart::Beginning, std::collections::HashMap::new(), 0);
    while seen < WRITERS * EACH {
        let watched = Watched::app(&test.app).unwrap();
        let mut watch = test.sessions().watch(watched, start).await.unwrap();
        // The number of entries between two disconnects, so that there are about a hundred disconnects.
        for _ in 0..WRITERS * EACH / 100 {
            let entry = next(&mut watch).await;
            let FeedCommit::Event { session, event } = &entry.commit else { panic!("{entry:?}") };
            let last: &mut u64 = lasts.entry(session.clone()).or_default();
            *last += 1;
            assert_eq!(event.seq, Some(*last), "{session}");
            seen += 1;
        }
        start = FeedStart::After(FeedCursor::new(watch.cursor().as_str()));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut watch = test.sessions().watch(Watched::app(&test.app).unwrap(), start).await.unwrap();
    assert!(timeout(Duration::from_millis(100), watch.next()).await.is_err(), "there is nothing more");
}

/// A watcher of one session that disconnects and resumes repeatedly, while many write, gets every event once and in
/// order.
pub async fn a_watcher_of_a_session_that_comes_back_misses_nothing(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let writers: tokio::task::JoinSet<_> = (0..4)
        .map(|_| {
            let (test, key) = (test.clone(), key.clone());
            async move {
                for n in 0..50 {
                    test.append(&key, changing(json!({"n": n}))).await;
                }
            }
        })
        .collect();
    let (mut start, mut seen) = (FeedStart::Beginning, 0);
    while seen < 200 {
        let mut watch = test.sessions().watch(Watched::session(key.clone()), start).await.unwrap();
        for _ in 0..2 {
            seen += 1;
            assert_eq!(number(&next(&mut watch).await), seen);
        }
        start = FeedStart::After(watch.cursor().clone());
    }
    writers.join_all().await;
}

/// A cursor is refused if its session was created again, if it belongs to another session, or if events after it were
/// pruned unread.
pub async fn a_cursor_that_leads_nowhere_is_refused(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s");
    let key = test.create_as("alice", config()).await.key().clone();
    for n in 0..5 {
        test.set(&key, json!({"n": n})).await;
    }
    let mut watch = test.sessions().watch(Watched::session(key.clone()), FeedStart::Beginning).await.unwrap();
    next(&mut watch).await;
    next(&mut watch).await;
    let second = watch.cursor().clone();
    let watch = async |of: &scratchbook_core::session::SessionKey, cursor: &FeedCursor| {
        let start = FeedStart::After(cursor.clone());
        test.sessions().watch(Watched::session(of.clone()), start).await.map(drop)
    };
    let other = test.create("alice", json!({})).await.key().clone();
    assert_refused(watch(&other, &second).await, ErrorKind::InvalidArgument, "a cursor of another session");
    assert_refused(watch(&key, &FeedCursor::new("x")).await, ErrorKind::InvalidArgument, "no cursor at all");
    test.sessions().prune(Prune::events(&key, 3), 10).await.unwrap();
    watch(&key, &second).await.expect("nothing that was not read is gone");
    test.sessions().prune(Prune::events(&key, 4), 10).await.unwrap();
    assert_refused(watch(&key, &second).await, ErrorKind::FailedPrecondition, "unread events that were pruned");
    test.sessions().delete_session(&key).await.unwrap();
    test.create_as("alice", config()).await;
    assert_refused(watch(&key, &second).await, ErrorKind::InvalidArgument, "a session made anew");
    for n in 0..5 {
        test.set(&key, json!({"n": n})).await;
    }
    assert_refused(watch(&key, &second).await, ErrorKind::InvalidArgument, "a session made anew, and as long");
}

/// A watch that starts at the beginning and ends before it returns anything resumes at the beginning.
pub async fn a_watch_that_gave_nothing_has_lost_nothing(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    test.set(&key, json!({"n": 1})).await;
    test.set(&key, json!({"n": 2})).await;
    for what in [Watched::app(&test.app).unwrap(), Watched::session(key.clone())] {
        let watch = test.sessions().watch(what.clone(), FeedStart::Beginning).await.unwrap();
        let start = FeedStart::After(watch.cursor().clone());
        drop(watch);
        let mut watch = test.sessions().watch(what, start).await.unwrap();
        assert_eq!((number(&next(&mut watch).await), number(&next(&mut watch).await)), (1, 2));
    }
}
