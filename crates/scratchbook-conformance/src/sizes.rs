//! The stored size of a session. A store need not report the size; a store that does counts everything.

use serde_json::json;

use super::support::{TestApp, changing};
use scratchbook_core::session::{CreateSessionConfig, ForkConfig, Prune, SessionKey};
use scratchbook_core::store::Store;

/// Returns the stored size of a session, the same in a read and in a list.
async fn stored(test: &TestApp, key: &SessionKey) -> Option<u64> {
    let read = test.get(key).await.stored_bytes();
    let listed = test.list(None).await;
    let listed = listed.iter().find(|session| session.key() == key).expect("a session that is listed");
    assert_eq!(listed.stored_bytes(), read, "a list says the same of {key}");
    read
}

/// An event adds its size and a retry adds nothing, whatever keys there are; a session created again starts at zero.
pub async fn what_is_stored_of_a_session_is_told(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s");
    let empty = test.create_as("alice", config()).await;
    let key = empty.key();
    let Some(before) = stored(&test, key).await else {
        return;
    };
    assert_eq!((before, empty.stored_bytes()), (0, Some(0)), "nothing is stored of a session without state and events");
    let mut all = Vec::new();
    for text in ["x".repeat(2_000), "y".repeat(2_000)] {
        test.append(key, changing(json!({"text": text})).with_id(text[..1].to_owned()).with_timestamp(5.0)).await;
        all.extend(stored(&test, key).await);
    }
    assert!(all[0] > 0 && all[1] > all[0], "the earlier value is in its event still: {all:?}");
    test.append(key, changing(json!({"text": "y".repeat(2_000)})).with_id("y").with_timestamp(5.0)).await;
    assert_eq!(stored(&test, key).await, all.last().copied(), "a retry stores nothing");
    test.sessions().delete_session(key).await.unwrap();
    let again = test.create_as("alice", config().with_state(json!({"text": "z".repeat(2_000)}))).await;
    let begun = stored(&test, again.key()).await.expect("it counts");
    assert!(begun > 0 && begun < all[1], "{begun} of the state that it was made with");
}

/// The copied events of a fork count: all of them, or those up to the last copied one.
pub async fn a_fork_stores_what_it_has_taken_over(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"begin": "x".repeat(500)})).await;
    let key = session.key();
    for n in 1..=2 {
        test.set(key, json!({"n": n})).await;
    }
    let Some(all) = stored(&test, key).await else {
        return;
    };
    let fork = test.sessions().fork_session(key, ForkConfig::default()).await.unwrap();
    assert_eq!((fork.stored_bytes(), stored(&test, fork.key()).await), (Some(all), Some(all)));
    let part = test.sessions().fork_session(key, ForkConfig::at(1)).await.unwrap();
    let part = stored(&test, part.key()).await.expect("it counts");
    assert!(part < all && part > session.stored_bytes().unwrap_or_default(), "{part} of {all}");
    test.set(fork.key(), json!({"n": 3})).await;
    assert!(stored(&test, fork.key()).await > Some(all));
    assert_eq!(stored(&test, key).await, Some(all), "what is added to a fork is the fork's");
}

/// Pruned events do not count any more; the initial state that replaces them does.
pub async fn what_is_pruned_is_not_stored_any_more(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    for _ in 0..10 {
        test.set(&key, json!({"text": "x".repeat(500)})).await;
    }
    let Some(all) = stored(&test, &key).await else {
        return;
    };
    assert_eq!(test.sessions().prune(Prune::events(&key, 6), 9).await.unwrap(), 5);
    let half = stored(&test, &key).await.expect("it counts");
    assert!(half < all && half > all / 3, "{half} of {all}");
    assert_eq!(test.sessions().prune(Prune::events(&key, 11), 9).await.unwrap(), 5);
    let state = stored(&test, &key).await.expect("it counts");
    assert!(state > 0 && state < all / 5, "one value is left: {state} of {all}");
    test.set(&key, json!({"n": 1})).await;
    assert!(stored(&test, &key).await > Some(state));
}
