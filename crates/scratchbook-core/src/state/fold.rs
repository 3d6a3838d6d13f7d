//! State as the fold of its log: the initial state, then every delta in order.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Change, Scope, StateDelta, resolve};

/// Applies one delta to a plain map: a value replaces the old one completely, a removal removes the key.
///
/// A committed delta contains only sets and removals. If a delta still has operations, they are applied to the map, and
/// those that fail leave their key unchanged; [`StateDelta::resolve`] reports them.
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

/// Computes the state after a sequence of deltas from an initial state.
///
/// ```
/// use scratchbook::state::fold;
/// use scratchbook::StateDelta;
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

/// Returns the keys after an event, which counts as their writer, because the earlier writers are unknown.
pub(crate) fn own_keys(seq: u64, state: Map<String, Value>) -> OwnKeys {
    state.into_iter().map(|(name, value)| (name, (seq, value))).collect()
}

/// Applies the changes of the event with this number. Stored events have no operations.
pub(crate) fn apply_own(keys: &mut OwnKeys, seq: u64, delta: &StateDelta) {
    for (key, change) in delta.iter().filter(|(key, _)| Scope::split(key).0 == Scope::Session) {
        match change.value() {
            Some(value) => drop(keys.insert(key.to_owned(), (seq, value.clone()))),
            None => drop(keys.remove(key)),
        }
    }
}
