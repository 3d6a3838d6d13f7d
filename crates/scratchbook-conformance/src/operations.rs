//! Operations: the store applies them to the values it finds in the commit.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::support::{TestApp, assert_refused, assert_same, changing, delta, removal, seqs, state};
use scratchbook_core::error::{ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{ChangeQuery, CreateSessionConfig, Outcome, Session, SessionKey, SessionServiceExt};
use scratchbook_core::state::StateDelta;
use scratchbook_core::store::Store;

/// Returns an event with these operations.
fn doing(work: impl FnOnce(StateDelta) -> Result<StateDelta>) -> Event {
    Event::new("agent").with_state_delta(work(StateDelta::new()).expect("a delta"))
}

/// Appends an event that changes one key, and returns the key's new value.
async fn after(test: &TestApp, key: &SessionKey, event: Event) -> Option<Value> {
    let name = event.actions.state_delta.iter().next().map(|(name, _)| name.to_owned()).unwrap();
    test.append(key, event).await;
    test.get(key).await.state().get(&name).cloned()
}

/// Asserts that a session is unchanged, to the last event.
async fn assert_unchanged(test: &TestApp, before: &Session) {
    let now = test.get(before.key()).await;
    assert_eq!((state(&now), seqs(&now)), (state(before), seqs(before)), "something of a refused event was kept");
    assert_eq!(now.last_update_time(), before.last_update_time());
}

/// Increments of integers are exact over the ranges of i64 and u64; an absent key counts as 0.
pub async fn increments_of_integers_are_exact(store: &Store) {
    let test = TestApp::new(store);
    for (found, by, sum) in [
        (json!(null), json!(1), json!(1)),
        (json!(null), json!(-1), json!(-1)),
        (json!(null), json!(u64::MAX), json!(u64::MAX)),
        (json!(0), json!(0), json!(0)),
        (json!(9_007_199_254_740_993_i64), json!(2), json!(9_007_199_254_740_995_i64)),
        (json!(i64::MAX), json!(1), json!(i64::MAX as u64 + 1)),
        (json!(i64::MAX), json!(i64::MAX), json!(u64::MAX - 1)),
        (json!(u64::MAX), json!(-1), json!(u64::MAX - 1)),
        (json!(u64::MAX), json!(i64::MIN), json!(i64::MAX)),
        (json!(i64::MIN), json!(u64::MAX), json!(i64::MAX)),
        (json!(-1), json!(i64::MIN + 1), json!(i64::MIN)),
    ] {
        let initial = if found.is_null() { json!({}) } else { json!({"n": found}) };
        let session = test.create("alice", initial).await;
        let sum_now = after(&test, session.key(), doing(|delta| delta.with_increment("n", &by))).await;
        assert_same(sum_now.as_ref(), &sum, &format!("{found} + {by}"));
    }
}

/// The sum is a float if, and only if, the value or the operand is a float.
pub async fn a_float_makes_a_float(store: &Store) {
    let test = TestApp::new(store);
    for (found, by, sum) in [
        (json!(1), json!(0.5), json!(1.5)),
        (json!(0.1), json!(0.2), json!(0.1 + 0.2)),
        (json!(1.0), json!(1), json!(2.0)),
        (json!(1), json!(1.0), json!(2.0)),
        (json!(-0.0), json!(-0.0), json!(-0.0)),
        (json!(u64::MAX), json!(0.0), json!(u64::MAX as f64)),
        (json!(f64::MAX), json!(-f64::MAX), json!(0.0)),
    ] {
        let session = test.create("alice", json!({"n": found})).await;
        let sum_now = after(&test, session.key(), doing(|delta| delta.with_increment("n", &by))).await;
        assert_same(sum_now.as_ref(), &sum, &format!("{found} + {by}"));
    }
}

/// A sum that overflows 64 bits is `FailedPrecondition`, and its event is not stored.
pub async fn a_sum_that_does_not_fit_is_refused(store: &Store) {
    let test = TestApp::new(store);
    for (found, by) in [
        (json!(u64::MAX), json!(1)),
        (json!(i64::MIN), json!(-1)),
        (json!(i64::MAX), json!(u64::MAX)),
        (json!(f64::MAX), json!(f64::MAX)),
        (json!(-f64::MAX), json!(-f64::MAX)),
    ] {
        let session = test.create("alice", json!({"n": found})).await;
        let event = doing(|delta| delta.with("other", 1)?.with("user:other", 1)?.with_increment("n", &by));
        let error = assert_refused(
            test.try_append(session.key(), event).await,
            ErrorKind::FailedPrecondition,
            &format!("{found} + {by}"),
        );
        assert!(error.to_string().contains("'n'"), "{error}");
        assert_unchanged(&test, &session).await;
    }
    assert_eq!(test.user_state("alice").await, json!({}));
}

/// An append operation adds one value, which may be a list or a map, to the end of a list; an absent key counts as an
/// empty list.
pub async fn appends_end_a_list(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let mut expected = Vec::new();
    for item in [json!(1), json!(null), json!([2, [3]]), json!({"a": null}), json!("\u{0}")] {
        expected.push(item.clone());
        let list = after(&test, &key, doing(|delta| delta.with_append("list", &item))).await;
        assert_same(list.as_ref(), &json!(expected), "the list");
    }
}

/// A merge follows RFC 7386, whose examples are tested. A patch that is not a map replaces the value, and a map
/// replaces a value that is not a map.
pub async fn merges_follow_rfc_7386(store: &Store) {
    let test = TestApp::new(store);
    for (found, patch, merged) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        (json!("text"), json!({}), json!({})),
    ] {
        let session = test.create("alice", json!({"doc": found})).await;
        let merged_now = after(&test, session.key(), doing(|delta| delta.with_merge_patch("doc", &patch))).await;
        assert_same(merged_now.as_ref(), &merged, &format!("{found} merged with {patch}"));
    }
    let key = test.create("alice", json!({})).await.key().clone();
    let made = after(&test, &key, doing(|delta| delta.with_merge_patch("doc", json!({"a": {"b": null}})))).await;
    assert_same(made.as_ref(), &json!({"a": {}}), "a merge with an absent key");
}

/// `set_if_absent` sets a key that was never written or has been removed. A key with `null` is not absent.
pub async fn set_if_absent_leaves_what_is_there(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"there": 1, "null": null, "gone": 1})).await.key().clone();
    test.append(&key, Event::new("agent").with_state_delta(removal(&["gone"]))).await;
    let event = doing(|mut delta| {
        for key in ["there", "null", "gone", "new", "user:new", "app:new"] {
            delta.set_if_absent(key, "set")?;
        }
        Ok(delta)
    });
    let committed = test.append(&key, event.clone()).await;
    let expected = json!({"gone": "set", "new": "set", "user:new": "set", "app:new": "set"});
    assert_eq!(committed.event.actions.state_delta, delta(expected), "what is not set is no change");
    let again = test.append(&key, event).await;
    assert!(again.event.actions.state_delta.is_empty(), "{again:?}");
    assert_eq!(test.get(&key).await.state().get("there"), Some(&json!(1)));
}

/// A guard that holds lets the commit pass and is not a change; a failed guard refuses the whole commit with
/// `Conflict`.
pub async fn guards_refuse_the_whole_commit(store: &Store) {
    let test = TestApp::new(store);
    let initial = json!({"s": "open", "m": {"a": 1, "b": [2.0]}, "null": null, "user:n": 1, "app:n": 1});
    let session = test.create("alice", initial).await;
    let holds = doing(|delta| {
        let delta = delta.with_expect("s", "open")?.with_expect("m", json!({"b": [2.0], "a": 1}))?;
        let delta = delta.with_expect("null", ())?.with_expect("user:n", 1)?.with_expect("app:n", 1)?;
        delta.with_expect_absent("none")?.with_expect_absent("user:none")?.with_expect_absent("app:none")
    });
    let committed = test.append(session.key(), holds).await;
    assert!(committed.event.actions.state_delta.is_empty(), "guards are no changes: {committed:?}");
    let before = test.get(session.key()).await;
    type GuardCase = (&'static str, Option<Value>);
    let fails: [GuardCase; 10] = [
        ("s", Some(json!("shut"))),
        ("s", None),
        ("m", Some(json!({"a": 1}))),
        ("m", Some(json!({"a": 1.0, "b": [2.0]}))),
        ("null", None),
        ("none", Some(json!(null))),
        ("user:n", Some(json!(2))),
        ("user:n", Some(json!(1.0))),
        ("app:n", None),
        ("app:none", Some(json!(0))),
    ];
    for (key, expected) in fails {
        let event = doing(|delta| {
            let delta = delta.with("x", 1)?.with("user:x", 1)?.with("app:x", 1)?;
            match &expected {
                Some(value) => delta.with_expect(key, value),
                None => delta.with_expect_absent(key),
            }
        });
        let what = format!("'{key}' expected to be {expected:?}");
        let error = assert_refused(test.try_append(session.key(), event).await, ErrorKind::Conflict, &what);
        assert!(error.is_retryable() && error.to_string().contains(&format!("'{key}'")), "{error}");
        let [conflict] = error.conflicts() else {
            panic!("{what}: one key is in the way, not {:?}", error.conflicts())
        };
        assert_eq!((conflict.key.as_str(), &conflict.read), (key, &expected));
        assert_eq!(conflict.found.as_ref(), before.state().get(key));
    }
    assert_unchanged(&test, &before).await;
}

/// Every failed guard is reported.
pub async fn every_failed_guard_is_named(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1, "user:b": 2, "app:c": 3})).await;
    let event = doing(|delta| delta.with_expect("app:c", 0)?.with_expect("a", 0)?.with_expect("user:b", 2));
    let error = test.try_append(session.key(), event).await.unwrap_err();
    let mut keys: Vec<_> = error.conflicts().iter().map(|conflict| conflict.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "app:c"]);
}

/// Operations on one key are applied in order, also after a set or a removal in the same delta.
pub async fn operations_follow_one_another(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({"n": 40, "gone": 7, "list": [0]})).await.key().clone();
    let event = doing(|mut delta| {
        delta.expect("n", 40)?;
        delta.increment("n", 1)?;
        delta.expect("n", 41)?;
        delta.increment("n", 1)?;
        delta.increment("gone", 1)?;
        delta.remove("gone")?;
        delta.increment("gone", 1)?;
        delta.append("list", 1)?;
        delta.append("list", 2)?;
        delta.set("set", 1)?;
        delta.increment("set", 1)?;
        delta.expect_absent("made")?;
        delta.set("made", json!({"a": 1}))?;
        delta.merge_patch("made", json!({"b": 2}))?;
        delta.set_if_absent("made", "not this")?;
        Ok(delta)
    });
    test.append(&key, event).await;
    let expected = json!({"n": 42, "gone": 1, "list": [0, 1, 2], "set": 2, "made": {"a": 1, "b": 2}});
    let now = test.get(&key).await;
    for (name, value) in expected.as_object().unwrap() {
        assert_same(now.state().get(name), value, name);
    }
    // A guard stays when the delta later changes its key.
    let event = doing(|delta| delta.with_expect("n", 1)?.with("n", 2));
    assert_refused(test.try_append(&key, event).await, ErrorKind::Conflict, "a guard before a set");
    let event = doing(|delta| delta.with_increment("list", 1)?.with("list", 2));
    assert_refused(test.try_append(&key, event).await, ErrorKind::FailedPrecondition, "an increment before a set");
    assert_unchanged(&test, &now).await;
}

/// Committed, returned, read and logged events contain only values and removals: replaying them needs no operations.
pub async fn stored_events_hold_values_alone(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"n": 1, "user:n": 10, "app:list": ["a"]})).await;
    let event = doing(|delta| {
        let delta = delta.with("plain", true)?.with_increment("app:new", 5)?.with_increment("n", 1)?;
        delta.with_increment("user:n", 1)?.with_append("app:list", "b")?.with_expect("n", 2)
    });
    let committed = test.append(session.key(), event.with_id("e").with_timestamp(5.0)).await;
    let expected = json!({"plain": true, "app:new": 5, "n": 2, "user:n": 11, "app:list": ["a", "b"]});
    assert_eq!(json!(committed.event.actions.state_delta).to_string(), expected.to_string(), "in the order written");
    let read = test.get(session.key()).await;
    assert_eq!(read.events().last(), Some(&committed.event));
    assert_eq!(state(&read), expected);
    let log = test.sessions().list_state_changes(&test.user("alice"), &ChangeQuery::After(0), 10).await.unwrap();
    let last = log.last().unwrap();
    assert_eq!((last.version, &last.value, last.event_id.as_str()), (2, &Some(json!(11)), "e"));
    let folded = scratchbook_core::state::fold(
        json!({"n": 1, "user:n": 10, "app:list": ["a"]}).as_object().unwrap().clone(),
        read.events().iter().map(|event| &event.actions.state_delta),
    );
    assert_eq!(json!(folded), expected);
}

/// Operations are applied to the committed values, not to the values that the writer has read.
pub async fn operations_see_what_others_committed(store: &Store) {
    let test = TestApp::new(store);
    let mut stale = test.create("alice", json!({"n": 1})).await;
    test.set(stale.key(), json!({"n": 10, "user:n": 20})).await;
    test.sessions().put_state(&test.app(), delta(json!({"n": 30})), "admin".into()).await.unwrap();
    let event = doing(|delta| {
        delta
            .with_increment("n", 1)?
            .with_increment("user:n", 1)?
            .with_increment("app:n", 1)?
            .with_increment("temp:n", 1)
    });
    let event = test.sessions().append_event(&mut stale, event).await.unwrap();
    let expected = json!({"n": 11, "user:n": 21, "app:n": 31});
    assert_eq!(json!(event.actions.state_delta), expected);
    assert_eq!(state(&stale), json!({"n": 11, "user:n": 21, "app:n": 31, "temp:n": 1}), "the copy shows the same");
    assert_eq!(state(&test.get(stale.key()).await), expected);
}

/// An operation that does not fit the value found is `FailedPrecondition`; the message has the key and the kind, never
/// the value.
pub async fn operations_on_other_kinds_are_refused(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"text": "s3cret", "null": null, "map": {"s3cret": 1}, "n": 5})).await;
    for (key, kind) in [("text", "string"), ("null", "null"), ("map", "object")] {
        let events =
            [doing(|delta| delta.with("x", 1)?.with_increment(key, 1)), doing(|delta| delta.with_append(key, 1))];
        for event in events {
            let result = test.try_append(session.key(), event).await;
            let error = assert_refused(result, ErrorKind::FailedPrecondition, &format!("an operation on '{key}'"));
            let text = format!("{error} {error:?}");
            assert!(text.contains(&format!("'{key}'")) && text.contains(kind) && !text.contains("s3cret"), "{text}");
        }
    }
    let result = test.try_append(session.key(), doing(|delta| delta.with_append("n", 1))).await;
    assert_refused(result, ErrorKind::FailedPrecondition, "an append to a number");
    // A failed guard takes precedence: the state differs from what the writer expects.
    let both = doing(|delta| delta.with_increment("text", 1)?.with_expect("n", 6));
    assert_refused(test.try_append(session.key(), both).await, ErrorKind::Conflict, "a guard beside it");
    assert_unchanged(&test, &session).await;
}

/// A retried event with operations is answered as stored, and its operations are not applied again. The retry is
/// compared with what was sent: an event with other operations, or with the resulting values, is a different event.
pub async fn operations_count_once_on_a_retry(store: &Store) {
    let test = TestApp::new(store);
    let key = test.create("alice", json!({})).await.key().clone();
    let sent = |by: u64| {
        let event = doing(|delta| {
            let delta = delta.with_increment("n", by)?.with_append("list", "x")?.with_increment("user:n", by)?;
            delta.with_expect_absent("app:closed")
        });
        event.with_id("e").with_timestamp(5.0)
    };
    let first = test.append(&key, sent(1)).await;
    // The guard would fail now.
    test.set(&key, json!({"app:closed": true})).await;
    let again = test.append(&key, sent(1)).await;
    assert_eq!((again.outcome, &again.event), (Outcome::Replayed, &first.event));
    let expected = json!({"n": 1, "list": ["x"], "user:n": 1, "app:closed": true});
    assert_eq!(state(&test.get(&key).await), expected);
    let resolved = changing(json!({"n": 1, "list": ["x"], "user:n": 1})).with_id("e").with_timestamp(5.0);
    let mut unguarded = sent(1);
    unguarded.actions.state_delta = StateDelta::new().with_increment("n", 1).unwrap().with_append("list", "x").unwrap();
    for other in [sent(2), resolved, unguarded, changing(json!({})).with_id("e").with_timestamp(5.0)] {
        assert_refused(test.try_append(&key, other).await, ErrorKind::AlreadyExists, "another event of the id");
    }
    assert_eq!(state(&test.get(&key).await), expected);
}

/// `put_state` applies operations, and logs their results; a failed guard refuses the whole call.
pub async fn put_state_carries_operations_out(store: &Store) {
    let test = TestApp::new(store);
    for owner in [test.user("alice"), test.app()] {
        let put = |delta: StateDelta| test.sessions().put_state(&owner, delta, "admin".into());
        put(delta(json!({"n": 1, "open": true}))).await.unwrap();
        let delta = StateDelta::new().with_expect("open", true).unwrap().with_increment("n", 2).unwrap();
        let position = put(delta.with_append("list", 1).unwrap().with("plain", 0).unwrap()).await.unwrap();
        let expected = json!({"n": 3, "open": true, "list": [1], "plain": 0});
        assert_eq!(Value::from(test.sessions().get_state(&owner).await.unwrap()), expected);
        let log = test.sessions().list_state_changes(&owner, &ChangeQuery::After(position - 1), 10).await.unwrap();
        let log: Vec<_> = log.into_iter().map(|change| (change.name, change.version, change.value)).collect();
        let logged = [("list", 1, json!([1])), ("n", 2, json!(3)), ("plain", 1, json!(0))];
        assert_eq!(log, logged.map(|(name, version, value)| (name.to_owned(), version, Some(value))));

        let guarded = StateDelta::new().with_expect("open", false).unwrap().with("n", 0).unwrap();
        let error = assert_refused(put(guarded).await, ErrorKind::Conflict, "a guard");
        assert_eq!(error.conflicts()[0].writer.as_ref().map(|writer| writer.author.as_str()), Some("admin"), "{error}");
        let unfit = StateDelta::new().with_increment("open", 1).unwrap().with("n", 0).unwrap();
        assert_refused(put(unfit).await, ErrorKind::FailedPrecondition, "an increment of a boolean");
        assert_eq!(Value::from(test.sessions().get_state(&owner).await.unwrap()), expected);
    }
}

/// The operations of initial events are applied one event after the other; if one is refused, nothing is created.
pub async fn operations_at_creation_are_carried_out_in_order(store: &Store) {
    let test = TestApp::new(store);
    test.sessions().put_state(&test.user("alice"), delta(json!({"n": 10})), "admin".into()).await.unwrap();
    let event = |id: &str| {
        let event = doing(|delta| {
            delta
                .with_increment("n", 1)?
                .with_increment("user:n", 1)?
                .with_append("app:list", id)?
                .with_append("list", 1)
        });
        event.with_id(id).with_timestamp(5.0)
    };
    let config =
        |events| CreateSessionConfig::default().with_state(json!({"n": 5, "app:list": ["a"]})).with_events(events);
    // A duplicate event is a retry.
    let session = test.create_as("alice", config(vec![event("1"), event("1"), event("2")])).await;
    let expected = json!({"n": 7, "list": [1, 1], "user:n": 12, "app:list": ["a", "1", "2"]});
    assert_eq!(state(&session), expected);
    assert_eq!(seqs(&session), [1, 2]);
    assert_eq!(json!(session.events().get(1).unwrap().actions.state_delta), expected, "each holds values");
    let again = test.append(session.key(), event("2")).await;
    assert_eq!(again.outcome, Outcome::Replayed);

    for (last, kind) in [
        (doing(|delta| delta.with_expect("n", 5)), ErrorKind::Conflict),
        (doing(|delta| delta.with_expect("user:n", 12)), ErrorKind::Conflict),
        (doing(|delta| delta.with_increment("app:list", 1)), ErrorKind::FailedPrecondition),
    ] {
        let config = config(vec![event("1"), last]).with_session_id("refused");
        assert_refused(test.try_create("alice", config).await, kind, "a creation");
    }
    assert_eq!(test.list(None).await.len(), 1);
    assert_eq!(test.user_state("alice").await, json!({"n": 12}));
    assert_eq!(test.app_state().await, json!({"list": ["a", "1", "2"]}));
}

/// Operations on `temp:` keys are applied to the caller's snapshot, and no store keeps anything of them.
pub async fn temp_operations_live_in_the_copy_alone(store: &Store) {
    let test = TestApp::new(store);
    let mut session = test.create("alice", json!({"n": 1})).await;
    for n in 1..=2 {
        let event = doing(|delta| delta.with_increment("temp:n", 1)?.with_increment("n", 1));
        let event = test.sessions().append_event(&mut session, event).await.unwrap();
        assert!(!event.actions.state_delta.contains("temp:n"));
        assert_eq!(session.state().get("temp:n"), Some(&json!(n)));
    }
    let guard = |value: i32| doing(|delta| delta.with_expect("temp:n", value)?.with("n", 0));
    let error = test.sessions().append_event(&mut session, guard(7)).await;
    assert_refused(error, ErrorKind::Conflict, "a guard on a temp: key of the copy");
    assert_eq!(state(&test.get(session.key()).await), json!({"n": 3}));
    let same = test.append(session.key(), changing(json!({"n": 5})).with_id("e")).await;
    let temp = doing(|delta| delta.with("n", 5)?.with_increment("temp:n", 1)).with_id("e");
    assert_eq!(test.append(session.key(), temp).await.event, same.event, "temp: keys make no difference");
}

/// An invalid operand is `InvalidArgument` before any store is involved, and an operation has no JSON form.
pub async fn bad_operands_are_refused(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({})).await;
    let mut deep = json!(0);
    (0..scratchbook_core::json::MAX_DEPTH).for_each(|_| deep = json!([deep]));
    let mut delta = StateDelta::new();
    for refused in [
        delta.increment("n", "1"),
        delta.increment("n", ()),
        delta.increment("n", f64::NAN),
        delta.increment("n", u128::MAX),
        delta.append("n", f64::INFINITY),
        delta.append("n", &deep),
        delta.set_if_absent("n", scratchbook_core::state::REMOVED),
        delta.merge_patch("n", scratchbook_core::state::REMOVED),
        delta.increment("k".repeat(1025), 1),
        delta.expect_absent("a\0b"),
    ] {
        assert_refused(refused, ErrorKind::InvalidArgument, "a bad operand");
    }
    assert!(delta.is_empty());
    delta.append("n", &deep[0]).unwrap();
    assert!(serde_json::to_string(&delta).is_err(), "operations have no form in JSON");
    let committed = test.append(session.key(), Event::new("agent").with_state_delta(delta)).await;
    assert_same(
        committed.event.actions.state_delta.get("n").and_then(scratchbook_core::state::Change::value),
        &deep,
        "as deep as may be",
    );
}

/// Concurrent increments and appends of many writers all count, in every scope.
pub async fn operations_of_many_writers_all_count(store: &Store) {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 25;
    let test = TestApp::new(store);
    let shared = test.create("alice", json!({})).await.key().clone();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (test, shared) = (test.clone(), shared.clone());
        writers.spawn(async move {
            let own = test.create("alice", json!({})).await.key().clone();
            for round in 0..ROUNDS {
                let key = if round % 2 == 0 { &shared } else { &own };
                let event = doing(|delta| {
                    let delta =
                        delta.with_increment("app:n", 1)?.with_increment("user:n", 1)?.with_increment("n", 1)?;
                    delta.with_append("user:list", json!([writer, round]))
                });
                test.append(key, event).await;
                let delta = StateDelta::new().with_increment("n", 1).unwrap();
                test.sessions().put_state(&test.user("alice"), delta, "writer".into()).await.unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("a writer failed");
    }
    let state = test.get(&shared).await.state().to_map();
    let all = WRITERS * ROUNDS;
    assert_eq!((&state["app:n"], &state["user:n"]), (&json!(all), &json!(2 * all)));
    assert_eq!(state["n"], json!(WRITERS * ROUNDS.div_ceil(2)), "the session's own key");
    let mut list: Vec<_> = state["user:list"].as_array().unwrap().iter().map(Value::to_string).collect();
    list.sort();
    list.dedup();
    assert_eq!(list.len(), all);
}
