//! Verification that the state is the fold of the event log; diffs and histories of keys.

use serde_json::json;

use super::support::{TestApp, assert_refused, changing, delta, removal};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::session::{ChangeQuery, CreateSessionConfig, ForkConfig, Prune, SessionServiceExt};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

/// After every kind of write, sessions, users and apps pass verification.
pub async fn what_is_shown_verifies(store: &Store) {
    let test = TestApp::new(store);
    let sessions = test.sessions();
    let config = CreateSessionConfig::default().with_state(json!({"a": 0, "b": [1], "user:u": 0, "app:p": 0}));
    let key = test.create_as("alice", config).await.key().clone();
    let event = |delta: StateDelta| Event::new("agent").with_state_delta(delta);
    for n in 0..20 {
        test.append(&key, changing(json!({format!("k{}", n % 7): n, "user:n": n}))).await;
        let delta = StateDelta::new().with_increment("a", 1).unwrap().with_append("b", n).unwrap();
        test.append(&key, event(delta.with_increment("app:p", 2).unwrap())).await;
        test.append(&key, event(removal(&["k3", "user:u"]))).await;
    }
    sessions.put_state(&test.user("alice"), delta(json!({"put": 1})), "admin".into()).await.unwrap();
    let fork = sessions.fork_session(&key, ForkConfig::at(31)).await.unwrap().key().clone();
    test.set(&fork, json!({"own": "way"})).await;
    sessions.prune(Prune::events(&key, 17), 100).await.unwrap();
    sessions.prune(Prune::state_log(&test.app(), u64::MAX), 5).await.unwrap();
    let of_key = sessions.verify_session(&key).await.unwrap().unwrap();
    assert_eq!((of_key.events, of_key.keys), (60 - 16, 8));
    let of_fork = sessions.verify_session(&fork).await.unwrap().unwrap();
    assert_eq!(of_fork.events, 32);
    for owner in [test.user("alice"), test.app()] {
        let verified = sessions.verify_state(&owner).await.unwrap();
        assert!(verified.keys > 0 && verified.events >= verified.keys, "{verified:?}");
    }
    assert_eq!(sessions.verify_session(&test.key("alice", "missing")).await.unwrap(), None);
}

/// During concurrent writes, a session and an app pass verification as of some moment.
pub async fn what_moves_verifies(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let writer = tokio::spawn({
        let (test, key) = (test.clone(), key.clone());
        async move {
            for n in 0..60 {
                test.set(&key, json!({"n": n, "app:n": n})).await;
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    });
    while !writer.is_finished() {
        // A store that never waits would otherwise never let the writer run.
        tokio::task::yield_now().await;
        for found in [
            test.sessions().verify_session(&key).await.map(drop),
            test.sessions().verify_state(&test.app()).await.map(drop),
        ] {
            let refused = found.err().filter(|error| error.kind() != ErrorKind::Conflict);
            assert!(refused.is_none(), "{refused:?}");
        }
    }
    writer.await.unwrap();
    assert_eq!(test.sessions().verify_session(&key).await.unwrap().unwrap().events, 60);
}

/// A diff has the changed keys, with both values, in either direction.
pub async fn a_diff_has_what_changed(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"a": 1, "same": {"x": [1]}, "null": null})).await.key().clone();
    test.append(&key, changing(json!({"a": 2, "user:new": null, "same": {"x": [1]}}))).await;
    test.append(&key, Event::new("agent").with_state_delta(removal(&["null"]))).await;
    let sessions = test.sessions();
    let diff = sessions.diff(&key, 0, 2).await.unwrap();
    let expected = json!({"a": {"before": 1, "after": 2}, "user:new": {"after": null}, "null": {"before": null}});
    assert_eq!(json!(diff), expected);
    let back = sessions.diff(&key, 2, 0).await.unwrap();
    assert_eq!((back["a"].before.clone(), back["a"].after.clone()), (Some(json!(2)), Some(json!(1))));
    assert_eq!(sessions.diff(&key, 1, 1).await.unwrap().len(), 0);
    assert_refused(sessions.diff(&key, 0, 3).await, ErrorKind::NotFound, "an event that is not there");
}

/// The history of a key at an event begins with the write that made the key's value at that event, and has no later one.
pub async fn a_history_at_an_event_ends_there(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"k": "made", "user:k": "made", "app:k": "made"})).await.key().clone();
    let other = test.create("alice", json!({})).await.key().clone();
    let sessions = test.sessions();
    for n in 1..=4 {
        // The even events of the session change nothing; others write between all of them.
        let delta = if n % 2 == 1 { json!({"k": n, "user:k": n, "app:k": n}) } else { json!({"other": n}) };
        test.append(&key, changing(delta)).await;
        test.append(&other, changing(json!({"user:k": format!("other {n}"), "app:k": format!("other {n}")}))).await;
        for owner in [test.user("alice"), test.app()] {
            let delta = StateDelta::new().with("k", format!("put {n}")).unwrap();
            sessions.put_state(&owner, delta, "admin".into()).await.unwrap();
        }
    }
    test.append(&key, Event::new("tidy").with_state_delta(removal(&["k", "user:k", "app:k"]))).await;
    for name in ["k", "user:k", "app:k"] {
        let whole = sessions.history(&key, name, 100).await.unwrap();
        let mut before = 0;
        for seq in 0..=5 {
            let then = sessions.get_state_at(&key, seq).await.unwrap();
            let history = sessions.history_at(&key, name, seq, 100).await.unwrap();
            assert_eq!(history.first().and_then(|write| write.value.as_ref()), then.get(name), "{name} at {seq}");
            assert!(whole.ends_with(&history) && history.len() >= before, "{name} at {seq}: {history:?}");
            assert_eq!(sessions.history_at(&key, name, seq, 1).await.unwrap(), history[..1], "{name} at {seq}");
            before = history.len();
        }
        assert_refused(sessions.history_at(&key, name, 6, 1).await, ErrorKind::NotFound, "an event that is not there");
    }
    let of_another = ChangeQuery::of_key_at("k", u64::MAX, &key, 1);
    let refused = sessions.list_state_changes(&test.user("bob"), &of_another, 1).await;
    assert_refused(refused, ErrorKind::InvalidArgument, "the log of another user");
    sessions.prune(Prune::events(&key, 4), 10).await.unwrap();
    for name in ["k", "user:k", "app:k"] {
        assert_refused(sessions.history_at(&key, name, 2, 9).await, ErrorKind::FailedPrecondition, "a pruned event");
        assert_eq!(sessions.history_at(&key, name, 3, 1).await.unwrap().len(), 1, "{name} at the prune point");
    }
}

/// The history of a key has each write with its writer, the latest first, down to the creation.
pub async fn a_history_has_each_write(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"k": "made", "user:k": "made"})).await.key().clone();
    let other = test.create("alice", json!({})).await.key().clone();
    for n in 1..=3 {
        let event = changing(json!({"k": n, "user:k": n})).with_id(format!("e{n}")).with_invocation_id("i");
        test.append(&key, event).await;
        test.append(&key, changing(json!({"other": n}))).await;
    }
    test.append(&other, changing(json!({"user:k": "theirs"})).with_id("t")).await;
    test.append(&key, Event::new("tidy").with_id("gone").with_state_delta(removal(&["k"]))).await;
    let sessions = test.sessions();
    let told = async |name: &str, limit| {
        let history = sessions.history(&key, name, limit).await.unwrap();
        history
            .into_iter()
            .map(|write| (json!(write.value), write.writer.seq, write.writer.event_id))
            .collect::<Vec<_>>()
    };
    let whole = [
        (json!(null), 7, "gone".to_owned()),
        (json!(3), 5, "e3".to_owned()),
        (json!(2), 3, "e2".to_owned()),
        (json!(1), 1, "e1".to_owned()),
        (json!("made"), 0, String::new()),
    ];
    assert_eq!(told("k", 10).await, whole);
    assert_eq!(told("k", 2).await, whole[..2]);
    let shared = told("user:k", 10).await;
    assert_eq!(shared[0], (json!("theirs"), 1, "t".to_owned()));
    assert_eq!(shared[1..4], whole[1..4]);
    assert_eq!(told("never", 10).await, []);
    let writes = sessions.history(&key, "k", 2).await.unwrap();
    assert_eq!((writes[0].writer.author.as_str(), writes[1].writer.invocation_id.as_str()), ("tidy", "i"));
    assert_refused(sessions.history(&key, "temp:k", 1).await, ErrorKind::InvalidArgument, "a temp: key");
    assert_refused(sessions.history(&test.key("alice", "no"), "k", 1).await, ErrorKind::NotFound, "no session");
    sessions.prune(Prune::events(&key, 4), 10).await.unwrap();
    let pruned = told("k", 10).await;
    assert_eq!(
        pruned[1..],
        [(json!(3), 5, "e3".to_owned()), (json!(2), 3, String::new())],
        "what the pruned ones left"
    );
}

/// A session passes verification after the log of its user's state was pruned, and so does a user with a session that
/// was created again with the same ids.
pub async fn what_was_let_go_verifies(store: &Store) {
    let test = TestApp::new(store);
    let sessions = test.sessions();
    let event = |n: u64| changing(json!({"n": n, "user:n": n})).with_id(format!("e{n}"));
    let config = |events| CreateSessionConfig::default().with_session_id("s").with_events(events);
    let key = test.create_as("alice", config((1..=520).map(event).collect())).await.key().clone();
    assert!(sessions.prune(Prune::state_log(&test.user("alice"), u64::MAX), 1000).await.unwrap() > 500);
    assert_eq!(sessions.verify_session(&key).await.unwrap().unwrap().events, 520);
    sessions.delete_session(&key).await.unwrap();
    let other = Event::new("agent").with_id("e520").with_state_delta(delta(json!({"user:n": "other"})));
    let events = (1..=519).map(event).chain([other.with_timestamp(1_700_000_000.25)]).collect();
    test.create_as("alice", config(events)).await;
    sessions.verify_state(&test.user("alice")).await.unwrap();
}
