//! Removals are in the feed, so that a reader of the feed can maintain an exact copy of the store.

use serde_json::json;

use super::feed_copy::{FeedCopy, RandomWrites, many_writers_are_followed};
use super::support::{TestApp, changing};
use scratchbook_core::content::Part;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::session::{
    CreateSessionConfig, Expiry, FeedCommit, FeedEntry, FeedStart, Prune, Removal, RemovalKind, SessionServiceExt,
    StateOwner,
};
use scratchbook_core::store::Store;

const PAST: Expiry = Expiry::At(1_600_000_000.0);

/// Reads the feed after a position to its end; updates the position.
async fn read(test: &TestApp, owner: &StateOwner, start: &mut FeedStart, limit: usize) -> Vec<FeedEntry> {
    let mut entries = Vec::new();
    loop {
        let page = test.sessions().list_feed(owner, start, limit).await.expect("list_feed");
        *start = FeedStart::After(page.cursor);
        if page.entries.is_empty() {
            return entries;
        }
        entries.extend(page.entries);
    }
}

fn removals(entries: &[FeedEntry]) -> Vec<Removal> {
    let removals = entries.iter().filter_map(|entry| match &entry.commit {
        FeedCommit::Removed(removal) => Some(removal.clone()),
        _ => None,
    });
    removals.collect()
}

fn in_short(removals: &[Removal]) -> Vec<(RemovalKind, Option<&str>, u64)> {
    let of =
        removals.iter().map(|removal| (removal.kind, removal.session.as_ref().map(|s| s.session_id()), removal.count));
    of.collect()
}

fn named(id: &str) -> CreateSessionConfig {
    CreateSessionConfig::default().with_session_id(id)
}

/// Deletion, expiry and pruning are entries of the user's and of the app's feed, with the extent and the time.
pub async fn what_is_removed_is_in_the_feed(store: &Store) {
    let test = TestApp::new(store);
    let (alice, app) = (test.user("alice"), test.app());
    for id in ["deleted", "expired", "pruned", "stays"] {
        let key = test.create_as("alice", named(id).with_state(json!({"a": 0}))).await.key().clone();
        for n in 1..=3 {
            test.set(&key, json!({"a": n, "secret": "a value of alice"})).await;
        }
    }
    let (mut of_alice, mut of_app) = (FeedStart::Now, FeedStart::Now);
    let mut of_bob = FeedStart::Now;
    for (owner, start) in [(&alice, &mut of_alice), (&app, &mut of_app), (&test.user("bob"), &mut of_bob)] {
        assert_eq!(read(&test, owner, start, 10).await.len(), 0);
    }
    let begun = SystemEnvironment.now();
    test.sessions().delete_session(&test.key("alice", "deleted")).await.unwrap();
    test.sessions().set_expiry(&test.key("alice", "expired"), Some(PAST)).await.unwrap();
    while test.sessions().prune(Prune::Expired, 100).await.unwrap() > 0 {}
    assert_eq!(test.sessions().prune(Prune::events(&test.key("alice", "pruned"), 3), 100).await.unwrap(), 2);
    let expected = [
        (RemovalKind::Deleted, Some("deleted"), 3),
        (RemovalKind::Expired, Some("expired"), 3),
        (RemovalKind::Pruned, Some("pruned"), 2),
    ];
    for (owner, start) in [(&alice, of_alice), (&app, of_app)] {
        let entries = read(&test, owner, &mut start.clone(), 1).await;
        let found = removals(&entries);
        assert_eq!(in_short(&found), expected);
        assert_eq!(entries.len(), 3);
        for removal in &found {
            assert_eq!(removal.user, alice);
            assert!((removal.time - begun).abs() < 3600.0, "{removal:?}");
            assert!(!format!("{removal:?}").contains("a value"), "{removal:?}");
        }
        assert!(entries.iter().all(|entry| entry.keys().is_empty()));
        // Reading can continue after each entry.
        for (place, entry) in entries.iter().enumerate() {
            let rest = read(&test, owner, &mut FeedStart::After(entry.cursor.clone()), 10).await;
            assert_eq!(in_short(&removals(&rest)), expected[place + 1..]);
        }
    }
    assert_eq!(read(&test, &test.user("bob"), &mut of_bob, 10).await.len(), 0, "it is nothing of bob's");
    // In a feed that is read from the beginning, removed data appears only as removals.
    let whole = read(&test, &alice, &mut FeedStart::Beginning, 4).await;
    assert_eq!(in_short(&removals(&whole)), expected);
}

/// In the feed, a session created with the id of a removed session comes after the removal.
pub async fn a_session_made_again_comes_after_the_removal_of_the_first(store: &Store) {
    let test = TestApp::new(store);
    let (alice, key) = (test.user("alice"), test.key("alice", "s"));
    let mut start = FeedStart::Now;
    assert_eq!(read(&test, &alice, &mut start, 10).await.len(), 0);
    for life in 0..3 {
        test.create_as("alice", named("s").with_state(json!({"life": life}))).await;
        test.set(&key, json!({"a": life})).await;
        if life < 2 {
            test.sessions().set_expiry(&key, Some(PAST)).await.unwrap();
        }
    }
    let shown = read(&test, &alice, &mut start, 2).await;
    let kinds = shown.iter().map(|entry| match &entry.commit {
        FeedCommit::Removed(removal) => format!("{} {}", removal.kind.as_str(), removal.count),
        FeedCommit::Created { state, .. } => format!("made {}", state["life"]),
        FeedCommit::Event { event, .. } => format!("event {}", event.seq.unwrap_or_default()),
        FeedCommit::State { .. } => "state".to_owned(),
        other => panic!("a kind of commit that the suite does not know: {other:?}"),
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["expired 1", "made 2", "event 1"]);
}

/// An erased user leaves one entry, which names the user and no session.
pub async fn an_erased_user_leaves_one_entry(store: &Store) {
    let test = TestApp::new(store);
    let (alice, app) = (test.user("alice"), test.app());
    let (mut of_alice, mut of_app) = (FeedStart::Now, FeedStart::Now);
    assert_eq!(read(&test, &alice, &mut of_alice, 10).await.len(), 0);
    assert_eq!(read(&test, &app, &mut of_app, 10).await.len(), 0);
    for id in ["one", "two", "gone"] {
        let key = test.create_as("alice", named(id).with_state(json!({"user:u": id}))).await.key().clone();
        test.set(&key, json!({"a": 1})).await;
    }
    test.sessions().delete_session(&test.key("alice", "gone")).await.unwrap();
    test.sessions().delete_user(&test.app, "alice").await.unwrap();
    // There is nothing to erase the second time.
    test.sessions().delete_user(&test.app, "alice").await.unwrap();
    for (owner, start) in [(&alice, of_alice.clone()), (&app, of_app.clone())] {
        let entries = read(&test, owner, &mut start.clone(), 10).await;
        assert_eq!(in_short(&removals(&entries)), [(RemovalKind::Erased, None, 2)]);
        assert_eq!(entries.len(), 1, "{entries:?}");
    }
    // A user created with the same name comes after that entry.
    test.create_as("alice", named("new").with_state(json!({"user:u": 1, "a": 1}))).await;
    let entries = read(&test, &alice, &mut of_alice, 10).await;
    assert!(matches!(entries[0].commit, FeedCommit::Removed(_)), "{entries:?}");
    assert_eq!(entries.len(), 3, "{entries:?}");
}

/// Of several concurrent erasures of one user, one erases and counts the sessions; the others find nothing to erase.
pub async fn a_user_who_is_erased_twice_at_once_is_counted_once(store: &Store) {
    let test = TestApp::new(store);
    let (app, mut start) = (test.app(), FeedStart::Now);
    assert_eq!(read(&test, &app, &mut start, 10).await.len(), 0);
    for _ in 0..8 {
        for id in ["one", "two"] {
            test.create_as("alice", named(id).with_state(json!({"user:u": id}))).await;
        }
        let erasures = (0..4).map(|_| test.sessions().delete_user(&test.app, "alice"));
        for erased in futures_util::future::join_all(erasures).await {
            erased.expect("delete_user");
        }
        let found = removals(&read(&test, &app, &mut start, 10).await);
        assert_eq!(in_short(&found), [(RemovalKind::Erased, None, 2)]);
    }
}

/// Removing something that does not exist is not an entry.
pub async fn what_was_not_removed_is_no_entry(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    test.append(session.key(), changing(json!({"a": 1}))).await;
    let photo = Part::text("a photo");
    store.artifacts.save_artifact(session.key(), "photo", photo, serde_json::Map::new()).await.unwrap();
    let mut start = FeedStart::Now;
    assert_eq!(read(&test, &test.app(), &mut start, 10).await.len(), 0);
    test.sessions().delete_session(&test.key("alice", "none")).await.unwrap();
    test.sessions().delete_user(&test.app, "nobody").await.unwrap();
    assert_eq!(test.sessions().prune(Prune::events(session.key(), 1), 10).await.unwrap(), 0);
    assert_eq!(test.sessions().prune(Prune::events(&test.key("alice", "none"), 9), 10).await.unwrap(), 0);
    store.artifacts.delete_artifact(session.key(), "photo").await.unwrap();
    assert_eq!(read(&test, &test.app(), &mut start, 10).await.len(), 0);
}

/// Readers that follow a feed often, rarely or only at the end, and apply its entries, have an exact copy of the store.
pub async fn a_feed_is_followed_to_an_exact_copy(store: &Store) {
    for seed in [1, 2, 3] {
        let test = TestApp::new(store);
        let mut script = RandomWrites::new(seed);
        let owners = [test.app(), test.user("alice"), test.user("bob")];
        let mut followers: Vec<_> =
            owners.iter().flat_map(|owner| [1, 7, 40].map(|pause| (pause, FeedCopy::new(owner.clone())))).collect();
        for step in 0..160 {
            script.step(&test).await;
            for (pause, copy) in &mut followers {
                if step % *pause == *pause - 1 {
                    copy.follow(&test, 1 + step % 5, step % 3 + 1).await;
                }
            }
        }
        // Removes expired sessions.
        while test.sessions().prune(Prune::Expired, 100).await.unwrap() > 0 {}
        followers.extend(owners.map(|owner| (0, FeedCopy::new(owner))));
        for (pause, mut copy) in followers {
            copy.follow(&test, 3, usize::MAX).await;
            copy.assert_equal(&test, &format!("seed {seed}, read every {pause} steps")).await;
        }
    }
}

/// Readers that follow a feed while several writers write, and apply its entries, have an exact copy of the store.
pub async fn a_feed_of_many_writers_is_followed_to_an_exact_copy(store: &Store) {
    many_writers_are_followed(std::slice::from_ref(store)).await;
}
