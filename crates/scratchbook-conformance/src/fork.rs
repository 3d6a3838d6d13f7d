//! Forks: sessions that continue from an event of another session.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, removal, seqs};
use scratchbook_core::artifact::ListVersionsConfig;
use scratchbook_core::content::Part;
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    CreateSessionConfig, FeedCommit, FeedStart, ForkConfig, GetSessionConfig, Outcome, Prune, SessionKey,
};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

async fn trunk(test: &TestApp) -> SessionKey {
    let config = CreateSessionConfig::default().with_session_id("trunk").with_state(json!({"a": 0, "user:u": 0}));
    let key = test.create_as("alice", config).await.key().clone();
    test.append(&key, changing(json!({"a": 1, "b": 1})).with_id("e1").with_timestamp(1_700_000_001.5)).await;
    test.append(&key, changing(json!({"user:u": 2, "c": 2})).with_id("e2").with_timestamp(1_700_000_002.5)).await;
    let event = Event::new("agent").with_state_delta(removal(&["a", "b"]));
    test.append(&key, event.with_id("e3").with_timestamp(1_700_000_003.5)).await;
    key
}

/// A fork has the session's events up to a chosen event, the session's state as of that event, and the current state
/// of the user and the app.
pub async fn a_fork_begins_with_events_and_state_up_to_one(store: &Store) {
    let test = TestApp::new(store);
    let key = trunk(&test).await;
    let whole = test.get(&key).await;
    let expected = [json!({"a": 0}), json!({"a": 1, "b": 1}), json!({"a": 1, "b": 1, "c": 2}), json!({"c": 2})];
    for (at, own) in expected.into_iter().enumerate() {
        let fork = test.sessions().fork_session(&key, ForkConfig::at(at as u64)).await.unwrap();
        let mut state = own.clone();
        state["user:u"] = json!(2);
        assert_eq!((json!(fork.state()), fork.seq(), fork.events().len()), (state.clone(), at as u64, 0), "at {at}");
        assert_ne!(fork.id(), key.session_id());
        let read = test.get(fork.key()).await;
        assert_eq!(json!(read.state()), state, "at {at}");
        assert!(read.events().iter().eq(whole.events().iter().take(at)), "at {at}");
        let initial = test.sessions().get_initial_state(fork.key()).await.unwrap().unwrap();
        assert_eq!((initial.seq, json!(initial.state)), (0, json!({"a": 0})));
        if at > 0 {
            assert_eq!(read.last_update_time(), 1_700_000_000.5 + at as f64);
        }
    }
    let last = test.sessions().fork_session(&key, ForkConfig::default().with_session_id(" mine ")).await.unwrap();
    assert_eq!((last.id(), last.seq(), json!(last.state())), ("mine", 3, json!({"c": 2, "user:u": 2})));
    assert_eq!(json!(test.get(&key).await), json!(whole), "the first one is as it was");
}

/// A fork and its original change independently; the user's state is still shared.
pub async fn a_fork_goes_its_own_way(store: &Store) {
    let test = TestApp::new(store);
    let key = trunk(&test).await;
    let fork = test.sessions().fork_session(&key, ForkConfig::at(2)).await.unwrap();
    let committed = test.set(fork.key(), json!({"a": "fork", "user:u": "fork"})).await;
    assert_eq!(committed.event.seq, Some(3));
    test.set(&key, json!({"a": "trunk"})).await;
    assert_eq!(test.state(fork.key()).await, json!({"a": "fork", "b": 1, "c": 2, "user:u": "fork"}));
    assert_eq!(test.state(&key).await, json!({"a": "trunk", "c": 2, "user:u": "fork"}));
    // A copied event is recognized in the fork, by its id and its content.
    let again = changing(json!({"a": 1, "b": 1})).with_id("e1").with_timestamp(1_700_000_001.5);
    assert_eq!(test.append(fork.key(), again).await.outcome, Outcome::Replayed);
    let free = changing(json!({})).with_id("e3").with_timestamp(1_700_000_003.5);
    assert_eq!(test.append(fork.key(), free).await.outcome, Outcome::Stored, "e3 came after the fork");
    test.sessions().delete_session(&key).await.unwrap();
    assert_eq!(seqs(&test.get(fork.key()).await), [1, 2, 3, 4]);
}

/// Copied events are recognized in a fork, however they were sent: with a time, without one, or with operations. With
/// different content they are refused.
pub async fn retries_of_events_that_a_fork_has_taken_over_are_known(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let timed = || changing(json!({"a": 1, "user:a": 1})).with_id("timed").with_timestamp(1_700_000_001.5);
    let timeless = || changing(json!({"a": 2, "user:a": 2})).with_id("timeless");
    let counted = || {
        let work = StateDelta::new().with_increment("n", 1).expect("an operation");
        Event::new("agent").with_id("counted").with_state_delta(work)
    };
    for event in [timed(), timeless(), counted()] {
        test.append(&key, event).await;
    }
    let fork = test.sessions().fork_session(&key, ForkConfig::default()).await.unwrap();
    let fork = test.sessions().fork_session(fork.key(), ForkConfig::default()).await.unwrap();
    let before = test.get(fork.key()).await;
    for (n, event) in [timed(), timeless(), counted()].into_iter().enumerate() {
        let again = test.append(fork.key(), event).await;
        assert_eq!((again.outcome, Some(&again.event)), (Outcome::Replayed, before.events().get(n)));
    }
    for other in [timed().with_content("other"), timeless().with_content("other"), counted().with_content("other")] {
        let what = other.id.clone();
        assert_refused(test.try_append(fork.key(), other).await, ErrorKind::AlreadyExists, &what);
    }
    assert_eq!(json!(test.get(fork.key()).await), json!(before), "nothing was stored twice");
}

/// A fork has a history: the state at its events, the writers of its keys, and forks of its own.
pub async fn a_fork_has_a_past(store: &Store) {
    let test = TestApp::new(store);
    let key = trunk(&test).await;
    let mut shown = Vec::new();
    for seq in 0..=3 {
        shown.push(json!(test.sessions().get_state_at(&key, seq).await.unwrap()));
    }
    test.set(&key, json!({"user:u": "later", "late": true})).await;
    let fork = test.sessions().fork_session(&key, ForkConfig::at(3)).await.unwrap();
    let second = test.sessions().fork_session(fork.key(), ForkConfig::at(2)).await.unwrap();
    for (seq, shown) in shown.iter().enumerate() {
        let state = test.sessions().get_state_at(fork.key(), seq as u64).await.unwrap();
        assert_eq!(&json!(state), shown, "at {seq}");
        if seq <= 2 {
            let state = test.sessions().get_state_at(second.key(), seq as u64).await.unwrap();
            assert_eq!(&json!(state), shown, "at {seq} of the fork's fork");
        }
    }
    let blame = test.sessions().blame(second.key()).await.unwrap();
    assert_eq!((blame["a"].seq, blame["a"].event_id.as_str()), (1, "e1"));
    assert_eq!((blame["c"].seq, blame["c"].event_id.as_str()), (2, "e2"));
    assert_eq!(blame["a"].session, Some(("alice".to_owned(), second.id().to_owned())));
}

/// Session artifacts are copied with all their versions; afterwards each session has its own.
pub async fn artifacts_come_along_with_a_fork(store: &Store) {
    let test = TestApp::new(store);
    let key = trunk(&test).await;
    let part = |text: &str| Part::text(text);
    for text in ["one", "two"] {
        store.artifacts.save_artifact(&key, "notes.txt", part(text), Default::default()).await.unwrap();
    }
    store.artifacts.save_artifact(&key, "user:mine.txt", part("mine"), Default::default()).await.unwrap();
    let fork = test.sessions().fork_session(&key, ForkConfig::at(1)).await.unwrap();
    store.artifacts.save_artifact(&key, "notes.txt", part("three"), Default::default()).await.unwrap();
    let load = |name, version| store.artifacts.load_artifact(fork.key(), name, version);
    assert_eq!(load("notes.txt", None).await.unwrap(), Some(part("two")));
    assert_eq!(load("notes.txt", Some(0)).await.unwrap(), Some(part("one")));
    assert_eq!(load("user:mine.txt", None).await.unwrap(), Some(part("mine")));
    assert_eq!(
        store
            .artifacts
            .list_artifact_versions(fork.key(), "user:mine.txt", &ListVersionsConfig::default())
            .await
            .unwrap()
            .len(),
        1
    );
}

/// A fork of a session or event that does not exist, or to an id that is taken, is refused and creates nothing.
pub async fn a_fork_that_cannot_be_is_refused(store: &Store) {
    let test = TestApp::new(store);
    let key = trunk(&test).await;
    let fork = async |key: &SessionKey, config| test.sessions().fork_session(key, config).await;
    let missing = test.key("alice", "missing");
    assert_refused(fork(&key, ForkConfig::at(4)).await.map(drop), ErrorKind::NotFound, "an event that is not there");
    assert_refused(fork(&missing, ForkConfig::default()).await.map(drop), ErrorKind::NotFound, "a missing session");
    let config = |id: &str| ForkConfig::default().with_session_id(id);
    assert_refused(fork(&key, config("trunk")).await.map(drop), ErrorKind::AlreadyExists, "its own id");
    test.create_as("alice", CreateSessionConfig::default().with_session_id("taken")).await;
    assert_refused(fork(&key, config("taken")).await.map(drop), ErrorKind::AlreadyExists, "a taken id");
    for bad in ["a\nb", ".", ".."] {
        assert_refused(fork(&key, config(bad)).await.map(drop), ErrorKind::InvalidArgument, "a bad id");
    }
    assert_eq!(test.list(None).await.len(), 2);
    let bobs = SessionKey::new(&test.app, "bob", "trunk").unwrap();
    assert_refused(fork(&bobs, ForkConfig::default()).await.map(drop), ErrorKind::NotFound, "another user's session");
    assert_eq!(test.read(&key, GetSessionConfig::state_only()).await.seq(), 3);
}

/// Deleting a fork does not touch its original, nor the original's events in the feed.
pub async fn a_fork_that_goes_takes_nothing_with_it(store: &Store) {
    let test = TestApp::new(store);
    let key = trunk(&test).await;
    let whole = test.get(&key).await;
    let fork = test.sessions().fork_session(&key, ForkConfig::default()).await.unwrap();
    for step in ["pruned", "deleted"] {
        match step {
            "pruned" => assert_eq!(test.sessions().prune(Prune::events(fork.key(), 3), 10).await.unwrap(), 2),
            _ => test.sessions().delete_session(fork.key()).await.unwrap(),
        }
        let feed = test.sessions().list_feed(&test.app(), &FeedStart::Beginning, 100).await.unwrap();
        let numbers = feed.entries.iter().filter_map(|entry| match &entry.commit {
            FeedCommit::Event { session, event } if *session == key => event.seq,
            _ => None,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3], "in the feed when the fork was {step}");
    }
    assert_eq!(json!(test.get(&key).await), json!(whole));
}
