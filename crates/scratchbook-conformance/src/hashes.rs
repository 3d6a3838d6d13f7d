//! The running hash of a session's events.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, saying};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::plan::event_text_hash;
use scratchbook_core::session::{
    AppendOptions, CreateSessionConfig, EventHashes, ForkConfig, Prune, RunningHash, SessionKey, SessionServiceExt,
    SessionUpdate, Verified,
};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

async fn verified(test: &TestApp, key: &SessionKey) -> Verified {
    let verified = test.sessions().verify_session(key).await.unwrap().expect("a session");
    assert_eq!(verified.unhashed, 0, "every event has a running hash");
    verified
}

async fn hash(test: &TestApp, key: &SessionKey) -> RunningHash {
    verified(test, key).await.running_hash.expect("a running hash")
}

async fn hashes(test: &TestApp, key: &SessionKey) -> EventHashes {
    test.sessions().list_event_hashes(key, 0, 1_000).await.unwrap().expect("a session")
}

/// Each event continues the running hash of its session in the documented way, however it came into the session.
pub async fn every_event_continues_the_running_hash(store: &Store) {
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_state(json!({"n": 1, "user:n": 1}));
    let key = test.create_with("alice", config, vec![saying("first"), saying("second")]).await.key().clone();
    test.append(&key, changing(json!({"a": "é\u{0}😀", "user:b": [1.5, null]}))).await;
    let counting = StateDelta::new().with_increment("n", 1).unwrap().with_increment("user:n", 1).unwrap();
    test.append(&key, Event::new("agent").with_state_delta(counting)).await;
    let options = AppendOptions::default().with_update(SessionUpdate::default().with_title("a title"));
    test.sessions().append(&key, saying("with a title"), options).await.unwrap();
    let session = test.get(&key).await;
    let by_session = AppendOptions::by_session(session.seen().clone());
    test.sessions().append(&key, changing(json!({"a": 2})), by_session).await.unwrap();
    let together = (0..20).map(|n| test.append(&key, saying(&format!("together {n}"))));
    futures_util::future::join_all(together).await;

    let (session, page) = (test.get(&key).await, hashes(&test, &key).await);
    assert_eq!((page.base, page.last, page.hashed), (0, 26, 26));
    assert_eq!(page.events.len(), 26);
    // If a layer encrypts events, the stored text of each event differs from the text that is read.
    let pairs = session.events().iter().zip(&page.events);
    let as_read = pairs.filter(|(event, hashes)| hashes.text == event_text_hash(event).unwrap()).count();
    assert!(as_read == 26 || as_read == 0, "the hash is that of the stored text, for {as_read} events");
    let mut running = RunningHash::start(&key);
    assert_eq!(page.start, Some(running));
    for (event, hashes) in session.events().iter().zip(&page.events) {
        assert_eq!(Some(hashes.seq), event.seq);
        running = running.next(hashes.seq, &hashes.sent, &hashes.text);
        assert_eq!(hashes.running, Some(running), "event {}", hashes.seq);
    }
    assert_eq!(hash(&test, &key).await, running);
    assert_eq!(test.sessions().hash_events(500).await.unwrap(), 0, "no event is left without one");
    let after = test.sessions().list_event_hashes(&key, 20, 3).await.unwrap().unwrap();
    assert_eq!(after.events, page.events[20..23]);
    assert_eq!(test.sessions().list_event_hashes(&test.key("alice", "missing"), 0, 1).await.unwrap(), None);
}

/// A session verifies after each of several appends, made one after the other; a retry does not change the running
/// hash.
pub async fn a_retry_leaves_the_running_hash(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    assert_eq!(hash(&test, &key).await, RunningHash::start(&key), "that of a session without events");
    let event = || saying("hello").with_id("e1").with_timestamp(5.0);
    test.append(&key, event()).await;
    let before = hash(&test, &key).await;
    test.append(&key, event()).await;
    assert_eq!(hash(&test, &key).await, before);
    test.append(&key, saying("more")).await;
    assert_ne!(hash(&test, &key).await, before);
}

/// The same events give different running hashes under different addresses.
pub async fn the_running_hash_depends_on_the_address(store: &Store) {
    let test = TestApp::new(store);
    let mut seen = Vec::new();
    for (user, id) in [("alice", "s"), ("alice", "t"), ("bob", "s")] {
        let config = CreateSessionConfig::default().with_session_id(id);
        let key = test.create_as(user, config).await.key().clone();
        test.append(&key, saying("hello").with_id("e1").with_timestamp(5.0)).await;
        seen.push(hash(&test, &key).await);
    }
    assert!(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
}

/// Verification proves that a log is the noted one or begins with it, and fails for the hash of another session.
pub async fn a_log_is_compared_with_a_noted_hash(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let empty = hash(&test, &key).await;
    for n in 0..5 {
        test.append(&key, saying(&format!("event {n}"))).await;
    }
    let noted = hash(&test, &key).await;
    let against = async |noted: &RunningHash| test.sessions().verify_session_against(&key, noted).await;
    assert_eq!(against(&noted).await.unwrap().unwrap().noted, Some(5));
    for n in 5..8 {
        test.append(&key, saying(&format!("event {n}"))).await;
    }
    assert_eq!(against(&noted).await.unwrap().unwrap().noted, Some(5), "it begins with it");
    assert_eq!(against(&empty).await.unwrap().unwrap().noted, Some(0));
    let other = test.create("alice", json!({})).await.key().clone();
    test.append(&other, saying("event 0")).await;
    let error = assert_refused(against(&hash(&test, &other).await).await, ErrorKind::DataCorrupted, "another log");
    assert!(error.to_string().contains("does not begin with"), "{error}");
    let missing = test.key("alice", "missing");
    assert_eq!(test.sessions().verify_session_against(&missing, &noted).await.unwrap(), None);
}

/// A session that was deleted and created again does not pass for the noted one.
pub async fn a_session_made_anew_is_not_the_noted_one(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s");
    let key = test.create_as("alice", config()).await.key().clone();
    test.append(&key, saying("before")).await;
    let noted = hash(&test, &key).await;
    test.sessions().delete_session(&key).await.unwrap();
    test.create_as("alice", config()).await;
    test.append(&key, saying("after")).await;
    let against = test.sessions().verify_session_against(&key, &noted).await;
    assert_refused(against, ErrorKind::DataCorrupted, "another session of this name");
}

/// A fork continues the running hash of its source: up to the event at which the fork was made, the hashes are the
/// same.
pub async fn a_fork_continues_the_running_hash(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"a": 1})).await.key().clone();
    let mut noted = vec![hash(&test, &key).await];
    for n in 0..4 {
        test.append(&key, saying(&format!("event {n}"))).await;
        noted.push(hash(&test, &key).await);
    }
    for at in [0, 2, 4] {
        let fork = test.sessions().fork_session(&key, ForkConfig::at(at)).await.unwrap().key().clone();
        assert_eq!(hash(&test, &fork).await, noted[at as usize], "at {at}");
        test.append(&fork, saying("its own way")).await;
        let own = hash(&test, &fork).await;
        assert!(!noted.contains(&own));
        let against = test.sessions().verify_session_against(&fork, &noted[at as usize]).await;
        assert_eq!(against.unwrap().unwrap().noted, Some(at));
        let again = test.sessions().fork_session(&fork, ForkConfig::default()).await.unwrap().key().clone();
        assert_eq!(hash(&test, &again).await, own, "a fork of a fork");
    }
    assert_eq!(hash(&test, &key).await, noted[4]);
}

/// Pruning keeps the running hash: its value stays the same, and later events continue it. A hash noted at a remaining
/// event can be proven; a hash noted at a pruned event cannot.
pub async fn pruning_keeps_the_running_hash(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let mut noted = Vec::new();
    for n in 0..8 {
        test.append(&key, saying(&format!("event {n}"))).await;
        noted.push(hash(&test, &key).await);
    }
    let against = async |noted: &RunningHash| test.sessions().verify_session_against(&key, noted).await;
    for before in [4, 6] {
        test.sessions().prune(Prune::events(&key, before), 100).await.unwrap();
        assert_eq!(hash(&test, &key).await, noted[7]);
        assert_eq!(hashes(&test, &key).await.start, Some(noted[before as usize - 2]));
    }
    assert_eq!(against(&noted[4]).await.unwrap().unwrap().noted, Some(5), "the last pruned event");
    assert_eq!(against(&noted[6]).await.unwrap().unwrap().noted, Some(7));
    let error = assert_refused(against(&noted[1]).await, ErrorKind::FailedPrecondition, "a pruned event");
    assert!(error.to_string().contains("were pruned"), "{error}");
    let fork = test.sessions().fork_session(&key, ForkConfig::at(6)).await.unwrap().key().clone();
    assert_eq!(hash(&test, &fork).await, noted[5]);
    test.sessions().prune(Prune::events(&key, 100), 100).await.unwrap();
    assert_eq!(hash(&test, &key).await, noted[7], "a session without events");
    test.append(&key, saying("after all")).await;
    assert_eq!(hashes(&test, &key).await.start, Some(noted[7]));
    assert_eq!(verified(&test, &key).await.events, 1);
}
