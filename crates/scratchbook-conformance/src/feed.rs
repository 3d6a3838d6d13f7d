//! The change feed: every commit, once, in order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};

use super::races::race;
use super::support::{TestApp, assert_refused, changing, delta, removal};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{
    CreateSessionConfig, FeedCommit, FeedCursor, FeedEntry, FeedStart, ForkConfig, Prune, Session, StateOwner,
};
use scratchbook_core::state::Change;
use scratchbook_core::store::Store;

/// Reads the feed from a position to its end, in pages.
async fn read(test: &TestApp, owner: &StateOwner, start: FeedStart, limit: usize) -> (Vec<FeedEntry>, FeedCursor) {
    let (mut start, mut entries) = (start, Vec::new());
    loop {
        let page = test.sessions().list_feed(owner, &start, limit).await.expect("list_feed");
        if page.entries.is_empty() {
            return (entries, page.cursor);
        }
        assert_eq!(page.entries.last().map(|entry| &entry.cursor), Some(&page.cursor));
        entries.extend(page.entries);
        start = FeedStart::After(page.cursor);
    }
}

/// Returns a short form of an entry.
fn told(entry: &FeedEntry) -> Value {
    match &entry.commit {
        FeedCommit::Event { session, event } => json!([session.user_id(), event.seq, event.actions.state_delta]),
        FeedCommit::Created { session, state, forked_at } => json!([session.user_id(), "made", state, forked_at]),
        FeedCommit::State { owner, changes } => {
            let changes: BTreeMap<_, _> = changes.iter().map(|change| (&change.name, &change.value)).collect();
            json!([owner.user_id().unwrap_or("(app)"), "state", changes])
        }
        FeedCommit::Removed(removal) => json!([removal.user.user_id(), removal.kind.as_str(), removal.count]),
        other => panic!("a kind of commit that the suite does not know: {other:?}"),
    }
}

fn all_told(entries: &[FeedEntry]) -> Vec<Value> {
    entries.iter().map(told).collect()
}

/// Makes commits of every kind by two users.
async fn busy(test: &TestApp) -> Session {
    let session = test.create("alice", json!({"x": 0, "user:u": 0, "app:p": 0})).await;
    let other = test.create("bob", json!({"user:u": 9})).await;
    test.create("alice", json!({})).await;
    test.set(session.key(), json!({"x": 1, "user:u": 1})).await;
    test.set(other.key(), json!({"app:p": 1})).await;
    test.sessions().put_state(&test.user("alice"), delta(json!({"u": 2, "v": 2})), "admin".into()).await.unwrap();
    test.sessions().put_state(&test.app(), removal(&["p"]), "admin".into()).await.unwrap();
    test.set(session.key(), json!({})).await;
    session
}

/// Sessions that are created at the same time are each in the feed once, before their events.
pub async fn creations_at_once_are_each_in_the_feed_once(store: &Store) {
    let test = TestApp::new(store);
    race((0..64).map(|n| {
        let test = test.clone();
        async move {
            let session = test.create(&format!("user{}", n % 5), json!({"n": n})).await;
            test.set(session.key(), json!({"n": n + 100})).await;
        }
    }))
    .await;
    let (entries, _) = read(&test, &test.app(), FeedStart::Beginning, 10).await;
    let mut copies = BTreeMap::new();
    for entry in &entries {
        match &entry.commit {
            FeedCommit::Created { session, state, .. } => {
                assert_eq!(copies.insert(session.clone(), state["n"].clone()), None, "{session} is created twice");
            }
            FeedCommit::Event { session, event } => {
                let n = copies.get_mut(session).expect("an event before its session");
                let next = event.actions.state_delta.get("n").and_then(Change::value).cloned();
                assert_eq!(next, n.as_u64().map(|n| json!(n + 100)));
            }
            other => panic!("nothing else was committed: {other:?}"),
        }
    }
    assert_eq!((entries.len(), copies.len()), (128, 64));
}

/// An app's feed has the events of all its sessions, the keys changed outside of them, and the initial states of
/// sessions.
pub async fn a_feed_has_every_commit_once(store: &Store) {
    let test = TestApp::new(store);
    busy(&test).await;
    let (entries, _) = read(&test, &test.app(), FeedStart::Beginning, 100).await;
    let expected = [
        json!(["alice", "state", {"u": 0}]),
        json!(["(app)", "state", {"p": 0}]),
        json!(["alice", "made", {"x": 0}, null]),
        json!(["bob", "state", {"u": 9}]),
        json!(["alice", 1, {"x": 1, "user:u": 1}]),
        json!(["bob", 1, {"app:p": 1}]),
        json!(["alice", "state", {"u": 2, "v": 2}]),
        json!(["(app)", "state", {"p": null}]),
        json!(["alice", 2, {}]),
    ];
    assert_eq!(all_told(&entries), expected);
    assert_eq!(entries[6].keys(), ["user:u", "user:v"]);
    assert_eq!(entries[7].keys(), ["app:p"]);
    assert_eq!(entries[4].keys(), ["x", "user:u"]);
    let (alices, _) = read(&test, &test.user("alice"), FeedStart::Beginning, 100).await;
    let of_alice = [0, 2, 4, 6, 8].map(|n| expected[n].clone());
    assert_eq!(all_told(&alices), of_alice, "a user's feed is the user's part");
    let (none, _) = read(&test, &test.user("carol"), FeedStart::Beginning, 100).await;
    assert_eq!(none.len(), 0);
    let (none, _) = read(&test, &TestApp::new(store).app(), FeedStart::Beginning, 100).await;
    assert_eq!(none.len(), 0, "another app's");
}

/// Reading continues after any entry, in pages of any size, and returns each entry once.
pub async fn a_feed_goes_on_after_any_entry(store: &Store) {
    let test = TestApp::new(store);
    busy(&test).await;
    for owner in [test.app(), test.user("alice")] {
        let (whole, _) = read(&test, &owner, FeedStart::Beginning, 1000).await;
        for limit in 1..=whole.len() + 1 {
            let (paged, _) = read(&test, &owner, FeedStart::Beginning, limit).await;
            assert_eq!(all_told(&paged), all_told(&whole), "pages of {limit}");
        }
        for (place, entry) in whole.iter().enumerate() {
            let kept = FeedCursor::new(entry.cursor.as_str());
            let (rest, _) = read(&test, &owner, FeedStart::After(kept), 3).await;
            assert_eq!(all_told(&rest), all_told(&whole[place + 1..]), "after {}", told(entry));
        }
    }
}

/// A feed can start now: it then only has later commits.
pub async fn a_feed_can_begin_now(store: &Store) {
    let test = TestApp::new(store);
    let session = busy(&test).await;
    let page = test.sessions().list_feed(&test.app(), &FeedStart::Now, 10).await.unwrap();
    assert_eq!(page.entries.len(), 0);
    test.set(session.key(), json!({"new": 1})).await;
    let (entries, cursor) = read(&test, &test.app(), FeedStart::After(page.cursor), 10).await;
    assert_eq!(all_told(&entries), [json!(["alice", 3, {"new": 1}])]);
    let (none, same) = read(&test, &test.app(), FeedStart::After(cursor.clone()), 10).await;
    assert_eq!(none.len(), 0);
    test.set(session.key(), json!({"new": 2})).await;
    let (entries, _) = read(&test, &test.app(), FeedStart::After(same), 10).await;
    assert_eq!(all_told(&entries), [json!(["alice", 4, {"new": 2}])]);
}

/// The entry of a fork has the number of the event at which it was forked; the copied events are not repeated.
pub async fn a_fork_is_told_once(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"x": 0})).await;
    test.set(session.key(), json!({"x": 1})).await;
    let now = test.sessions().list_feed(&test.app(), &FeedStart::Now, 10).await.unwrap();
    let fork = test.sessions().fork_session(session.key(), ForkConfig::at(1)).await.unwrap();
    test.set(fork.key(), json!({"x": 2})).await;
    let (entries, _) = read(&test, &test.app(), FeedStart::After(now.cursor), 10).await;
    assert_eq!(all_told(&entries), [json!(["alice", "made", {"x": 0}, 1]), json!(["alice", 2, {"x": 2}])]);
    let (all, _) = read(&test, &test.user("alice"), FeedStart::Beginning, 10).await;
    assert_eq!(all.len(), 4);
}

/// A cursor of another feed or database, or an invalid one, is refused.
pub async fn a_foreign_cursor_is_refused(store: &Store) {
    let test = TestApp::new(store);
    busy(&test).await;
    let alices = test.sessions().list_feed(&test.user("alice"), &FeedStart::Now, 10).await.unwrap().cursor;
    let elsewhere = scratchbook_core::memory::InMemorySessionService::new();
    let other = scratchbook_core::session::SessionService::list_feed(&elsewhere, &test.app(), &FeedStart::Now, 10)
        .await
        .unwrap()
        .cursor;
    for cursor in [alices, other, FeedCursor::new(""), FeedCursor::new("0 1"), FeedCursor::new("\u{0}")] {
        let refused = test.sessions().list_feed(&test.app(), &FeedStart::After(cursor.clone()), 10).await;
        assert_refused(refused.map(drop), ErrorKind::InvalidArgument, &format!("the cursor '{cursor}'"));
    }
}

/// While many write, a reader that starts again for each page misses nothing, gets nothing twice, and sees each session
/// and each user in order.
pub async fn a_feed_read_while_many_write_has_no_gap(store: &Store) {
    const WRITERS: usize = 6;
    const EACH: usize = 25;
    let test = TestApp::new(store);
    let mut keys = Vec::new();
    for n in 0..WRITERS {
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}"));
        keys.push(test.create_as(["alice", "bob"][n % 2], config).await.key().clone());
    }
    let writers = keys.into_iter().map(|key| {
        let test = test.clone();
        tokio::spawn(async move {
            for n in 0..EACH {
                match n % 5 {
                    0 => drop(test.set(&key, json!({"user:n": n})).await),
                    1 => drop(test.set(&key, json!({"app:n": n})).await),
                    _ => drop(test.set(&key, json!({"n": n})).await),
                }
            }
        })
    });
    let writers: Vec<_> = writers.into_iter().collect();
    let (mut start, mut seen, mut lasts) = (FeedStart::Beginning, 0, HashMap::new());
    let mut notices = test.sessions().commits().unwrap();
    while seen < WRITERS * EACH {
        notices.forget();
        let page = test.sessions().list_feed(&test.app(), &start, 7).await.unwrap();
        for entry in &page.entries {
            let FeedCommit::Event { session, event } = &entry.commit else { panic!("{entry:?}") };
            let last = lasts.entry(session.clone()).or_insert(0);
            *last += 1;
            assert_eq!(event.seq, Some(*last), "{session}");
            seen += 1;
        }
        start = FeedStart::After(page.cursor);
        if page.entries.is_empty() {
            let heard = tokio::time::timeout(std::time::Duration::from_mins(5), notices.next()).await;
            heard.expect("commits are heard of within seconds").unwrap();
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let (rest, _) = read(&test, &test.app(), start, 7).await;
    assert_eq!(rest.len(), 0);
    assert!(lasts.values().all(|last| *last == EACH as u64), "{lasts:?}");
    // The last writer of a shared key in the feed is the one whose value is in the state.
    let (whole, _) = read(&test, &test.app(), FeedStart::Beginning, 100).await;
    let mut folded = Value::Null;
    for entry in &whole {
        let FeedCommit::Event { event, .. } = &entry.commit else { continue };
        let delta = json!(event.actions.state_delta);
        if let Some(value) = delta.get("app:n") {
            folded = value.clone();
        }
    }
    assert_eq!(test.app_state().await, json!({"n": folded}));
}

/// A waiting reader is notified of a commit by another handle within seconds.
pub async fn commits_are_heard_of(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let mut notices = test.sessions().commits().unwrap();
    for n in 0..3 {
        notices.forget();
        let sessions = Arc::clone(test.sessions());
        let key = session.key().clone();
        let writer =
            tokio::spawn(async move { sessions.append(&key, changing(json!({"n": n})), Default::default()).await });
        tokio::time::timeout(std::time::Duration::from_mins(5), notices.next()).await.expect("it is heard of").unwrap();
        writer.await.unwrap().unwrap();
    }
}

/// A page may end within a commit: the next page has the rest, even if a part of the commit was pruned meanwhile.
pub async fn a_page_that_ends_within_a_commit_goes_on_there(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"user:k": 1, "app:k": 1, "own": 1})).await.key().clone();
    test.set(&key, json!({"user:k": 2})).await;
    let list = async |start| test.sessions().list_feed(&test.app(), &start, 1).await.unwrap();
    let first = list(FeedStart::Beginning).await;
    assert_eq!(first.entries[0].keys(), ["user:k"]);
    assert_eq!(test.sessions().prune(Prune::state_log(&test.user("alice"), u64::MAX), 10).await.unwrap(), 1);
    let (mut cursor, mut keys) = (first.cursor, Vec::new());
    loop {
        let page = list(FeedStart::After(cursor)).await;
        let Some(entry) = page.entries.first() else {
            break;
        };
        keys.extend(entry.keys());
        cursor = page.cursor;
    }
    assert_eq!(keys, ["app:k", "own", "user:k"]);
}
