//! The state, as callbacks and tools read and write it.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::context::Invocation;
use super::invocation_state::LayerId;
use scratchbook_core::error::Result;
use scratchbook_core::state::{State, StateDelta, StateMap};

/// The state of a running invocation, for one callback or tool call. It is a handle that can be cloned and sent, and
/// its getters return owned values.
///
/// A read returns the handle's own change, if there is one. Otherwise it returns the newest of the committed value and
/// the changes of other callbacks and of finished tools in this run. Changes go into the event to which this callback
/// or tool contributes, and become durable with that event.
#[derive(Clone, Debug)]
pub struct ContextState {
    invocation: Arc<Invocation>,
    layer: LayerId,
}

impl ContextState {
    pub(crate) fn new(invocation: Arc<Invocation>, layer: LayerId) -> Self {
        Self { invocation, layer }
    }

    /// Returns the value of a key, or `None` if it is absent.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        self.invocation.state.get(self.layer, key)
    }

    /// Returns the value of a key, or a default if it is absent. A stored `null` is not absent.
    #[must_use]
    pub fn get_or(&self, key: &str, default: impl Into<Value>) -> Value {
        self.get(key).unwrap_or_else(|| default.into())
    }

    /// Returns the value of a key that must exist.
    ///
    /// # Errors
    ///
    /// `NotFound` names the key.
    pub fn require(&self, key: &str) -> Result<Value> {
        self.one(key).require(key).cloned()
    }

    /// Returns the value of a key as this type, or `None` if the key is absent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the value cannot be parsed as the type.
    pub fn get_as<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        self.one(key).get_as(key)
    }

    /// Returns whether a key exists, even with the value `null`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, as for [`StateDelta::set`]; `FailedPrecondition`, as for [`update`](Self::update).
    pub fn set(&self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with(key, value)?)
    }

    /// Returns the value of a key. If it is absent, the default is set first.
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set).
    pub fn set_default(&self, key: &str, default: impl Serialize) -> Result<Value> {
        if !self.contains(key) {
            self.set(key, default)?;
        }
        self.require(key)
    }

    /// Applies all changes of a delta; if one fails, none of them is applied.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the callback or tool has ended and its event is complete, or if an operation does not
    /// apply to the value that this handle reads; `Conflict` if a guard fails on that value.
    pub fn update(&self, delta: &StateDelta) -> Result<()> {
        self.invocation.state.write(self.layer, delta)
    }

    /// Removes a key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the key is longer than 1,024 bytes or contains U+0000; `FailedPrecondition`, as for
    /// [`update`](Self::update).
    pub fn remove(&self, key: impl Into<String>) -> Result<()> {
        let mut delta = StateDelta::new();
        delta.remove(key)?;
        self.update(&delta)
    }

    /// Increases the number under a key when the event is committed, whatever the number is at that time. Until then,
    /// reads return the current value increased by the same number.
    ///
    /// ```
    /// # use scratchbook::agent::CallbackContext;
    /// # fn example(context: CallbackContext) -> scratchbook::Result<()> {
    /// context.state().increment("user:visits", 1)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`StateDelta::increment`] and [`update`](Self::update).
    pub fn increment(&self, key: impl Into<String>, by: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_increment(key, by)?)
    }

    /// Appends a value to the list under a key when the event is committed.
    ///
    /// # Errors
    ///
    /// As for [`StateDelta::append`] and [`update`](Self::update).
    pub fn append(&self, key: impl Into<String>, item: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_append(key, item)?)
    }

    /// Changes members of the map under a key when the event is committed, as RFC 7386 defines.
    ///
    /// # Errors
    ///
    /// As for [`StateDelta::merge_patch`] and [`update`](Self::update).
    pub fn merge_patch(&self, key: impl Into<String>, patch: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_merge_patch(key, patch)?)
    }

    /// Sets a key when the event is committed, unless the key exists then.
    ///
    /// # Errors
    ///
    /// As for [`StateDelta::set_if_absent`] and [`update`](Self::update).
    pub fn set_if_absent(&self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_set_if_absent(key, value)?)
    }

    /// Guards a key: if it does not have this value when the event is committed, the event is refused and the run ends.
    ///
    /// # Errors
    ///
    /// `Conflict` if the value is already a different one; otherwise as for [`StateDelta::expect`].
    pub fn expect(&self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_expect(key, value)?)
    }

    /// Guards a key: if it exists when the event is committed, the event is refused and the run ends.
    ///
    /// # Errors
    ///
    /// `Conflict` if the key already exists; otherwise as for [`StateDelta::expect_absent`].
    pub fn expect_absent(&self, key: impl Into<String>) -> Result<()> {
        self.update(&StateDelta::new().with_expect_absent(key)?)
    }

    /// Returns whether this callback or tool call has written anything.
    #[must_use]
    pub fn has_delta(&self) -> bool {
        self.delta().is_ok_and(|delta| !delta.is_empty())
    }

    /// Returns the changes that this callback or tool call has written.
    ///
    /// # Errors
    ///
    /// None in practice: the changes were checked when they were written.
    pub fn delta(&self) -> Result<StateDelta> {
        self.invocation.state.delta(self.layer)
    }

    /// Drops the changes of this callback or tool call.
    pub fn discard(&self) {
        self.invocation.state.clear(self.layer);
    }

    /// Returns the whole state as it is now.
    #[must_use]
    pub fn snapshot(&self) -> StateMap {
        self.invocation.state.snapshot_of(self.layer)
    }

    /// Returns the whole state as it is now, as a plain map.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        self.snapshot().to_map()
    }

    /// Returns a state with only this key, so that the checks of [`State`] can be reused.
    fn one(&self, key: &str) -> State {
        let value: Map<_, _> = self.get(key).map(|value| (key.to_owned(), value)).into_iter().collect();
        State::new(value, StateDelta::new())
    }
}
