//! State is the fold of its log: what it was, then every delta in order.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Change, Scope, StateDelta, resolve};

/// Applies one delta to a plain map: a value replaces the old one whole, a removal takes the key out.
///
/// A committed delta holds nothing else. Where one has operations still, they are carried out on the map, and those
/// that cannot be leave their key as it is; [`StateDelta::resolve`] tells which.
pub fn apply(state: &mut Map<String, Value>, delta: &StateDelta) {
    for (key, change) in delta.iter() {
        match change {
            Change::Set(value) => {
                state.insert(key.to_owned(), value.clone());
            }
            Change::Remove => {
                state.shift_remove(key);
            }
            Change::Apply(operations) => {
                let after = resolve(key, operations, state.get(key)).ok().flatten();
                match after.as_ref().map(Change::value) {
                    Some(Some(value)) => drop(state.insert(key.to_owned(), value.clone())),
                    Some(None) => drop(state.shift_remove(key)),
                    None => {}
                }
            }
        }
    }
}

/// The state that a sequence of deltas leads to from an initial one.
///
/// ```
/// use scratchbook::{StateDelta, fold};
/// use serde_json::json;
///
/// let initial = json!({"count": 10, "name": "Alice"}).as_object().unwrap().clone();
/// let first = StateDelta::new().with("count", 15)?;
/// let mut second = StateDelta::new();
/// second.remove("name")?;
/// assert_eq!(json!(fold(initial, [&first, &second])), json!({"count": 15}));
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[must_use]
pub fn fold<'a>(initial: Map<String, Value>, deltas: impl IntoIterator<Item = &'a StateDelta>) -> Map<String, Value> {
    let mut state = initial;
    for delta in deltas {
        apply(&mut state, delta);
    }
    state
}

/// A session's own keys, each with the number of the event that wrote it.
pub(crate) type OwnKeys = BTreeMap<String, (u64, Value)>;

/// The keys as an event has left them. Who wrote one before that is not known.
pub(crate) fn own_keys(seq: u64, state: Map<String, Value>) -> OwnKeys {
    state.into_iter().map(|(name, value)| (name, (seq, value))).collect()
}

/// Applies what the event with this number has written. One that is stored has no operations.
pub(crate) fn apply_own(keys: &mut OwnKeys, seq: u64, delta: &StateDelta) {
    for (key, change) in delta.iter().filter(|(key, _)| Scope::split(key).0 == Scope::Session) {
        match change.value() {
            Some(value) => drop(keys.insert(key.to_owned(), (seq, value.clone()))),
            None => drop(keys.remove(key)),
        }
    }
}
