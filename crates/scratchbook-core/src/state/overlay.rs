//! The overlay: committed values with uncommitted changes on top.

use std::collections::HashMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::map::{missing, read_as};
use super::{Change, StateDelta, StateMap, resolve};
use crate::error::Result;

/// Committed state with pending changes on top, as agents, callbacks and tools see it.
///
/// Reads see the delta first; writes only go to the delta. Nothing is durable until an event with the delta is
/// committed.
///
/// ```
/// use scratchbook::state::State;
/// use scratchbook::StateDelta;
/// use serde_json::json;
///
/// let mut state = State::new(json!({"count": 10, "name": "Alice"}).as_object().unwrap().clone(), StateDelta::new());
/// state.set("count", 15)?;
/// assert_eq!(state.get("count"), Some(&json!(15)));
/// assert!(state.has_delta());
/// state.commit();
/// assert!(!state.has_delta());
/// assert_eq!(state.to_map(), *json!({"count": 15, "name": "Alice"}).as_object().unwrap());
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    value: StateMap,
    delta: StateDelta,
    /// The results of the delta's operations on the committed values; `None` for a key that is then absent.
    after: HashMap<String, Option<Value>>,
}

impl State {
    /// `app:`, the prefix of keys that a whole application shares.
    pub const APP_PREFIX: &'static str = "app:";
    /// `user:`, the prefix of keys that all sessions of one user share.
    pub const USER_PREFIX: &'static str = "user:";
    /// `temp:`, the prefix of keys that last for one invocation.
    pub const TEMP_PREFIX: &'static str = "temp:";

    /// Creates an overlay of a delta over committed values. Operations that fail on these values leave their keys
    /// unchanged.
    #[must_use]
    pub fn new(value: impl Into<StateMap>, delta: StateDelta) -> Self {
        let value = value.into();
        let after = |(key, change): (&str, &Change)| {
            let after = resolve(key, change.operations()?, value.get(key)).ok().flatten()?;
            Some((key.to_owned(), after.value().cloned()))
        };
        let after = delta.iter().filter_map(after).collect();
        Self { value, delta, after }
    }

    /// Returns the value of a key, or `None` if it is absent.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self.delta.get(key) {
            None => self.value.get(key),
            Some(Change::Apply(_)) => self.after.get(key).map_or_else(|| self.value.get(key), Option::as_ref),
            Some(known) => known.value(),
        }
    }

    /// Returns the value of a key, or a default if it is absent. A stored `null` is not absent.
    #[must_use]
    pub fn get_or(&self, key: &str, default: impl Into<Value>) -> Value {
        self.get(key).cloned().unwrap_or_else(|| default.into())
    }

    /// Returns the value of a required key.
    ///
    /// # Errors
    ///
    /// `NotFound` names the key.
    pub fn require(&self, key: &str) -> Result<&Value> {
        self.get(key).ok_or_else(|| missing(key))
    }

    /// Returns the value of a key, deserialized, or `None` if it is absent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the value does not match the type.
    pub fn get_as<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|value| read_as(key, value)).transpose()
    }

    /// Whether a key exists, even with the value `null`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a key in the delta.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, as [`StateDelta::set`].
    pub fn set(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with(key, value)?)
    }

    /// Returns the value of a key, and first sets the default if the key is absent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, as [`StateDelta::set`].
    pub fn set_default(&mut self, key: &str, default: impl Serialize) -> Result<Value> {
        if !self.contains(key) {
            self.set(key, default)?;
        }
        self.require(key).cloned()
    }

    /// Adds every change of a delta, after those already pending. After an error no change is added.
    ///
    /// # Errors
    ///
    /// Only operations can fail, on the values seen here: `FailedPrecondition`, and `Conflict` for a failed guard.
    pub fn update(&mut self, delta: StateDelta) -> Result<()> {
        let changes = self.delta.followed_by(delta)?;
        let mut after = Vec::with_capacity(changes.len());
        for (key, change) in &changes {
            let operations = change.operations();
            after.push(
                operations.map(|operations| resolve(key, operations, self.value.get(key))).transpose()?.flatten(),
            );
        }
        for ((key, _), after) in changes.iter().zip(after) {
            match after {
                Some(known) => drop(self.after.insert(key.clone(), known.value().cloned())),
                None => drop(self.after.remove(key)),
            }
        }
        self.delta.extend(changes);
        Ok(())
    }

    /// Removes a key in the delta.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key over 1,024 bytes or with U+0000.
    pub fn remove(&mut self, key: impl Into<String>) -> Result<()> {
        let mut delta = StateDelta::new();
        delta.remove(key)?;
        self.update(delta)
    }

    /// Adds to the number of a key when the delta is committed; [`get`](Self::get) shows the result on the values seen
    /// here.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::increment`] and [`update`](Self::update).
    pub fn increment(&mut self, key: impl Into<String>, by: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_increment(key, by)?)
    }

    /// Appends a value to the list of a key when the delta is committed.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::append`] and [`update`](Self::update).
    pub fn append(&mut self, key: impl Into<String>, item: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_append(key, item)?)
    }

    /// Applies a JSON Merge Patch (RFC 7386) to the map of a key when the delta is committed.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::merge_patch`] and [`update`](Self::update).
    pub fn merge_patch(&mut self, key: impl Into<String>, patch: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_merge_patch(key, patch)?)
    }

    /// Sets a key when the delta is committed, if the key is absent then.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::set_if_absent`] and [`update`](Self::update).
    pub fn set_if_absent(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_set_if_absent(key, value)?)
    }

    /// Adds a guard, which refuses the commit unless the key then has this value.
    ///
    /// # Errors
    ///
    /// `Conflict` if the key does not have this value here; and as [`StateDelta::expect`].
    pub fn expect(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_expect(key, value)?)
    }

    /// Adds a guard, which refuses the commit unless the key is then absent.
    ///
    /// # Errors
    ///
    /// `Conflict` if the key exists here; and as [`StateDelta::expect_absent`].
    pub fn expect_absent(&mut self, key: impl Into<String>) -> Result<()> {
        self.update(StateDelta::new().with_expect_absent(key)?)
    }

    /// Whether there are uncommitted changes.
    #[must_use]
    pub fn has_delta(&self) -> bool {
        !self.delta.is_empty()
    }

    /// Returns the uncommitted changes.
    #[must_use]
    pub fn delta(&self) -> &StateDelta {
        &self.delta
    }

    /// Returns the committed values, without the delta.
    #[must_use]
    pub fn value(&self) -> &StateMap {
        &self.value
    }

    /// Drops the changes, as a rollback.
    pub fn discard(&mut self) {
        self.delta.clear();
        self.after.clear();
    }

    /// Applies the changes to the committed values, as after the commit of their event.
    pub fn commit(&mut self) {
        self.value.apply(&std::mem::take(&mut self.delta));
        self.after.clear();
    }

    /// Returns every key with its current value, changes included.
    pub fn iter(&self) -> impl Iterator<Item = (String, Value)> {
        self.to_map().into_iter()
    }

    /// Returns a plain map of all current values, changes included.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut seen = self.value.clone();
        seen.apply(&self.delta);
        seen.to_map()
    }
}
