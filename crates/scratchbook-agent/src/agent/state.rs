//! The state as a callback or a tool sees and writes it.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::board::LayerId;
use super::context::Invocation;
use scratchbook_core::error::Result;
use scratchbook_core::state::{State, StateDelta, StateMap};

/// The state of a running invocation, seen from one callback or tool call: a handle that can be cloned and
/// sent, whose getters return values.
///
/// Reading sees own writes first, then the newest of what is committed and what other callbacks and finished tools of this
/// run have written. Writing goes to the event this callback or tool contributes to, and is durable with it.
#[derive(Clone, Debug)]
pub struct ContextState {
    invocation: Arc<Invocation>,
    layer: LayerId,
}

impl ContextState {
    pub(crate) fn new(invocation: Arc<Invocation>, layer: LayerId) -> Self {
        Self { invocation, layer }
    }

    /// The value of a key, or `None` where it is absent.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        self.invocation.board.get(self.layer, key)
    }

    /// The value of a key, or a default where it is absent. A stored `null` is not absent.
    #[must_use]
    pub fn get_or(&self, key: &str, default: impl Into<Value>) -> Value {
        self.get(key).unwrap_or_else(|| default.into())
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    ///
    /// `NotFound` names the key.
    pub fn require(&self, key: &str) -> Result<Value> {
        self.one(key).require(key).cloned()
    }

    /// The value of a key as a type of yours, or `None` where it is absent.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where the value has another shape.
    pub fn get_as<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        self.one(key).get_as(key)
    }

    /// Whether a key is there, be it with the value `null`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, as [`StateDelta::set`]; `FailedPrecondition`, as [`update`](Self::update).
    pub fn set(&self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with(key, value)?)
    }

    /// The value of a key; where it is absent, the default is set first.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn set_default(&self, key: &str, default: impl Serialize) -> Result<Value> {
        if !self.contains(key) {
            self.set(key, default)?;
        }
        self.require(key)
    }

    /// Takes over every change of a delta, or after an error none.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where the callback or tool has ended and its event is done, and for an operation that is not
    /// for the value seen here; `Conflict` for a guard that does not hold even here.
    pub fn update(&self, delta: &StateDelta) -> Result<()> {
        self.invocation.board.write(self.layer, delta)
    }

    /// Removes a key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key over 1,024 bytes or with U+0000; `FailedPrecondition`, as
    /// [`update`](Self::update).
    pub fn remove(&self, key: impl Into<String>) -> Result<()> {
        let mut delta = StateDelta::new();
        delta.remove(key)?;
        self.update(&delta)
    }

    /// Has the number under a key made larger when the event is committed, by whatever it is then; reads show what that
    /// comes to as things are seen here.
    ///
    /// ```
    /// # use scratchbook::CallbackContext;
    /// # fn example(context: CallbackContext) -> scratchbook::Result<()> {
    /// context.state().increment("user:visits", 1)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`StateDelta::increment`] and [`update`](Self::update).
    pub fn increment(&self, key: impl Into<String>, by: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_increment(key, by)?)
    }

    /// Has a value put at the end of the list under a key when the event is committed.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::append`] and [`update`](Self::update).
    pub fn append(&self, key: impl Into<String>, item: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_append(key, item)?)
    }

    /// Has members of the map under a key changed when the event is committed, as RFC 7386 says.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::merge_patch`] and [`update`](Self::update).
    pub fn merge_patch(&self, key: impl Into<String>, patch: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_merge_patch(key, patch)?)
    }

    /// Has a key set when the event is committed, unless it is there then.
    ///
    /// # Errors
    ///
    /// As [`StateDelta::set_if_absent`] and [`update`](Self::update).
    pub fn set_if_absent(&self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_set_if_absent(key, value)?)
    }

    /// Has the event refused, and with it the run ended, unless the key has this value when it is committed.
    ///
    /// # Errors
    ///
    /// `Conflict` where it has not even here; and as [`StateDelta::expect`].
    pub fn expect(&self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        self.update(&StateDelta::new().with_expect(key, value)?)
    }

    /// Has the event refused, and with it the run ended, unless the key is absent when it is committed.
    ///
    /// # Errors
    ///
    /// `Conflict` where it is there even here; and as [`StateDelta::expect_absent`].
    pub fn expect_absent(&self, key: impl Into<String>) -> Result<()> {
        self.update(&StateDelta::new().with_expect_absent(key)?)
    }

    /// Whether this callback or tool call has written anything.
    #[must_use]
    pub fn has_delta(&self) -> bool {
        self.delta().is_ok_and(|delta| !delta.is_empty())
    }

    /// What this callback or tool call has written.
    ///
    /// # Errors
    ///
    /// None in practice: what is in the delta was checked when it was written.
    pub fn delta(&self) -> Result<StateDelta> {
        self.invocation.board.delta(self.layer)
    }

    /// Drops what this callback or tool call has written: the rollback.
    pub fn discard(&self) {
        self.invocation.board.clear(self.layer);
    }

    /// Everything as it is seen now.
    #[must_use]
    pub fn snapshot(&self) -> StateMap {
        self.invocation.board.snapshot_of(self.layer)
    }

    /// A plain map of everything as it is seen now.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        self.snapshot().to_map()
    }

    /// One key as a state of its own, for reads that the overlay spells out.
    fn one(&self, key: &str) -> State {
        let value: Map<_, _> = self.get(key).map(|value| (key.to_owned(), value)).into_iter().collect();
        State::new(value, StateDelta::new())
    }
}
