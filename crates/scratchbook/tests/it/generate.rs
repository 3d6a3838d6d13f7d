//! Random keys, values and deltas. Some of them have caused errors before.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scratchbook::state::Operation;
use scratchbook::{ErrorKind, Result, StateDelta};
use serde_json::{Value, json};

/// Returns a configuration with this many cases; `PROPTEST_CASES` overrides the number.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases: count, ..config } }
}

/// Changes in the order of writing: a value, or `None` for a removal.
pub(crate) type Changes = Vec<(String, Option<Value>)>;

/// Values as text, by key, so that they are compared exactly.
pub(crate) type ValueTexts = BTreeMap<String, String>;

/// Keys of every scope. There are few names, so that the same keys occur repeatedly, and some odd names.
pub(crate) fn key() -> impl Strategy<Value = String> {
    let prefix = prop::sample::select(vec!["", "user:", "app:", "temp:", "weird:", "User:"]);
    let name = prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "cart", "Cart", "cart ", "", "user:a", "temp:a", "\u{e9}", "e\u{301}"])
            .prop_map(str::to_owned),
        1 => "[^\u{0}]{0,12}",
    ];
    (prefix, name).prop_map(|(prefix, name)| format!("{prefix}{name}"))
}

/// Any JSON value, including edge cases of numbers and strings.
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

/// Builds a delta of the changes, by the calls that a program would make.
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

/// An action of a program on a key.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Set(Value),
    Remove,
    Do(Operation),
}

/// Deeds in their order.
pub(crate) type Deeds = Vec<(String, Deed)>;

/// Values that operations are made for, including edge cases.
fn operand() -> impl Strategy<Value = Value> {
    let values = vec![
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(-0.0),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(f64::MAX),
        json!([]),
        json!([1]),
        json!({}),
        json!({"a": 1, "b": {"c": null}}),
        json!({"a": null, "b": {"c": 2, "d": []}}),
        json!(null),
        json!("text"),
    ];
    prop_oneof![8 => prop::sample::select(values), 1 => value()]
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let number =
        prop::sample::select(vec![json!(1), json!(-1), json!(0.5), json!(u64::MAX), json!(i64::MIN), json!(7)]);
    let number = number.prop_map(|number| match number {
        Value::Number(number) => Operation::Increment(number),
        _ => unreachable!("numbers alone"),
    });
    prop_oneof![
        4 => number,
        3 => operand().prop_map(Operation::Append),
        3 => operand().prop_map(Operation::MergePatch),
        2 => operand().prop_map(Operation::SetIfAbsent),
        1 => operand().prop_map(Operation::Expect),
        1 => Just(Operation::ExpectAbsent),
        1 => operand().prop_map(Operation::Set),
        1 => Just(Operation::Remove),
    ]
}

/// Deeds on few keys, so that the same keys occur repeatedly.
pub(crate) fn deeds() -> impl Strategy<Value = Deeds> {
    let keys = ["a", "b", "user:a", "user:b", "app:a", "temp:a"].map(str::to_owned).to_vec();
    let deed = prop_oneof![
        2 => operand().prop_map(Deed::Set),
        1 => Just(Deed::Remove),
        5 => operation().prop_map(Deed::Do),
    ];
    prop::collection::vec((prop::sample::select(keys), deed), 0..6)
}

/// Builds a delta of the deeds, by the calls that a program would make; some deeds are refused at once.
pub(crate) fn delta_of(deeds: &Deeds) -> Result<StateDelta> {
    let mut delta = StateDelta::new();
    for (key, deed) in deeds {
        match deed {
            Deed::Set(value) => delta.set(key.as_str(), value)?,
            Deed::Remove => delta.remove(key.as_str())?,
            Deed::Do(operation) => delta.apply(key.as_str(), operation.clone())?,
        }
    }
    Ok(delta)
}

/// Computes the result of deeds naively: for each key, in the order of first use, whether it was written, and its
/// value.
pub(crate) fn done(
    deeds: &Deeds,
    found: impl Fn(&str) -> Option<Value>,
) -> Result<Vec<(String, bool, Option<Value>)>, ErrorKind> {
    let mut keys: Vec<(String, bool, Option<Value>)> = Vec::new();
    let mut refused = Vec::new();
    for (key, deed) in deeds {
        let place = keys.iter().position(|(known, ..)| known == key).unwrap_or_else(|| {
            keys.push((key.clone(), false, found(key)));
            keys.len() - 1
        });
        let (_, written, value) = &mut keys[place];
        if refused.iter().any(|(of, _)| of == key) {
            continue;
        }
        match naive(deed, value.clone()) {
            Ok(None) => {}
            Ok(Some(new)) => (*written, *value) = (true, new),
            Err(kind) => refused.push((key.clone(), kind)),
        }
    }
    // A conflict is reported before a failed precondition.
    let kinds = [ErrorKind::Conflict, ErrorKind::FailedPrecondition];
    match kinds.into_iter().find(|kind| refused.iter().any(|(_, of)| of == kind)) {
        Some(kind) => Err(kind),
        None => Ok(keys),
    }
}

/// Returns the value after a deed; the outer `None` means no write.
fn naive(deed: &Deed, found: Option<Value>) -> Result<Option<Option<Value>>, ErrorKind> {
    let impossible = Err(ErrorKind::FailedPrecondition);
    let operation = match deed {
        Deed::Set(value) => return Ok(Some(Some(value.clone()))),
        Deed::Remove => return Ok(Some(None)),
        Deed::Do(operation) => operation,
    };
    Ok(match operation {
        Operation::Set(value) => Some(Some(value.clone())),
        Operation::Remove => Some(None),
        Operation::SetIfAbsent(value) => found.is_none().then(|| Some(value.clone())),
        Operation::Expect(value) if found.as_ref() != Some(value) => return Err(ErrorKind::Conflict),
        Operation::ExpectAbsent if found.is_some() => return Err(ErrorKind::Conflict),
        Operation::Append(item) => match found.unwrap_or_else(|| json!([])) {
            Value::Array(list) => Some(Some(list.into_iter().chain([item.clone()]).collect())),
            _ => return impossible,
        },
        Operation::MergePatch(patch) => Some(Some(patched(found.unwrap_or_else(|| json!({})), patch))),
        Operation::Increment(by) => {
            let found = found.unwrap_or_else(|| json!(0));
            let (by, exact) = (Value::Number(by.clone()), |value: &Value| value.to_string().parse::<i128>().ok());
            let sum = match (exact(&found), exact(&by)) {
                _ if !found.is_number() => return impossible,
                (Some(a), Some(b)) => scratchbook::json::from_str(&(a + b).to_string()).ok(),
                _ => Some(json!(found.as_f64().unwrap() + by.as_f64().unwrap())),
            };
            match sum.filter(Value::is_number) {
                Some(sum) => Some(Some(sum)),
                None => return impossible,
            }
        }
        _ => None,
    })
}

/// RFC 7386, in its own words.
fn patched(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut merged = if let Value::Object(members) = target { members } else { serde_json::Map::new() };
    for (name, value) in patch {
        if value.is_null() {
            merged.shift_remove(name);
        } else {
            let old = merged.get(name).cloned().unwrap_or_else(|| json!({}));
            merged.insert(name.clone(), patched(old, value));
        }
    }
    merged.into()
}

/// Chooses at random, always in the same way for a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        // Successive seeds have to give different beginnings.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    pub(crate) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub(crate) fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.roll(choices.len() as u64)).unwrap()]
    }
}
