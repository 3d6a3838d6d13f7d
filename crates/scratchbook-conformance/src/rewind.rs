//! Rewinding a session to before an invocation.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, removal};
use scratchbook_core::content::Part;
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{CreateSessionConfig, Prune, SessionKey, SessionServiceExt};
use scratchbook_core::store::Store;

async fn with_invocations(test: &TestApp) -> SessionKey {
    let config = CreateSessionConfig::default().with_state(json!({"given": 1, "changed": "old", "user:u": 1}));
    let key = test.create_as("alice", config).await.key().clone();
    let event = |state, invocation: &str| changing(state).with_invocation_id(invocation);
    test.append(&key, event(json!({"one": 1, "changed": "one"}), "first")).await;
    test.append(&key, event(json!({"two": 2, "changed": "two", "user:u": 2, "app:p": 2}), "second")).await;
    let event = Event::new("agent").with_invocation_id("second").with_state_delta(removal(&["given", "one"]));
    test.append(&key, event).await;
    test.append(&key, changing(json!({"three": 3})).with_invocation_id("third")).await;
    key
}

/// The session's keys get their earlier values, including those of the initial state. New keys are removed, and shared
/// keys stay.
pub async fn a_rewind_brings_the_sessions_keys_back(store: &Store) {
    let test = TestApp::new(store);
    let key = with_invocations(&test).await;
    let event = store.rewind(&key, "second").await.unwrap();
    assert_eq!(event.actions.rewind_before_invocation_id.as_deref(), Some("second"));
    assert_eq!((event.author.as_str(), event.seq), ("user", Some(5)));
    let shared = json!({"user:u": 2, "app:p": 2});
    let mut expected = json!({"given": 1, "changed": "one", "one": 1});
    expected.as_object_mut().unwrap().extend(shared.as_object().unwrap().clone());
    assert_eq!(test.state(&key).await, expected);
    test.sessions().verify_session(&key).await.unwrap();
    // A rewind is an event like any other: a later rewind can go back before it, and to before the first event.
    let again = store.rewind(&key, "first").await.unwrap();
    assert_eq!(again.seq, Some(6));
    let state = test.state(&key).await;
    assert_eq!((&state["given"], &state["changed"], state.get("one")), (&json!(1), &json!("old"), None));
    let undone = again.invocation_id.clone();
    store.rewind(&key, &undone).await.unwrap();
    assert_eq!(test.state(&key).await, expected);
    assert_eq!(test.get(&key).await.events().len(), 7, "nothing is taken out");
}

/// Earlier versions of the session's artifacts are saved as new ones; artifacts that did not exist then become empty;
/// the user's artifacts stay.
pub async fn a_rewind_brings_artifacts_back(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let artifacts = store.artifacts.as_ref();
    let save = async |name: &str, text: &str, invocation: &str| {
        let version = artifacts.save_artifact(&key, name, Part::text(text), Default::default()).await.unwrap();
        let mut event = Event::new("agent").with_invocation_id(invocation);
        event.actions.artifact_delta.insert(name.to_owned(), version);
        test.append(&key, event).await;
    };
    save("a.txt", "a0", "first").await;
    save("user:mine.txt", "m0", "first").await;
    save("a.txt", "a1", "second").await;
    save("b.txt", "b0", "second").await;
    save("user:mine.txt", "m1", "second").await;
    save("same.txt", "s0", "first").await;
    let event = store.rewind(&key, "second").await.unwrap();
    let delta: Vec<_> = event.actions.artifact_delta.iter().map(|(name, version)| (name.as_str(), *version)).collect();
    assert_eq!(delta, [("a.txt", 2), ("b.txt", 1), ("same.txt", 1)]);
    let load = async |name: &str| artifacts.load_artifact(&key, name, None).await.unwrap().unwrap();
    assert_eq!(load("a.txt").await, Part::text("a0"));
    assert_eq!(load("user:mine.txt").await, Part::text("m1"));
    assert_eq!(load("b.txt").await, Part::bytes(Vec::new(), "application/octet-stream"));
    assert_eq!(artifacts.load_artifact(&key, "a.txt", Some(1)).await.unwrap(), Some(Part::text("a1")));
}

/// A rewind to an invocation that does not exist is refused and changes nothing.
pub async fn a_rewind_that_cannot_be_is_refused(store: &Store) {
    let test = TestApp::new(store);
    let key = with_invocations(&test).await;
    let rewind = async |key: &SessionKey, to: &str| store.rewind(key, to).await;
    assert_refused(rewind(&key, "never").await, ErrorKind::NotFound, "an invocation that is not there");
    assert_refused(rewind(&test.key("alice", "no"), "first").await, ErrorKind::NotFound, "no session");
    test.sessions().prune(Prune::events(&key, 3), 10).await.unwrap();
    assert_refused(rewind(&key, "first").await, ErrorKind::NotFound, "an invocation that was pruned");
    assert_eq!(test.get(&key).await.seq(), 4);
    assert_eq!(rewind(&key, "third").await.unwrap().seq, Some(5));
}

/// Rewinds with concurrent writers lose no write: a write in between is detected, and the rewind is retried.
pub async fn a_rewind_beside_writers_is_whole(store: &Store) {
    let test = TestApp::new(store);
    let key = with_invocations(&test).await;
    let writer = tokio::spawn({
        let (test, key) = (test.clone(), key.clone());
        async move {
            for n in 0..10 {
                test.set(&key, json!({format!("w{n}"): n})).await;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    });
    let event = store.rewind(&key, "second").await.unwrap();
    writer.await.unwrap();
    let after = test.sessions().get_state_at(&key, event.seq.unwrap()).await.unwrap();
    let own: Vec<_> = after.iter().map(|(key, _)| key).filter(|key| !key.contains(':')).collect();
    assert_eq!(own, ["changed", "given", "one"], "at the rewind itself");
    test.sessions().verify_session(&key).await.unwrap();
}

/// A rewind needs no log of the user's and the app's keys, and is refused if events that it needs were pruned.
pub async fn a_rewind_goes_by_the_events_that_are_left(store: &Store) {
    let test = TestApp::new(store);
    let key = with_invocations(&test).await;
    let artifacts = store.artifacts.as_ref();
    let rewind = async |to: &str| store.rewind(&key, to).await;
    assert_refused(rewind("").await, ErrorKind::InvalidArgument, "no invocation at all");
    let save = async |invocation: &str| {
        let version = artifacts.save_artifact(&key, "a.txt", Part::text(invocation), Default::default()).await.unwrap();
        let mut event = changing(json!({"saved": invocation})).with_invocation_id(invocation);
        event.actions.artifact_delta.insert("a.txt".to_owned(), version);
        test.append(&key, event).await
    };
    let shown = save("third").await.event.seq.unwrap();
    test.append(&key, changing(json!({"user:u": 3})).with_invocation_id("fourth")).await;
    save("fourth").await;
    for owner in [test.user("alice"), test.app()] {
        test.sessions().prune(Prune::state_log(&owner, u64::MAX), 100).await.unwrap();
    }
    test.sessions().prune(Prune::events(&key, 3), 10).await.unwrap();
    assert_refused(rewind("second").await, ErrorKind::FailedPrecondition, "an invocation whose beginning may be gone");
    let own = test.state(&key).await;
    test.sessions().prune(Prune::events(&key, shown + 1), 10).await.unwrap();
    test.append(&key, changing(json!({"last": 1})).with_invocation_id("fifth")).await;
    assert_eq!(rewind("fifth").await.unwrap().seq, Some(9));
    assert_eq!(test.state(&key).await, own);
    save("sixth").await;
    save("seventh").await;
    test.sessions().prune(Prune::events(&key, 10), 10).await.unwrap();
    test.append(&key, changing(json!({"last": 2})).with_invocation_id("seventh")).await;
    rewind("seventh").await.unwrap();
    let load = async || artifacts.load_artifact(&key, "a.txt", None).await.unwrap().unwrap();
    assert_eq!(load().await, Part::text("sixth"));
    let seq = test.get(&key).await.seq();
    test.append(&key, changing(json!({"last": 3})).with_invocation_id("eighth")).await;
    save("ninth").await;
    test.sessions().prune(Prune::events(&key, seq + 1), 100).await.unwrap();
    let refused = rewind("ninth").await;
    assert_refused(refused, ErrorKind::FailedPrecondition, "an artifact of which it is not known what it was");
    assert_eq!(load().await, Part::text("ninth"), "nothing was saved over it");
}
