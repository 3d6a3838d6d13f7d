//! The hashes of stored events.

use serde_json::json;

use super::support::{TestApp, changing, saying};
use scratchbook_core::event::Event;
use scratchbook_core::plan::event_text_hash;
use scratchbook_core::session::{
    AppendOptions, CreateSessionConfig, EventHashes, ForkConfig, Prune, SessionKey, SessionUpdate,
};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

async fn hashes(test: &TestApp, key: &SessionKey) -> EventHashes {
    test.sessions().list_event_hashes(key, 0, 1_000).await.unwrap().expect("a session")
}

/// Each event is listed with its number, its id and the hash of its stored text, however it came into the session.
pub async fn every_event_is_listed_with_the_hash_of_its_stored_text(store: &Store) {
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

    let session = test.get(&key).await;
    let page = hashes(&test, &key).await;
    assert_eq!((page.base, page.last), (0, 26));
    let listed: Vec<_> = page.events.iter().map(|event| (Some(event.seq), event.id.as_str())).collect();
    let stored: Vec<_> = session.events().iter().map(|event| (event.seq, event.id.as_str())).collect();
    assert_eq!(listed, stored);
    // If a layer encrypts events, the stored text of each event differs from the text that is read.
    let pairs = session.events().iter().zip(&page.events);
    let as_read = pairs.filter(|(event, hashes)| hashes.text == event_text_hash(event).unwrap()).count();
    assert!(as_read == 26 || as_read == 0, "the hash is that of the stored text, for {as_read} events");
    let after = test.sessions().list_event_hashes(&key, 20, 3).await.unwrap().unwrap();
    assert_eq!(after.events, page.events[20..23]);
    assert_eq!(test.sessions().list_event_hashes(&test.key("alice", "missing"), 0, 1).await.unwrap(), None);
}

/// An event that is sent again is listed once, with the same hashes.
pub async fn a_retry_leaves_the_hashes(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let event = || saying("hello").with_id("e1").with_timestamp(5.0);
    test.append(&key, event()).await;
    let before = hashes(&test, &key).await;
    test.append(&key, event()).await;
    assert_eq!(hashes(&test, &key).await, before);
    test.append(&key, saying("hello").with_id("e2").with_timestamp(5.0)).await;
    let after = hashes(&test, &key).await;
    assert_eq!(after.events[..1], before.events);
    assert_ne!(after.events[1].text, before.events[0].text, "another id is another text");
    assert_ne!(after.events[1].sent, before.events[0].sent);
}

/// The events of a fork have the hashes of the events that were copied.
pub async fn a_fork_keeps_the_hashes_of_its_events(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"a": 1})).await.key().clone();
    for n in 0..4 {
        test.append(&key, saying(&format!("event {n}"))).await;
    }
    let all = hashes(&test, &key).await.events;
    for at in [0, 2, 4] {
        let fork = test.sessions().fork_session(&key, ForkConfig::at(at)).await.unwrap().key().clone();
        let page = hashes(&test, &fork).await;
        assert_eq!((page.base, page.last), (0, at));
        assert_eq!(page.events, all[..at as usize], "at {at}");
    }
}

/// Pruning takes the pruned events out of the list, and leaves the hashes of the others.
pub async fn pruning_leaves_the_hashes_of_the_rest(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    for n in 0..8 {
        test.append(&key, saying(&format!("event {n}"))).await;
    }
    let all = hashes(&test, &key).await.events;
    for before in [4, 6] {
        test.sessions().prune(Prune::events(&key, before), 100).await.unwrap();
        let page = hashes(&test, &key).await;
        assert_eq!((page.base, page.last), (before - 1, 8));
        assert_eq!(page.events, all[before as usize - 1..]);
    }
    test.sessions().prune(Prune::events(&key, 100), 100).await.unwrap();
    let page = hashes(&test, &key).await;
    assert_eq!((page.base, page.last, page.events.len()), (8, 8, 0), "a session without events");
}
