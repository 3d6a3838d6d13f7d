//! Expiry of sessions, and pruning of events and logs.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{TestApp, assert_refused, changing, delta, seqs};
use scratchbook_core::artifact::ListVersionsConfig;
use scratchbook_core::content::Part;
use scratchbook_core::error::ErrorKind;
use scratchbook_core::session::{
    ChangeQuery, CreateSessionConfig, Expiry, FeedStart, ForkConfig, GetSessionConfig, Prune, SessionKey,
    SessionServiceExt,
};
use scratchbook_core::store::Store;

/// A time in the past, whatever the clock of the machine under test shows.
const PAST: Expiry = Expiry::At(1_600_000_000.0);
const HOUR: Duration = Duration::from_secs(3600);

/// A session has its expiry time, and until then behaves like any other.
pub async fn a_session_knows_when_it_expires(store: &Store) {
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_expire_time(4_000_000_000.25).with_state(json!({"a": 1}));
    let session = test.create_as("alice", config).await;
    assert_eq!(session.expire_time(), Some(4_000_000_000.25));
    test.set(session.key(), json!({"a": 2})).await;
    assert_eq!(test.get(session.key()).await.expire_time(), Some(4_000_000_000.25), "an append changes nothing");
    assert_eq!(test.list(None).await[0].expire_time(), Some(4_000_000_000.25));
    test.sessions().set_expiry(session.key(), None).await.unwrap();
    assert_eq!(test.get(session.key()).await.expire_time(), None);
    test.sessions().set_expiry(session.key(), Some(Expiry::After(HOUR))).await.unwrap();
    let expires = test.get(session.key()).await.expire_time().unwrap();
    assert!(expires > session.last_update_time() + 3000.0, "{expires}");
    let living = test.create_as("alice", CreateSessionConfig::default().with_time_to_live(HOUR)).await;
    assert!(living.expire_time().is_some());
    assert_eq!(test.create("alice", json!({})).await.expire_time(), None);
}

/// An expired session behaves as if deleted, in every call; the user's and the app's state stay.
pub async fn an_expired_session_is_not_there(store: &Store) {
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_session_id("s").with_state(json!({"a": 1, "user:u": 1}));
    let session = test.create_as("alice", config).await;
    let (key, sessions) = (session.key(), test.sessions());
    test.set(key, json!({"a": 2})).await;
    let stays = test.create("alice", json!({})).await;
    sessions.set_expiry(key, Some(PAST)).await.unwrap();
    assert!(sessions.get_session(key, &GetSessionConfig::default()).await.unwrap().is_none());
    assert_eq!(sessions.get_initial_state(key).await.unwrap(), None);
    let listed: Vec<_> = test.list(None).await.iter().map(|session| session.key().clone()).collect();
    assert_eq!(listed, [stays.key().clone()]);
    assert_eq!(test.list(Some("alice")).await.len(), 1);
    assert_refused(test.try_append(key, changing(json!({"a": 3}))).await.map(drop), ErrorKind::NotFound, "append");
    let increment = scratchbook_core::state::StateDelta::new().with_increment("a", 1).unwrap();
    let event = scratchbook_core::event::Event::new("agent").with_state_delta(increment);
    assert_refused(test.try_append(key, event).await.map(drop), ErrorKind::NotFound, "an operation");
    assert_refused(sessions.get_state_at(key, 0).await, ErrorKind::NotFound, "get_state_at");
    assert_refused(sessions.blame(key).await, ErrorKind::NotFound, "blame");
    let fork = sessions.fork_session(key, ForkConfig::default()).await;
    assert_refused(fork.map(drop), ErrorKind::NotFound, "fork_session");
    assert_refused(sessions.set_expiry(key, None).await, ErrorKind::NotFound, "set_expiry");
    assert_eq!(sessions.prune(Prune::events(key, 9), 9).await.unwrap(), 0);
    assert_eq!(json!(sessions.get_state(&test.user("alice")).await.unwrap()), json!({"u": 1}));
}

/// The id of an expired session is free: a session created with it starts empty.
pub async fn an_expired_sessions_id_is_free(store: &Store) {
    let test = TestApp::new(store);
    let config = || CreateSessionConfig::default().with_session_id("s");
    let session = test.create_as("alice", config().with_state(json!({"old": 1}))).await;
    let key = session.key();
    test.set(key, json!({"a": 2})).await;
    test.sessions().set_expiry(key, Some(PAST)).await.unwrap();
    let anew = test.create_as("alice", config().with_state(json!({"new": 1}))).await;
    assert_eq!((json!(anew.state()), anew.seq(), anew.expire_time()), (json!({"new": 1}), 0, None));
    test.set(key, json!({"a": 3})).await;
    let read = test.get(key).await;
    assert_eq!((json!(read.state()), seqs(&read)), (json!({"new": 1, "a": 3}), vec![1]));
    test.sessions().set_expiry(key, Some(PAST)).await.unwrap();
    let other = test.create("alice", json!({})).await;
    let fork = test.sessions().fork_session(other.key(), ForkConfig::default().with_session_id("s")).await.unwrap();
    assert_eq!(json!(fork.state()), json!({}));
}

/// Expired sessions are permanently deleted, a limited number per call; others stay.
pub async fn expired_sessions_are_deleted_in_steps(store: &Store) {
    let test = TestApp::new(store);
    for n in 0..5 {
        let config = CreateSessionConfig::default().with_state(json!({"n": n}));
        let session = test.create_as("alice", config).await;
        test.set(session.key(), json!({"a": 1})).await;
        if n < 3 {
            test.sessions().set_expiry(session.key(), Some(PAST)).await.unwrap();
        }
    }
    let mut deleted = 0;
    loop {
        let now = test.sessions().prune(Prune::Expired, 2).await.unwrap();
        assert!(now <= 2, "{now}");
        deleted += now;
        if now < 2 {
            break;
        }
    }
    // Tests that run at the same time may have expired sessions.
    assert!(deleted >= 3, "{deleted}");
    assert_eq!(test.list(None).await.len(), 2);
}

async fn long_session(test: &TestApp) -> (SessionKey, Vec<Value>) {
    let key = test.create("alice", json!({"a": 0, "user:u": 0})).await.key().clone();
    let mut shown = vec![test.state(&key).await];
    for n in 1..=10 {
        let state = if n % 2 == 0 { json!({"a": n, "user:u": n}) } else { json!({format!("k{n}"): n}) };
        test.append(&key, changing(state).with_id(format!("e{n}"))).await;
        shown.push(test.state(&key).await);
    }
    (key, shown)
}

/// Old events are removed; the state, and the numbers and contents of the other events, stay unchanged.
pub async fn pruning_keeps_the_state_and_the_rest(store: &Store) {
    let test = TestApp::new(store);
    let (key, shown) = long_session(&test).await;
    let before = test.get(&key).await;
    assert_eq!(test.sessions().prune(Prune::events(&key, 1), 100).await.unwrap(), 0, "nothing is before the first");
    assert_eq!(test.sessions().prune(Prune::events(&key, 7), 4).await.unwrap(), 4, "in steps");
    assert_eq!(test.sessions().prune(Prune::events(&key, 7), 4).await.unwrap(), 2);
    assert_eq!(test.sessions().prune(Prune::events(&key, 7), 4).await.unwrap(), 0);
    let after = test.get(&key).await;
    assert_eq!((json!(after.state()), after.seq()), (json!(before.state()), 10));
    assert!(after.events().iter().eq(before.events().iter().skip(6)));
    assert_eq!(after.last_update_time(), before.last_update_time());
    let initial = test.sessions().get_initial_state(&key).await.unwrap().unwrap();
    assert_eq!((initial.seq, json!(initial.state)), (6, json!({"a": 6, "k1": 1, "k3": 3, "k5": 5})));
    for seq in 6..=10 {
        let state = test.sessions().get_state_at(&key, seq).await.unwrap();
        assert_eq!(json!(state), shown[seq as usize], "at {seq}");
    }
    for seq in [0, 5] {
        let refused = test.sessions().get_state_at(&key, seq).await;
        assert_refused(refused, ErrorKind::FailedPrecondition, &format!("the state at {seq}"));
        let refused = test.sessions().fork_session(&key, ForkConfig::at(seq)).await.map(drop);
        assert_refused(refused, ErrorKind::FailedPrecondition, &format!("a fork at {seq}"));
    }
    let fork = test.sessions().fork_session(&key, ForkConfig::at(8)).await.unwrap();
    let forked = test.get(fork.key()).await;
    assert_eq!((seqs(&forked), json!(forked.state())["a"].clone()), (vec![7, 8], json!(8)));
    let config = GetSessionConfig::default().with_events_after(0, 2);
    assert_eq!(seqs(&test.read(&key, config).await), [7, 8], "a cursor before the first goes on with it");
    let committed = test.set(&key, json!({"a": "after"})).await;
    assert_eq!(committed.event.seq, Some(11));
}

/// All events may be pruned; the session keeps its state and continues.
pub async fn a_session_without_its_events_goes_on(store: &Store) {
    let test = TestApp::new(store);
    let (key, shown) = long_session(&test).await;
    assert_eq!(test.sessions().prune(Prune::events(&key, u64::MAX), 1000).await.unwrap(), 10);
    let session = test.get(&key).await;
    assert_eq!((json!(session.state()), session.seq(), session.events().len()), (shown[10].clone(), 10, 0));
    let blame = test.sessions().blame(&key).await.unwrap();
    assert_eq!((blame["a"].seq, blame["a"].event_id.as_str()), (10, ""), "who wrote it went with the event");
    assert_eq!(blame["user:u"].event_id, "e10", "the user's log still knows");
    assert_eq!(test.append(&key, changing(json!({"a": 1}))).await.event.seq, Some(11));
    assert_eq!(json!(test.sessions().get_state_at(&key, 10).await.unwrap()), shown[10]);
    let (missing, none) = (test.key("alice", "missing"), test.sessions());
    assert_eq!(none.prune(Prune::events(&missing, 5), 5).await.unwrap(), 0);
}

/// Pruning a log removes overwritten values; the state is still the log's fold, and point-in-time states from before
/// the pruned position are refused.
pub async fn pruning_a_log_keeps_its_fold(store: &Store) {
    let test = TestApp::new(store);
    let (key, shown) = long_session(&test).await;
    let owner = test.user("alice");
    test.sessions().put_state(&owner, delta(json!({"once": 1})), "admin".into()).await.unwrap();
    let log = test.sessions().list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    // The log has the changes of `u` to 0, 2, 4, 6, 8 and 10, then that of `once`. Four changes come before the change
    // to 8.
    let before = log[4].position;
    assert_eq!(test.sessions().prune(Prune::state_log(&owner, before), 2).await.unwrap(), 2, "in steps");
    assert_eq!(test.sessions().prune(Prune::state_log(&owner, before), 2).await.unwrap(), 1);
    assert_eq!(test.sessions().prune(Prune::state_log(&owner, before), 2).await.unwrap(), 0);
    let kept = test.sessions().list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    assert_eq!(kept, log[3..], "the last change before the point stays");
    assert_eq!(json!(test.sessions().get_state(&owner).await.unwrap()), json!({"u": 10, "once": 1}));
    assert_eq!(json!(test.sessions().get_state_at(&key, 8).await.unwrap()), shown[8]);
    assert_eq!(json!(test.sessions().get_state_at(&key, 10).await.unwrap()), shown[10]);
    let refused = test.sessions().get_state_at(&key, 3).await;
    assert_refused(refused, ErrorKind::FailedPrecondition, "state of a time whose log is gone");
    assert_eq!(test.sessions().prune(Prune::state_log(&test.user("nobody"), 5), 5).await.unwrap(), 0);
}

/// Pruned and deleted entries are not in the feed; a reader continues with the remaining ones.
pub async fn a_feed_goes_on_over_what_was_pruned(store: &Store) {
    let test = TestApp::new(store);
    let (key, _) = long_session(&test).await;
    let start = test.sessions().list_feed(&test.app(), &FeedStart::Beginning, 3).await.unwrap();
    test.sessions().prune(Prune::events(&key, 9), 100).await.unwrap();
    let rest = test.sessions().list_feed(&test.app(), &FeedStart::After(start.cursor), 100).await.unwrap();
    let numbers = rest.entries.iter().filter_map(|entry| match &entry.commit {
        scratchbook_core::session::FeedCommit::Event { event, .. } => event.seq,
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [9, 10]);
}

/// A log may be pruned before any position, however large; later commits are kept.
pub async fn what_comes_after_a_pruned_log_is_known(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    test.set(&key, json!({"user:u": 1})).await;
    test.set(&key, json!({"user:u": 2})).await;
    assert_eq!(test.sessions().prune(Prune::state_log(&test.user("alice"), u64::MAX), 10).await.unwrap(), 1);
    for n in 3..=5 {
        test.set(&key, json!({"user:u": n})).await;
    }
    for (seq, n) in [(2, 2), (3, 3), (4, 4), (5, 5)] {
        let state = test.sessions().get_state_at(&key, seq).await.unwrap();
        assert_eq!(json!(state), json!({"user:u": n}), "at {seq}");
    }
    let refused = test.sessions().get_state_at(&key, 1).await;
    assert_refused(refused, ErrorKind::FailedPrecondition, "state of a time whose log is gone");
}

/// The artifacts of an expired session are removed with it; the user's stay.
pub async fn artifacts_expire_with_their_session(store: &Store) {
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_session_id("s");
    let key = test.create_as("alice", config).await.key().clone();
    let save = async |name: &str| {
        store.artifacts.save_artifact(&key, name, Part::text("x"), Default::default()).await.unwrap()
    };
    save("a.txt").await;
    save("user:mine.txt").await;
    test.sessions().set_expiry(&key, Some(PAST)).await.unwrap();
    assert_eq!(store.artifacts.load_artifact(&key, "a.txt", None).await.unwrap(), None);
    assert_eq!(
        store.artifacts.list_artifact_versions(&key, "a.txt", &ListVersionsConfig::default()).await.unwrap().len(),
        0
    );
    assert_eq!(store.artifacts.list_artifacts(&key).await.unwrap(), ["user:mine.txt"]);
    assert!(store.artifacts.load_artifact(&key, "user:mine.txt", None).await.unwrap().is_some());
    assert_eq!(save("a.txt").await, 0, "the first of whatever comes under that id");
}
