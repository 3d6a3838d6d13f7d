//! Random keys, values and deltas, with the ones that have gone wrong somewhere among them.

use proptest::prelude::*;
use scratchbook::StateDelta;
use serde_json::{Value, json};

/// So many cases, unless `PROPTEST_CASES` says otherwise.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases: count, ..config } }
}

/// Changes in the order written: a value, or `None` for a removal.
pub(crate) type Changes = Vec<(String, Option<Value>)>;

/// Keys of every scope; few names, so that they meet, and some that are odd.
pub(crate) fn key() -> impl Strategy<Value = String> {
    let prefix = prop::sample::select(vec!["", "user:", "app:", "temp:", "weird:", "User:"]);
    let name = prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "cart", "Cart", "cart ", "", "user:a", "temp:a", "\u{e9}", "e\u{301}"])
            .prop_map(str::to_owned),
        1 => "[^\u{0}]{0,12}",
    ];
    (prefix, name).prop_map(|(prefix, name)| format!("{prefix}{name}"))
}

/// Any JSON value, edges of numbers and of strings among them.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let edges = vec![
        json!(null),
        json!(0),
        json!(-0.0),
        json!(1.0),
        json!(0.1),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(f64::MAX),
        json!(5e-324),
        json!("\0"),
        json!(""),
        json!("\u{1f6d2}"),
        json!([]),
        json!({}),
    ];
    let leaf = prop_oneof![
        prop::sample::select(edges),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::ANY.prop_filter("JSON has no form for it", |f| f.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Sets and removals.
pub(crate) fn changes() -> impl Strategy<Value = Changes> {
    prop::collection::vec((key(), prop::option::weighted(0.75, value())), 0..6)
}

/// The changes as a delta, by the calls a program would make.
pub(crate) fn delta(changes: &Changes) -> StateDelta {
    let mut delta = StateDelta::new();
    for (key, value) in changes {
        match value {
            Some(value) => delta.set(key.as_str(), value).unwrap(),
            None => delta.remove(key.as_str()).unwrap(),
        }
    }
    delta
}
