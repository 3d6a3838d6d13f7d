//! The overlay: committed values below, changes not yet committed above.

use std::collections::HashMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::map::{missing, read_as};
use super::{Change, StateDelta, StateMap, resolve};
use crate::error::Result;

/// Committed state with pending changes over it, as agents, callbacks and tools see theirs.
///
/// Reading sees the delta first; writing goes to the delta only. Nothing is durable until an event that
/// carries the delta is committed.
///
/// ```
/// use scratchbook::{State, StateDelta};
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
    /// What operations in the delta come to on the committed values; `None` for a key that is absent then.
    after: HashMap<String, Option<Value>>,
}

impl State {
    /// `app:`, the prefix of keys that a whole application shares.
    pub const APP_PREFIX: &'static str = "app:";
    /// `user:`, the prefix of keys that all sessions of one user share.
    pub const USER_PREFIX: &'static str = "user:";
    /// `temp:`, the prefix of keys that live one invocation.
    pub const TEMP_PREFIX: &'static str = "temp:";

    /// An overlay of a delta over committed values. Operations in the delta that cannot be carried out on these values
    /// leave their keys as they are.
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

    /// The value of a key, or `None` where it is absent.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self.delta.get(key) {
            None => self.value.get(key),
            Some(Change::Apply(_)) => self.after.get(key).map_or_else(|| self.value.get(key), Option::as_ref),
            Some(known) => known.value(),
        }
    }

    /// The value of a key, or a default where it is absent. A stored `null` is not absent.
    #[must_use]
    pub fn get_or(&self, key: &str, default: impl Into<Value>) -> Value {
        self.get(key).cloned().unwrap_or_else(|| default.into())
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    ///
    /// `NotFound` names the key.
    pub fn require(&self, key: &str) -> Result<&Value> {
        self.get(key).ok_or_else(|| missing(key))
    }

    /// The value of a key as a type of yours, or `None` where it is absent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where the value has another shape.
    pub fn get_as<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|value| read_as(key, value)).transpose()
    }

    /// Whether a key is there, be it with the value `null`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a key, in the delta.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, as [`StateDelta::set`].
    pub fn set(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with(key, value)?)
    }

    /// The value of a key; where it is absent, the default is set first.
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

    /// Takes over every change of a delta, after those that wait already. Nothing of it is taken over after an error.
    ///
    /// # Errors
    ///
    /// For operations alone, where they cannot be carried out on what is seen here: `FailedPrecondition`, and
    /// `Conflict` for a guard that does not hold.
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

    /// Removes a key, in the delta.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key over 1,024 bytes or with U+0000.
    pub fn remove(&mut self, key: impl Into<String>) -> Result<()> {
        let mut delta = StateDelta::new();
        delta.remove(key)?;
        self.update(delta)
    }

    /// Has the number under a key made larger when the delta is committed; [`get`](Self::get) shows what that comes to
    /// here.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::increment`] and [`update`](Self::update).
    pub fn increment(&mut self, key: impl Into<String>, by: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_increment(key, by)?)
    }

    /// Has a value put at the end of the list under a key when the delta is committed.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::append`] and [`update`](Self::update).
    pub fn append(&mut self, key: impl Into<String>, item: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_append(key, item)?)
    }

    /// Has members of the map under a key changed when the delta is committed, as RFC 7386 says.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::merge_patch`] and [`update`](Self::update).
    pub fn merge_patch(&mut self, key: impl Into<String>, patch: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_merge_patch(key, patch)?)
    }

    /// Has a key set when the delta is committed, unless it is there then.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::set_if_absent`] and [`update`](Self::update).
    pub fn set_if_absent(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_set_if_absent(key, value)?)
    }

    /// Has the commit refused unless the key has this value then.
    ///
    /// # Errors
    ///
    /// `Conflict` where it has not even here; and as [`StateDelta::expect`].
    pub fn expect(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(StateDelta::new().with_expect(key, value)?)
    }

    /// Has the commit refused unless the key is absent then.
    ///
    /// # Errors
    ///
    /// `Conflict` where it is there even here; and as [`StateDelta::expect_absent`].
    pub fn expect_absent(&mut self, key: impl Into<String>) -> Result<()> {
        self.update(StateDelta::new().with_expect_absent(key)?)
    }

    /// Whether there are changes not yet committed.
    #[must_use]
    pub fn has_delta(&self) -> bool {
        !self.delta.is_empty()
    }

    /// The changes not yet committed.
    #[must_use]
    pub fn delta(&self) -> &StateDelta {
        &self.delta
    }

    /// The committed values, without the delta.
    #[must_use]
    pub fn value(&self) -> &StateMap {
        &self.value
    }

    /// Drops the changes: the rollback.
    pub fn discard(&mut self) {
        self.delta.clear();
        self.after.clear();
    }

    /// Folds the changes into the committed values, as happens when their event has been committed.
    pub fn commit(&mut self) {
        self.value.apply(&std::mem::take(&mut self.delta));
        self.after.clear();
    }

    /// Every key with its value as it is seen now.
    pub fn iter(&self) -> impl Iterator<Item = (String, Value)> {
        self.to_map().into_iter()
    }

    /// A plain map of everything as it is seen now.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut seen = self.value.clone();
        seen.apply(&self.delta);
        seen.to_map()
    }
}
