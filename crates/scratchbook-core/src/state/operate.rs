//! Operations in a delta, by name.

use serde::Serialize;
use serde_json::Value;

use super::operation::kind_of;
use super::{Operation, StateDelta, to_value};
use crate::error::{Error, Result};

/// Operations, carried out by the store on the value it finds when it commits.
///
/// Each is [`apply`](Self::apply) with the [`Operation`] of its name, and fails as that does.
impl StateDelta {
    /// Makes the number under a key larger; an absent key counts as 0. A negative number makes it smaller.
    ///
    /// Of integers comes an integer, exactly; where either is a float, a float. What would not fit 64 bits is refused.
    ///
    /// ```
    /// use scratchbook::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let sessions = InMemorySessionService::new();
    /// let mut session = sessions.create_session("app", "alice", Default::default()).await?;
    /// let mut delta = StateDelta::new();
    /// delta.increment("user:login_count", 1)?;
    /// // However many sessions of the user do so at the same moment, each login counts.
    /// let event = sessions.append_event(&mut session, Event::new("system").with_state_delta(delta)).await?;
    /// assert_eq!(event.actions.state_delta, StateDelta::new().with("user:login_count", 1)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where this is no number; and as [`apply`](Self::apply).
    pub fn increment(&mut self, key: impl Into<String>, by: impl Serialize) -> Result<()> {
        let key = key.into();
        match operand(&key, &by)? {
            Value::Number(by) => self.apply(key, Operation::Increment(by)),
            other => Err(Error::invalid(format!("'{key}' is to be incremented by {}; give a number", kind_of(&other)))),
        }
    }

    /// Puts one value at the end of the list under a key; an absent key counts as an empty list.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn append(&mut self, key: impl Into<String>, item: impl Serialize) -> Result<()> {
        let key = key.into();
        let item = operand(&key, &item)?;
        self.apply(key, Operation::Append(item))
    }

    /// Changes members of the map under a key as a JSON Merge Patch says (RFC 7386): what the patch names is replaced,
    /// maps in it are merged in their turn, `null` takes a member out. An absent key, and whatever is no map, counts as
    /// an empty one; a patch that is no map replaces the value.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn merge_patch(&mut self, key: impl Into<String>, patch: impl Serialize) -> Result<()> {
        let key = key.into();
        let patch = operand(&key, &patch)?;
        self.apply(key, Operation::MergePatch(patch))
    }

    /// Sets a key that is absent and leaves one that is there as it is, be it `null`.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn set_if_absent(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        let key = key.into();
        let value = operand(&key, &value)?;
        self.apply(key, Operation::SetIfAbsent(value))
    }

    /// A guard: the commit is refused, whole, unless the key has this value. It need not be a key that the delta
    /// changes. Changes to the key that come after the guard do not matter to it; those before it do.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn expect(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        let key = key.into();
        let value = operand(&key, &value)?;
        self.apply(key, Operation::Expect(value))
    }

    /// A guard: the commit is refused, whole, unless the key is absent.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub fn expect_absent(&mut self, key: impl Into<String>) -> Result<()> {
        self.apply(key, Operation::ExpectAbsent)
    }
}

fn operand(key: &str, value: &impl Serialize) -> Result<Value> {
    to_value(value).map_err(|e| e.context(format!("the value for '{key}'")))
}

/// The same, for chains.
impl StateDelta {
    /// [`increment`](Self::increment), for chains.
    ///
    /// # Errors
    ///
    /// As [`increment`](Self::increment).
    pub fn with_increment(mut self, key: impl Into<String>, by: impl Serialize) -> Result<Self> {
        self.increment(key, by)?;
        Ok(self)
    }

    /// [`append`](Self::append), for chains.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn with_append(mut self, key: impl Into<String>, item: impl Serialize) -> Result<Self> {
        self.append(key, item)?;
        Ok(self)
    }

    /// [`merge_patch`](Self::merge_patch), for chains.
    ///
    /// # Errors
    ///
    /// As [`merge_patch`](Self::merge_patch).
    pub fn with_merge_patch(mut self, key: impl Into<String>, patch: impl Serialize) -> Result<Self> {
        self.merge_patch(key, patch)?;
        Ok(self)
    }

    /// [`set_if_absent`](Self::set_if_absent), for chains.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    pub fn with_set_if_absent(mut self, key: impl Into<String>, value: impl Serialize) -> Result<Self> {
        self.set_if_absent(key, value)?;
        Ok(self)
    }

    /// [`expect`](Self::expect), for chains.
    ///
    /// # Errors
    ///
    /// As [`expect`](Self::expect).
    pub fn with_expect(mut self, key: impl Into<String>, value: impl Serialize) -> Result<Self> {
        self.expect(key, value)?;
        Ok(self)
    }

    /// [`expect_absent`](Self::expect_absent), for chains.
    ///
    /// # Errors
    ///
    /// As [`expect_absent`](Self::expect_absent).
    pub fn with_expect_absent(mut self, key: impl Into<String>) -> Result<Self> {
        self.expect_absent(key)?;
        Ok(self)
    }
}
