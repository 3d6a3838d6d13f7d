//! Checks of a write's results, made in its commit.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::support::{TestApp, assert_refused, changing, delta, removal, seqs, state};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, ChangeQuery, CheckedWrite, Committed, CreateSessionConfig, Outcome, PutStateOptions, Session,
    SessionKey, StateCheck,
};
use scratchbook_core::state::{Scope, StateDelta};
use scratchbook_core::store::Store;

/// A check built from functions.
struct Rule {
    whole: fn(Scope, &str) -> bool,
    accepts: fn(&CheckedWrite<'_>) -> bool,
}

impl Rule {
    /// Returns a check that only needs the changed keys.
    fn of_keys(accepts: fn(&CheckedWrite<'_>) -> bool) -> Arc<dyn StateCheck> {
        Arc::new(Self { whole: |_, _| false, accepts })
    }

    /// Returns a check that needs all keys of the user.
    fn of_user(accepts: fn(&CheckedWrite<'_>) -> bool) -> Arc<dyn StateCheck> {
        Arc::new(Self { whole: |scope, _| scope == Scope::User, accepts })
    }

    /// Returns a check that needs all keys of every scope.
    fn of_all(accepts: fn(&CheckedWrite<'_>) -> bool) -> Arc<dyn StateCheck> {
        Arc::new(Self { whole: |_, _| true, accepts })
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rule")
    }
}

impl StateCheck for Rule {
    fn needs_scope(&self, scope: Scope, name: &str) -> bool {
        (self.whole)(scope, name)
    }

    fn check(&self, write: &CheckedWrite<'_>) -> Result<()> {
        match (self.accepts)(write) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidArgument, "refused by the rule")),
        }
    }
}

/// Returns whether every number is at most nine.
fn small(write: &CheckedWrite<'_>) -> bool {
    write.changes().all(|(_, _, value)| value.and_then(Value::as_u64).is_none_or(|n| n <= 9))
}

async fn append(test: &TestApp, key: &SessionKey, event: Event, check: Arc<dyn StateCheck>) -> Result<Committed> {
    test.sessions().append(key, event, AppendOptions::default().with_check(check)).await
}

fn adding(key: &str, by: u64) -> Event {
    Event::new("agent").with_state_delta(StateDelta::new().with_increment(key, by).unwrap())
}

#[track_caller]
fn assert_by_rule<T: fmt::Debug>(result: Result<T>) {
    let error = assert_refused(result, ErrorKind::InvalidArgument, "what the rule does not accept");
    assert!(error.to_string().contains("refused by the rule"), "{error}");
}

async fn assert_unchanged(test: &TestApp, before: &Session) {
    let now = test.get(before.key()).await;
    assert_eq!((state(&now), seqs(&now)), (state(before), seqs(before)), "something of a refused write was kept");
}

/// The results of operations are checked, and a refused write changes nothing.
pub async fn outcomes_of_operations_are_checked(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"n": 8, "user:n": 8})).await;
    for key in ["n", "user:n", "app:n"] {
        append(&test, session.key(), adding(key, 1), Rule::of_keys(small)).await.expect("nine");
        let before = test.get(session.key()).await;
        assert_by_rule(append(&test, session.key(), adding(key, 9), Rule::of_keys(small)).await);
        assert_unchanged(&test, &before).await;
    }
}

/// A check that needs a scope sees all keys of the scope, before and after the write, and no keys of other scopes.
pub async fn a_scope_is_shown_whole(store: &Store) {
    let test = TestApp::new(store);
    test.create("bob", json!({"user:theirs": 1, "own": "bob's"})).await;
    test.create("alice", json!({"other_session": 1})).await;
    let session = test.create("alice", json!({"own": 1, "user:a": 1, "user:b": 2, "user:gone": 3, "app:c": 4})).await;
    test.append(session.key(), Event::new("agent").with_state_delta(removal(&["user:gone"]))).await;
    let rule = Rule::of_all(|write| {
        write.before(Scope::Session) == json!({"own": 1}).as_object().cloned()
            && write.before(Scope::User) == json!({"a": 1, "b": 2}).as_object().cloned()
            && write.after(Scope::User) == json!({"a": 5, "new": {"x": null}}).as_object().cloned()
            && write.after(Scope::App) == json!({"c": 5}).as_object().cloned()
    });
    let mut delta = delta(json!({"user:a": 5, "user:new": {"x": null}, "own": 2}));
    delta.remove("user:b").unwrap();
    let delta = delta.with_increment("app:c", 1).unwrap();
    let event = Event::new("agent").with_state_delta(delta.clone());
    append(&test, session.key(), event, rule.clone()).await.expect("the keys that are there");
    assert_by_rule(append(&test, session.key(), Event::new("agent").with_state_delta(delta), rule).await);
}

/// A check sees no scope that the write does not touch. An event that touches no scope is not checked.
pub async fn other_scopes_are_not_checked(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"user:a": 1})).await;
    let never = Rule::of_user(|write| write.before(Scope::User).is_none());
    append(&test, session.key(), adding("n", 1), never.clone()).await.expect("a session's key");
    append(&test, session.key(), Event::new("agent").with_content("hello"), never.clone()).await.expect("no key");
    assert_by_rule(append(&test, session.key(), changing(json!({"user:a": 2})), never).await);
}

/// A retry of a stored event is answered without the check.
pub async fn a_retry_is_not_checked_again(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let event = || adding("user:n", 1).with_id("e").with_timestamp(1.0);
    append(&test, session.key(), event(), Rule::of_user(|_| true)).await.expect("the first");
    let again = append(&test, session.key(), event(), Rule::of_user(|_| false)).await.expect("the retry");
    assert_eq!((again.outcome, again.event.seq), (Outcome::Replayed, Some(1)));
    assert_eq!(test.user_state("alice").await, json!({"n": 1}));
}

/// A creation is checked write by write: the initial state, then each of its events.
pub async fn creations_are_checked(store: &Store) {
    let test = TestApp::new(store);
    test.create("alice", json!({"user:n": 5})).await;
    let few = |write: &CheckedWrite<'_>| {
        [Scope::Session, Scope::User].into_iter().all(|scope| write.after(scope).is_none_or(|after| after.len() <= 2))
    };
    let config = |state, events| {
        let config = CreateSessionConfig::default().with_session_id("s").with_state(state).with_events(events);
        config.with_check(Rule::of_all(few)).with_check(Rule::of_keys(small))
    };
    let refused = [
        config(json!({"a": 1, "b": 1, "c": 1}), vec![]),
        config(json!({"user:a": 1, "user:b": 1}), vec![]),
        config(json!({"a": 1}), vec![changing(json!({"b": 1})), changing(json!({"c": 1}))]),
        config(json!({"user:a": 1}), vec![changing(json!({"user:b": 1}))]),
        config(json!({"a": 1}), vec![adding("user:n", 4), adding("user:n", 1)]),
    ];
    for (n, config) in refused.into_iter().enumerate() {
        let error = assert_refused(test.try_create("alice", config).await, ErrorKind::InvalidArgument, "a creation");
        assert!(error.to_string().contains("refused by the rule"), "number {n}: {error}");
        assert_eq!(test.list(None).await.len(), 1, "number {n}");
        assert_eq!(test.user_state("alice").await, json!({"n": 5}), "number {n}");
    }
    let mut swap = removal(&["a"]);
    swap.set("b", 1).unwrap();
    let events = vec![adding("user:n", 4), Event::new("agent").with_state_delta(swap), changing(json!({"c": 1}))];
    let made = test.create_as("alice", config(json!({"a": 1, "user:m": 1}), events)).await;
    assert_eq!(state(&made), json!({"b": 1, "c": 1, "user:m": 1, "user:n": 9}));
}

/// A change of a user's or an app's state outside of any session is checked.
pub async fn put_state_is_checked(store: &Store) {
    let test = TestApp::new(store);
    let put = |owner, delta, check| {
        let options = PutStateOptions::by("me").with_check(check);
        let test = test.clone();
        async move { test.sessions().put_state(&owner, delta, options).await }
    };
    let few = || {
        Rule::of_all(|write| [Scope::User, Scope::App].iter().any(|s| write.after(*s).is_some_and(|a| a.len() <= 2)))
    };
    for owner in [test.user("alice"), test.app()] {
        put(owner.clone(), delta(json!({"a": 1, "b": 1})), few()).await.expect("two keys");
        assert_by_rule(put(owner.clone(), delta(json!({"c": 1})), few()).await);
        let by = |n: u64| StateDelta::new().with_increment("a", n).unwrap();
        put(owner.clone(), by(8), Rule::of_keys(small)).await.expect("nine");
        assert_by_rule(put(owner.clone(), by(1), Rule::of_keys(small)).await);
        let state = test.sessions().get_state(&owner).await.expect("get_state");
        assert_eq!(Value::from(state), json!({"a": 9, "b": 1}));
        assert_eq!(
            test.sessions().list_state_changes(&owner, &ChangeQuery::After(0), 100).await.expect("the log").len(),
            3
        );
    }
}

/// A conflict is reported before a check runs.
pub async fn a_conflict_comes_before_a_check(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"user:n": 1})).await;
    test.set(session.key(), json!({"user:n": 2})).await;
    let options = AppendOptions::by_key(session.seen().clone()).with_check(Rule::of_user(|_| false));
    let late = test.sessions().append(session.key(), changing(json!({"user:n": 3})), options.clone()).await;
    assert_refused(late, ErrorKind::Conflict, "a late append");
    assert_by_rule(test.sessions().append(session.key(), changing(json!({"user:m": 3})), options).await);
}

/// With many concurrent writers, each write is checked against the results of all earlier ones.
pub async fn racing_writes_are_checked_one_after_the_other(store: &Store) {
    let test = TestApp::new(store);
    let mut appends = JoinSet::new();
    for n in 0..12 {
        let (test, key) = (test.clone(), test.create("alice", json!({})).await.key().clone());
        appends.spawn(async move {
            let rule = Rule::of_user(|write| write.after(Scope::User).is_some_and(|after| after.len() <= 5));
            let appended = append(&test, &key, changing(json!({&format!("user:k{n}"): n})), rule).await;
            if appended.is_err() {
                assert_by_rule(appended);
                return 0;
            }
            1
        });
    }
    assert_eq!(appends.join_all().await.into_iter().sum::<u64>(), 5);
    assert_eq!(test.user_state("alice").await.as_object().map_or(0, |state| state.len()), 5);
}
