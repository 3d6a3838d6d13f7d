//! The log of a user's or an app's state, whose fold is the state.

use serde_json::{Map, Value, json};

use super::support::{TestApp, assert_refused, changing, delta, removal};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{ChangeQuery, CreateSessionConfig, PutStateOptions, StateChange, StateOwner};
use scratchbook_core::store::Store;

async fn whole_log(store: &Store, owner: &StateOwner) -> Vec<StateChange> {
    store.sessions.list_state_changes(owner, &ChangeQuery::After(0), usize::MAX).await.expect("list_state_changes")
}

/// Writes to the state of a user and an app in every possible way.
async fn busy(test: &TestApp) -> [StateOwner; 2] {
    let config =
        CreateSessionConfig::default().with_session_id("s").with_state(json!({"user:a": 1, "app:a": 1, "x": 1}));
    let session = test.create_as("alice", config).await;
    let other = test.create("bob", json!({"user:a": 9, "app:b": 1})).await;
    test.append(session.key(), changing(json!({"user:b": 2, "user:a": 2, "app:a": 2, "app:c": 2})).with_id("e1")).await;
    test.append(session.key(), Event::new("agent").with_state_delta(removal(&["user:a", "app:b", "user:never"]))).await;
    test.append(other.key(), changing(json!({"user:a": 10, "app:a": 3}))).await;
    for owner in [test.user("alice"), test.app()] {
        test.sessions().put_state(&owner, delta(json!({"a": null, "d": {"k": 1.0}})), "admin".into()).await.unwrap();
        test.sessions().put_state(&owner, removal(&["d"]), "admin".into()).await.unwrap();
        test.sessions().put_state(&owner, delta(json!({"d": 5})), "admin".into()).await.unwrap();
    }
    [test.user("alice"), test.app()]
}

/// The state of a user or an app is the fold of its log.
pub async fn state_is_the_fold_of_its_log(store: &Store) {
    let test = TestApp::new(store);
    for owner in busy(&test).await {
        let mut folded = Map::new();
        for change in whole_log(store, &owner).await {
            match change.value {
                Some(value) => folded.insert(change.name, value),
                None => folded.shift_remove(&change.name),
            };
        }
        let kept = test.sessions().get_state(&owner).await.unwrap();
        assert_eq!(Value::from(folded), Value::from(kept), "{owner:?}");
    }
}

/// A key's version is 1 at its first write and increases by one with each write, including removals.
pub async fn versions_count_up(store: &Store) {
    let test = TestApp::new(store);
    for owner in busy(&test).await {
        let log = whole_log(store, &owner).await;
        let mut versions = std::collections::HashMap::new();
        for change in &log {
            let version = versions.entry(&change.name).or_insert(0);
            *version += 1;
            assert_eq!(change.version, *version, "'{}' in {log:?}", change.name);
        }
        assert!(versions.len() >= 3, "{log:?}");
    }
}

/// The log has the writer of a change: the session and the number of the event (0 for a creation, none for
/// `put_state`), the event's id, the author and the time.
pub async fn the_log_says_who_wrote(store: &Store) {
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_session_id("s").with_state(json!({"user:a": 1}));
    let session = test.create_as("alice", config).await;
    let event = changing(json!({"user:a": 2})).with_id("e1").with_timestamp(1_700_000_000.5);
    test.append(session.key(), event).await;
    test.sessions().put_state(&test.user("alice"), removal(&["a"]), "admin".into()).await.unwrap();
    let log = whole_log(store, &test.user("alice")).await;
    let origins: Vec<_> = log.iter().map(|change| change.origin.clone()).collect();
    assert_eq!(origins, [Some((session.key().clone(), 0)), Some((session.key().clone(), 1)), None]);
    let written: Vec<_> = log.iter().map(|change| (change.event_id.as_str(), change.author.as_str())).collect();
    assert_eq!(written[1..], [("e1", "agent"), ("", "admin")]);
    assert_eq!(log[0].event_id, "");
    assert_eq!(
        log.iter().map(|change| change.value.clone()).collect::<Vec<_>>(),
        [Some(json!(1)), Some(json!(2)), None]
    );
    assert_eq!(log[1].time, 1_700_000_000.5);
    assert!(log[2].time > 1_700_000_000.5, "the time of a put is the clock's: {}", log[2].time);
}

/// An imported change keeps its original time.
pub async fn a_put_may_have_been_made_earlier(store: &Store) {
    let test = TestApp::new(store);
    let by = |time| PutStateOptions::by("admin").with_time(time);
    test.sessions().put_state(&test.app(), delta(json!({"a": 1})), by(1_600_000_000.1)).await.unwrap();
    test.sessions().put_state(&test.app(), delta(json!({"a": 2})), by(0.0)).await.unwrap();
    let times: Vec<_> = whole_log(store, &test.app()).await.iter().map(|change| change.time).collect();
    assert_eq!(times, [1_600_000_000.1, 0.0], "in the order of the commits");
    for bad in [-1.0, f64::INFINITY, 1_600_000_000_000.0] {
        let refused = test.sessions().put_state(&test.app(), delta(json!({"a": 3})), by(bad)).await;
        assert_refused(refused, ErrorKind::InvalidArgument, &format!("a put at {bad}"));
    }
    assert_eq!(test.app_state().await, json!({"a": 2}));
}

/// Positions increase from commit to commit; the changes of one commit are adjacent.
pub async fn positions_rise(store: &Store) {
    let test = TestApp::new(store);
    for owner in busy(&test).await {
        let log = whole_log(store, &owner).await;
        for pair in log.windows(2) {
            assert!(pair[0].position <= pair[1].position, "{log:?}");
            let one_commit = pair[0].position == pair[1].position;
            assert!(!one_commit || pair[0].origin == pair[1].origin, "two commits share a position: {log:?}");
        }
        assert!(log[0].position > 0, "0 is before the first: {log:?}");
    }
}

/// Continuing after the last position, pages of any size return each change once; no commit is split.
pub async fn pages_of_the_log_hold_every_change_once(store: &Store) {
    let test = TestApp::new(store);
    for owner in busy(&test).await {
        let whole = whole_log(store, &owner).await;
        for limit in 1..=whole.len() + 1 {
            let (mut seen, mut after): (Vec<StateChange>, u64) = (Vec::new(), 0);
            loop {
                let page = test.sessions().list_state_changes(&owner, &ChangeQuery::After(after), limit).await.unwrap();
                let Some(last) = page.last() else { break };
                after = last.position;
                seen.extend(page);
                assert!(seen.len() <= whole.len(), "a change came twice");
            }
            assert_eq!(seen, whole, "pages of {limit}");
        }
        let none = test.sessions().list_state_changes(&owner, &ChangeQuery::After(0), 0).await.unwrap();
        assert_eq!(none, [], "a limit of 0");
        let none = test.sessions().list_state_changes(&owner, &ChangeQuery::After(u64::MAX), 10).await.unwrap();
        assert_eq!(none, [], "after the end");
    }
}

/// An owner's log contains no changes of other owners, and is empty if nothing was written.
pub async fn logs_are_apart(store: &Store) {
    let test = TestApp::new(store);
    busy(&test).await;
    let bobs = whole_log(store, &test.user("bob")).await;
    assert_eq!(bobs.iter().map(|change| change.value.clone()).collect::<Vec<_>>(), [Some(json!(9)), Some(json!(10))]);
    assert_eq!(whole_log(store, &test.user("carol")).await, []);
    assert_eq!(whole_log(store, &TestApp::new(store).app()).await, []);
}
