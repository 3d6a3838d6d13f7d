//! Creating sessions, with state and with events.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use super::support::{TestApp, assert_refused, changing, removal, saying, seqs, state};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{
    ChangeQuery, CreateSessionConfig, ForkConfig, GetSessionConfig, Session, SessionServiceExt,
};
use scratchbook_core::state::Scope;
use scratchbook_core::store::Store;

fn with_id(id: &str) -> CreateSessionConfig {
    CreateSessionConfig::default().with_session_id(id)
}

/// Creating returns the same as reading: the key, the state, no events, the creation time.
pub async fn a_created_session_is_given_back_as_it_is_read(store: &Store) {
    let test = TestApp::new(store);
    let created = test.create_as("alice", with_id("s").with_state(json!({"a": 1, "user:b": 2, "app:c": 3}))).await;
    let read = test.get(&test.key("alice", "s")).await;
    assert_eq!(created.key(), read.key());
    assert_eq!(state(&created), json!({"a": 1, "user:b": 2, "app:c": 3}));
    assert_eq!(state(&read), state(&created));
    assert!(created.events().is_empty() && read.events().is_empty());
    assert_eq!((created.seq(), read.seq()), (0, 0));
    assert_eq!(created.last_update_time(), read.last_update_time());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - created.last_update_time()).abs() < 3600.0, "created at {}", created.last_update_time());
}

/// Sessions that are created at the same time are given back as they are read, whether their user has a large state or
/// a small one, and whether their own state is small or large.
pub async fn sessions_created_together_are_given_back_as_they_are_read(store: &Store) {
    let test = TestApp::new(store);
    test.create("alice", json!({"user:name": "Alice", "app:motto": "be kind"})).await;
    let many: Map<String, Value> = (0..60).map(|n| (format!("user:key {n}"), json!(n))).collect();
    test.create("bob", Value::Object(many)).await;
    let states = [
        ("empty", json!({})),
        ("small", json!({"a": [1, 2.5, null], "b": "ü"})),
        ("large", json!({"text": "x".repeat(40_000)})),
        ("shared", json!({"own": 1, "user:visits": 1})),
    ];
    let long = "x".repeat(40_000);
    test.create("dave", json!({"user:text": long})).await;
    let users = ["alice", "bob", "carol", "dave"];
    let all =
        users.iter().flat_map(|user| states.iter().map(move |(id, state)| (*user, format!("{user}-{id}"), state)));
    let create = |(user, id, state): (_, String, &Value)| test.create_as(user, with_id(&id).with_state(state.clone()));
    let created = join_all(all.map(create)).await;
    assert_eq!(created.len(), users.len() * states.len());
    for created in created {
        let (key, read) = (created.key(), test.get(created.key()).await);
        // Another creation of the same user may have written the user's keys since.
        let own = |session: &Session| session.state().only(Scope::Session);
        assert_eq!(own(&created), own(&read), "{key}");
        assert_eq!((created.create_time(), created.seq()), (read.create_time(), read.seq()), "{key}");
        assert_eq!(created.stored_bytes(), read.stored_bytes(), "{key}");
        assert_eq!(created.state().get("app:motto"), Some(&json!("be kind")), "{key}");
        let of_user = match key.user_id() {
            "alice" => ("user:name", Some(json!("Alice"))),
            "bob" => ("user:key 59", Some(json!(59))),
            "dave" => ("user:text", Some(json!(long))),
            _ => ("user:name", None),
        };
        assert_eq!(created.state().get(of_user.0), of_user.1.as_ref(), "{key}");
    }
}

/// The initial state is split by prefix like any delta, and is merged with the existing state of the user and the app.
pub async fn creation_splits_its_state_by_prefix(store: &Store) {
    let test = TestApp::new(store);
    test.create("alice", json!({"user:old": 1, "user:both": 1, "app:old": 1, "app:both": 1, "own": 1})).await;
    let second = test.create("alice", json!({"user:both": 2, "app:both": 2, "temp:t": 2, "own2": 2})).await;
    let merged = json!({"user:old": 1, "user:both": 2, "app:old": 1, "app:both": 2, "own2": 2});
    assert_eq!(state(&second), merged);
    assert_eq!(test.user_state("alice").await, json!({"old": 1, "both": 2}));
    assert_eq!(test.app_state().await, json!({"old": 1, "both": 2}));
}

/// A session created without state shows the state of the user and the app.
pub async fn state_at_creation_may_be_absent(store: &Store) {
    let test = TestApp::new(store);
    test.create("alice", json!({"user:a": 1, "app:b": 2})).await;
    for config in
        [CreateSessionConfig::default(), with_id("x").with_state(json!(null)), with_id("y").with_state(json!({}))]
    {
        assert_eq!(state(&test.create_as("alice", config).await), json!({"user:a": 1, "app:b": 2}));
    }
}

/// The initial state is an object; anything else is `InvalidArgument`, and nothing is created.
pub async fn state_at_creation_is_an_object(store: &Store) {
    let test = TestApp::new(store);
    for bad in [json!([]), json!("text"), json!(1), json!(true)] {
        let refused = test.try_create("alice", with_id("s").with_state(bad)).await;
        assert_refused(refused, ErrorKind::InvalidArgument, "state that is no object");
    }
    assert!(test.list(None).await.is_empty());
}

/// Creating a session whose id is taken is `AlreadyExists` and changes nothing in any scope.
pub async fn a_taken_id_is_refused_and_nothing_changes(store: &Store) {
    let test = TestApp::new(store);
    test.create_as("alice", with_id("s").with_state(json!({"a": 1, "user:a": 1, "app:a": 1}))).await;
    test.append(&test.key("alice", "s"), saying("hello")).await;
    let before = test.get(&test.key("alice", "s")).await;
    let config = with_id("s").with_state(json!({"a": 2, "user:a": 2, "app:a": 2, "user:new": 2, "app:new": 2}));
    let refused = test.try_create("alice", config.with_events(vec![changing(json!({"user:b": 3}))])).await;
    assert_refused(refused, ErrorKind::AlreadyExists, "a second session of the id");
    let after = test.get(&test.key("alice", "s")).await;
    assert_eq!((state(&after), after.events()), (state(&before), before.events()));
    assert_eq!(test.user_state("alice").await, json!({"a": 1}));
    assert_eq!(test.app_state().await, json!({"a": 1}));
    let log = test.sessions().list_state_changes(&test.user("alice"), &ChangeQuery::After(0), 100).await.unwrap();
    assert_eq!(log.len(), 1, "the log holds what was committed and nothing else: {log:?}");
}

/// Initial events are committed with the session, in order, as if appended one by one.
pub async fn events_at_creation_are_committed_with_it(store: &Store) {
    let test = TestApp::new(store);
    let events = vec![
        saying("first").with_id("1").with_timestamp(1_700_000_300.0),
        changing(json!({"a": 2, "user:b": 2, "temp:t": 2})).with_id("2").with_timestamp(1_700_000_100.5),
        changing(json!({"a": 3, "app:c": 3})).with_id("3").with_timestamp(1_700_000_200.25),
    ];
    let config = with_id("s").with_state(json!({"a": 1, "z": 1})).with_events(events);
    let created = test.create_as("alice", config).await;
    let read = test.get(created.key()).await;
    for session in [&created, &read] {
        assert_eq!(seqs(session), [1, 2, 3]);
        let ids: Vec<_> = session.events().iter().map(|event| event.id.as_str()).collect();
        assert_eq!(ids, ["1", "2", "3"], "in the order given, whatever their times");
        assert_eq!(state(session), json!({"a": 3, "z": 1, "user:b": 2, "app:c": 3}));
        assert_eq!(session.last_update_time(), 1_700_000_200.25);
        assert_eq!(session.seq(), 3);
    }
    assert_eq!(created.events(), read.events());
    assert_eq!(test.append(created.key(), saying("next")).await.event.seq, Some(4));
}

/// Initial events without an id or a time get one from the store; partial events are left out.
pub async fn events_at_creation_are_completed(store: &Store) {
    let test = TestApp::new(store);
    let mut partial = saying("par");
    partial.partial = Some(true);
    let config = with_id("s").with_events(vec![saying("one"), partial, saying("one")]);
    let created = test.create_as("alice", config).await;
    let read = test.get(created.key()).await;
    assert_eq!(seqs(&read), [1, 2]);
    for event in read.events().iter() {
        assert!(!event.id.is_empty() && event.timestamp.is_some(), "{event:?}");
    }
    assert_ne!(read.events().get(0).unwrap().id, read.events().get(1).unwrap().id);
}

/// If one initial event is invalid, nothing is created: no session, no state.
pub async fn one_bad_event_and_nothing_is_created(store: &Store) {
    let test = TestApp::new(store);
    let good = || changing(json!({"user:a": 1, "app:a": 1})).with_id("good");
    let cases = [
        (saying("bad").with_timestamp(f64::NAN), ErrorKind::InvalidArgument),
        (saying("bad").with_id("a\nb"), ErrorKind::InvalidArgument),
        (saying("the same id, another content").with_id("good"), ErrorKind::AlreadyExists),
    ];
    for (bad, kind) in cases {
        let config = with_id("s").with_state(json!({"user:b": 1, "app:b": 1})).with_events(vec![good(), bad]);
        assert_refused(test.try_create("alice", config).await, kind, "a creation with a bad event");
        let read = store.sessions.get_session(&test.key("alice", "s"), &GetSessionConfig::default()).await.unwrap();
        assert!(read.is_none(), "the session was created in spite of a bad event");
        assert_eq!(test.user_state("alice").await, json!({}));
        assert_eq!(test.app_state().await, json!({}));
    }
    let config = with_id("s").with_events(vec![good(), good()]);
    assert_eq!(seqs(&test.create_as("alice", config).await), [1], "the same event twice is a retry");
}

/// If a creation leaves shared keys unchanged, its events are kept completely and only the session's own keys are
/// written. The state and log of the user and the app stay unchanged, and verification of the session succeeds.
pub async fn events_from_elsewhere_leave_the_keys_of_user_and_app(store: &Store) {
    let test = TestApp::new(store);
    test.create_as("alice", with_id("now").with_state(json!({"user:a": "now", "app:a": "now"}))).await;
    let old = || changing(json!({"k": 2, "user:a": "old", "app:b": "old", "temp:t": 1})).with_id("e");
    let last = || changing(json!({"user:a": "older"})).with_id("f").with_timestamp(1_700_000_000.5);
    let given = json!({"k": 1, "z": 1, "user:a": "old", "app:c": "old"});
    let config = with_id("s").with_state(given).with_events(vec![old(), last()]).with_shared_keys_left();
    let created = test.create_as("alice", config).await;
    let read = test.get(created.key()).await;
    for session in [&created, &read] {
        assert_eq!(state(session), json!({"k": 2, "z": 1, "user:a": "now", "app:a": "now"}));
        let deltas = session.events().iter().map(|event| serde_json::to_value(&event.actions.state_delta).unwrap());
        let whole = [json!({"k": 2, "user:a": "old", "app:b": "old"}), json!({"user:a": "older"})];
        assert_eq!(deltas.collect::<Vec<_>>(), whole);
    }
    for owner in [test.user("alice"), created.key().app()] {
        assert_eq!(
            test.sessions().list_state_changes(&owner, &ChangeQuery::After(0), 100).await.unwrap().len(),
            1,
            "{owner:?}"
        );
        test.sessions().verify_state(&owner).await.unwrap();
    }
    assert_eq!(test.sessions().verify_session(created.key()).await.unwrap().map(|verified| verified.events), Some(2));
    let before = test.sessions().get_state_at(created.key(), 1).await.unwrap();
    assert_eq!(before.get("user:a"), Some(&json!("now")));
    let again = test.append(created.key(), last()).await;
    assert_eq!(
        (again.event.seq, again.outcome),
        (Some(2), scratchbook_core::session::Outcome::Replayed),
        "a retry is known"
    );
    let operation = scratchbook_core::event::Event::new("agent")
        .with_state_delta(scratchbook_core::state::StateDelta::new().with_increment("n", 1).unwrap());
    let config = with_id("t").with_events(vec![operation]).with_shared_keys_left();
    assert_refused(test.try_create("alice", config).await, ErrorKind::InvalidArgument, "an operation from elsewhere");
}

/// The session's own keys of the initial state stay readable, whatever events change later.
pub async fn the_state_at_creation_stays_readable(store: &Store) {
    let test = TestApp::new(store);
    let given = json!({"z": 1, "gone": [1.0, null], "user:b": 2, "app:c": 3, "temp:t": 4, "": "empty"});
    let key = test.create_as("alice", with_id("s").with_state(given)).await.key().clone();
    test.append(&key, changing(json!({"z": 2, "new": 1, "user:b": 3}))).await;
    test.append(&key, scratchbook_core::event::Event::new("agent").with_state_delta(removal(&["gone"]))).await;
    let initial = test.sessions().get_initial_state(&key).await.unwrap();
    let initial = initial.map(|initial| (initial.seq, Value::from(initial.state)));
    assert_eq!(initial, Some((0, json!({"z": 1, "gone": [1.0, null], "": "empty"}))));
    let empty = test.create("alice", json!({"user:only": 1})).await;
    let initial = test.sessions().get_initial_state(empty.key()).await.unwrap();
    assert_eq!(initial.map(|initial| (initial.seq, initial.state.len())), Some((0, 0)));
    for missing in [test.key("bob", "s"), test.key("alice", "other")] {
        assert_eq!(test.sessions().get_initial_state(&missing).await.unwrap(), None);
    }
}

/// An imported session has its original creation time, which is also its update time until an event changes it.
pub async fn a_session_may_have_been_made_earlier(store: &Store) {
    let test = TestApp::new(store);
    let made = test.create_as("alice", with_id("s").with_create_time(1_700_000_000.25)).await;
    assert_eq!((made.last_update_time(), made.create_time()), (1_700_000_000.25, Some(1_700_000_000.25)));
    assert_eq!(test.get(made.key()).await.last_update_time(), 1_700_000_000.25);
    test.append(made.key(), saying("hello").with_timestamp(1_600_000_000.5)).await;
    for session in [test.get(made.key()).await, test.list(None).await.remove(0)] {
        assert_eq!((session.last_update_time(), session.create_time()), (1_600_000_000.5, Some(1_700_000_000.25)));
    }
    let fork = test.sessions().fork_session(made.key(), ForkConfig::default()).await.unwrap();
    assert!(fork.create_time() > made.create_time(), "{:?}", fork.create_time());
    test.sessions().delete_session(fork.key()).await.unwrap();
    for bad in [-1.0, f64::NAN, 1_700_000_000_000.0] {
        let refused = test.try_create("alice", with_id("bad").with_create_time(bad)).await;
        assert_refused(refused, ErrorKind::InvalidArgument, &format!("a creation at {bad}"));
    }
    assert_eq!(test.list(None).await.len(), 1);
}
