//! Values come back exactly as they were sent.

use serde_json::{Value, json};

use super::support::{TestApp, assert_refused, assert_same, changing, delta, removal, state, unnumbered};
use scratchbook_core::error::ErrorKind;
use scratchbook_core::event::Event;
use scratchbook_core::json::MAX_DEPTH;
use scratchbook_core::session::{ChangeQuery, CreateSessionConfig, GetSessionConfig};
use scratchbook_core::state::{REMOVED, StateDelta};
use scratchbook_core::store::Store;

/// Sends a value in every possible way, in every scope, and asserts that it comes back unchanged.
async fn comes_back(store: &Store, value: &Value) {
    let test = TestApp::new(store);
    let sent = json!({"v": value, "user:v": value, "app:v": value});
    let created = test.create("alice", sent.clone()).await;
    let session = test.create("bob", json!({})).await;
    let committed = test.set(session.key(), sent).await;

    let written = test.get(session.key()).await;
    let again = test.get(created.key()).await;
    let part = test.read(created.key(), GetSessionConfig::default().with_state_keys(["v", "user:v", "app:v"])).await;
    let listed = test.list(Some("alice")).await.remove(0);
    for key in ["v", "user:v", "app:v"] {
        assert_same(created.state().get(key), value, &format!("'{key}' as created"));
        assert_same(again.state().get(key), value, &format!("'{key}' created, as read"));
        assert_same(part.state().get(key), value, &format!("'{key}' created, as read alone"));
        assert_same(listed.state().get(key), value, &format!("'{key}' created, as listed"));
        assert_same(written.state().get(key), value, &format!("'{key}' of an event"));
        let given = committed.event.actions.state_delta.get(key).and_then(scratchbook_core::state::Change::value);
        assert_same(given, value, &format!("'{key}' in the event given back"));
        let stored = written.events().last().unwrap();
        let kept = stored.actions.state_delta.get(key).and_then(scratchbook_core::state::Change::value);
        assert_same(kept, value, &format!("'{key}' in the stored event"));
    }
}

/// The keys of a state are sorted by name within each scope, in whatever order they were set. An event's delta keeps
/// its own order.
pub async fn keys_of_a_state_come_by_name_and_those_of_a_delta_as_they_were_set(store: &Store) {
    let test = TestApp::new(store);
    let created = test.create("alice", json!({"z": 1, "app:n": 1, "m": 1, "user:b": 1})).await;
    test.set(created.key(), json!({"user:a": 2, "z": 2, "b": 2, "app:c": 2})).await;
    let read = test.get(created.key()).await;
    let names: Vec<_> = read.state().iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b", "m", "z", "user:a", "user:b", "app:c", "app:n"]);
    let event = read.events().last().expect("the event");
    let set: Vec<_> = event.actions.state_delta.iter().map(|(name, _)| name).collect();
    assert_eq!(set, ["user:a", "z", "b", "app:c"]);
}

/// Values that `put_state` writes come back like the values of events: from the log and the state of a user and an
/// app.
pub async fn put_values_come_back(store: &Store) {
    let test = TestApp::new(store);
    for (n, value) in
        [json!([null, -0.0, 1.0, 1, u64::MAX, i64::MIN, 5e-324]), json!({"z": {"\0": "\u{1f4da}"}, "a": 0})]
            .into_iter()
            .enumerate()
    {
        let put = delta(json!({ "v": value }));
        for owner in [test.user("carol"), test.app()] {
            test.sessions().put_state(&owner, put.clone(), "test".into()).await.expect("put_state");
            let log = test.sessions().list_state_changes(&owner, &ChangeQuery::After(0), 10).await.unwrap();
            assert_same(log[n].value.as_ref(), &value, "in the log");
        }
        assert_same(test.user_state("carol").await.get("v"), &value, "the user's");
        assert_same(test.app_state().await.get("v"), &value, "the app's");
    }
}

/// Every JSON value comes back as it was sent: objects, lists, strings, numbers, booleans, null.
pub async fn every_json_value_comes_back(store: &Store) {
    let all = json!([null, true, false, 0, -1, 1.5, "", "text", [], {}, [[]], [null], {"a": null}, {"": {"": []}}]);
    comes_back(store, &all).await;
    for value in all.as_array().unwrap() {
        comes_back(store, value).await;
    }
}

/// Integers from the least `i64` to the largest `u64` come back exactly.
pub async fn integers_come_back_exactly(store: &Store) {
    let edges = json!([
        0,
        i64::MIN,
        i64::MIN + 1,
        i64::MAX,
        i64::MAX as u64 + 1,
        u64::MAX,
        u64::MAX - 1,
        9_007_199_254_740_993_u64,
        -9_007_199_254_740_993_i64,
        i32::MIN,
        u32::MAX
    ]);
    comes_back(store, &edges).await;
    comes_back(store, &json!(u64::MAX)).await;
    comes_back(store, &json!(i64::MIN)).await;
}

/// Floats come back bit for bit, the sign of zero included.
pub async fn floats_come_back_bit_for_bit(store: &Store) {
    let floats = [
        0.0,
        -0.0,
        0.1,
        0.1 + 0.2,
        1.0 / 3.0,
        1299.98,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        f64::EPSILON,
        1e21,
        1e-7,
        123_456_789.123_456_79,
        1_795_194_011.317_562_8,
    ];
    comes_back(store, &json!(floats)).await;
    comes_back(store, &json!(-0.0)).await;
    let test = TestApp::new(store);
    let session = test.create("alice", json!({ "floats": floats })).await;
    let read = test.get(session.key()).await;
    let bits = |list: &[f64]| list.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&read.state().get_as::<Vec<f64>>("floats").unwrap().unwrap()), bits(&floats));
}

/// A whole float stays a float, and an integer stays an integer.
pub async fn floats_stay_floats(store: &Store) {
    comes_back(store, &json!([1.0, 1, -1.0, 100.0, 1e15, 1e16, 1e17, 1e300, 0.0, 0])).await;
    comes_back(store, &json!(1.0)).await;
    comes_back(store, &json!(1)).await;
}

/// Strings are kept exactly, whatever they contain, including U+0000.
pub async fn strings_are_kept_exactly(store: &Store) {
    for text in [
        "\0",
        "before\0after",
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
        "c\u{e9} ce\u{301}",
        "\"quotes\" 'and' `ticks` \\ \\u0000 %s {} $1 --",
        "\u{1}\u{7f}\u{85}\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}\u{10ffff}",
        "line\r\nline\n\ttab",
        "  spaces  ",
        "123",
        "null",
    ] {
        comes_back(store, &json!(text)).await;
        comes_back(store, &json!({ text: [text] })).await;
    }
}

/// A string of a megabyte is kept exactly.
pub async fn large_strings_are_kept_exactly(store: &Store) {
    let pattern: String = ('\0'..'\u{250}').chain(['\u{1f4da}']).collect();
    comes_back(store, &json!(pattern.repeat(1 + 1_000_000 / pattern.len()))).await;
}

/// The keys of an object inside a value keep their order.
pub async fn objects_keep_the_order_of_their_keys(store: &Store) {
    comes_back(store, &json!({"z": 1, "a": 2, "m": {"9": 1, "10": 2, "1": 3}, "B": 4, "": 5})).await;
}

/// A value may be nested 100 levels deep; deeper ones are `InvalidArgument`.
pub async fn values_are_nested_at_most_100_levels_deep(store: &Store) {
    let nested = |levels: usize| {
        (0..levels).fold(json!(1), |value, level| match level % 2 {
            0 => json!([value]),
            _ => json!({ "k": value }),
        })
    };
    comes_back(store, &nested(MAX_DEPTH)).await;
    let test = TestApp::new(store);
    let config = CreateSessionConfig::default().with_state(json!({"deep": nested(MAX_DEPTH + 1)}));
    assert_refused(test.try_create("alice", config).await, ErrorKind::InvalidArgument, "a value of 101 levels");
}

/// A delta may change thousands of keys at once.
pub async fn a_delta_may_have_thousands_of_keys(store: &Store) {
    let test = TestApp::new(store);
    let sent: Value = (0..3000)
        .map(|n| {
            let prefix = ["", "user:", "app:"][n % 3];
            (format!("{prefix}key {n}"), json!(n))
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let session = test.create("alice", json!({})).await;
    test.set(session.key(), sent.clone()).await;
    assert_eq!(state(&test.get(session.key()).await), sent);
    assert_eq!(state(&TestApp::new(store).create("alice", sent.clone()).await), sent);
}

/// `null` is a value like any other: stored, readable, present. It deletes nothing.
pub async fn null_is_a_value(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1, "user:a": 1, "app:a": 1, "b": null})).await;
    test.set(session.key(), json!({"a": null, "user:a": null, "app:a": null})).await;
    let read = test.get(session.key()).await;
    for key in ["a", "user:a", "app:a", "b"] {
        assert!(read.state().contains(key), "'{key}' is there");
        assert_eq!(read.state().get(key), Some(&Value::Null), "'{key}'");
    }
    assert_eq!(test.user_state("alice").await, json!({"a": null}));
}

/// After a removal the key is absent, in every scope, and can be set again; removing a missing key does nothing.
pub async fn a_removed_key_is_gone(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1, "user:a": 1, "app:a": 1, "kept": 1})).await;
    let keys = ["a", "user:a", "app:a", "never", "user:never", "app:never"];
    let event = Event::new("agent").with_state_delta(removal(&keys));
    let committed = test.append(session.key(), event).await;
    assert_eq!(committed.event.actions.state_delta, removal(&keys), "the event says what was removed");
    let read = test.get(session.key()).await;
    assert_eq!(state(&read), json!({"kept": 1}));
    assert_eq!(unnumbered(read.events().last()), unnumbered([&committed.event]));
    assert_eq!(test.user_state("alice").await, json!({}));
    assert_eq!(test.app_state().await, json!({}));
    let part = test.read(session.key(), GetSessionConfig::default().with_state_keys(keys)).await;
    assert!(part.state().is_empty(), "a removed key is not there by its name either: {:?}", part.state());
    test.set(session.key(), json!({"a": 2, "user:a": 2, "app:a": 2})).await;
    let again = test.get(session.key()).await;
    assert_eq!(state(&again), json!({"a": 2, "user:a": 2, "app:a": 2, "kept": 1}), "set again");
}

/// A removal on the wire is the string that ADK uses, read and written as such.
pub async fn a_removal_is_a_string_on_the_wire(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": 1, "user:b": 1})).await;
    let wire = json!({"author": "agent", "actions": {"stateDelta": {"a": REMOVED, "user:b": REMOVED}}}).to_string();
    test.append(session.key(), Event::from_json(&wire).unwrap()).await;
    let read = test.get(session.key()).await;
    assert_eq!(state(&read), json!({}));
    let written = serde_json::to_value(read.events().last().unwrap().as_ref()).unwrap();
    assert_eq!(written["actions"]["stateDelta"], json!({"a": REMOVED, "user:b": REMOVED}));
}

/// Setting the string that means removal on the wire is `InvalidArgument`; inside a value it is a normal string.
pub async fn the_removal_string_cannot_be_set(store: &Store) {
    let test = TestApp::new(store);
    for key in ["a", "user:a", "app:a"] {
        let config = CreateSessionConfig::default().with_state(json!({ key: REMOVED }));
        let refused = test.try_create("alice", config).await;
        assert_refused(refused, ErrorKind::InvalidArgument, "a creation that sets the removal string");
        assert_refused(StateDelta::new().with(key, REMOVED), ErrorKind::InvalidArgument, "a delta that sets it");
    }
    assert!(test.list(None).await.is_empty(), "nothing was created");
    comes_back(store, &json!([REMOVED, { "a": REMOVED }])).await;
}

/// A delta is applied key by key, and a map value replaces the old one completely.
pub async fn a_map_replaces_the_old_one_whole(store: &Store) {
    let test = TestApp::new(store);
    let session = test.create("alice", json!({"a": {"x": 1, "y": 2}, "user:a": {"x": 1}, "b": 1})).await;
    test.append(session.key(), changing(json!({"a": {"z": 3}, "user:a": {}}))).await;
    assert_eq!(state(&test.get(session.key()).await), json!({"a": {"z": 3}, "user:a": {}, "b": 1}));
}
