//! The operations of a delta, as named methods.

use serde::Serialize;
use serde_json::Value;

use super::operation::kind_of;
use super::{Operation, StateDelta, to_value};
use crate::error::{Error, Result};

/// Operations, which the store applies to the values it finds in the commit.
///
/// Each method calls [`apply`](Self::apply) with the [`Operation`] of the method's name.
impl StateDelta {
    /// Adds to the number of a key; an absent key counts as 0. A negative number subtracts.
    ///
    /// Two integers give an exact integer; if either is a float, the result is a float. Overflow of 64 bits is refused.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let sessions = InMemorySessionService::new();
    /// let mut session = sessions.create_session("app", "alice", Default::default()).await?;
    /// let mut delta = StateDelta::new();
    /// delta.increment("user:login_count", 1)?;
    /// // Concurrent logins in several sessions of the user all count.
    /// let event = sessions.append_event(&mut session, Event::new("system").with_state_delta(delta)).await?;
    /// assert_eq!(event.actions.state_delta, StateDelta::new().with("user:login_count", 1)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `by` is not a number; and as [`apply`](Self::apply).
    pub fn increment(&mut self, key: impl Into<String>, by: impl Serialize) -> Result<()> {
        let key = key.into();
        match operand(&key, &by)? {
            Value::Number(by) => self.apply(key, Operation::Increment(by)),
            other => Err(Error::invalid(format!("'{key}' is to be incremented by {}; give a number", kind_of(&other)))),
        }
    }

    /// Appends one value to the list of a key; an absent key counts as an empty list.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn append(&mut self, key: impl Into<String>, item: impl Serialize) -> Result<()> {
        let key = key.into();
        let item = operand(&key, &item)?;
        self.apply(key, Operation::Append(item))
    }

    /// Applies a JSON Merge Patch (RFC 7386) to the map of a key: the patch replaces the members it names, merges
    /// nested maps, and removes members with `null`. An absent key, and any value that is not a map, counts as an empty
    /// map; a patch that is not a map replaces the value.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn merge_patch(&mut self, key: impl Into<String>, patch: impl Serialize) -> Result<()> {
        let key = key.into();
        let patch = operand(&key, &patch)?;
        self.apply(key, Operation::MergePatch(patch))
    }

    /// Sets a key that is absent; an existing one stays unchanged, even if it is `null`.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn set_if_absent(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        let key = key.into();
        let value = operand(&key, &value)?;
        self.apply(key, Operation::SetIfAbsent(value))
    }

    /// Adds a guard, which refuses the whole commit unless the key has this value. The delta does not have to change
    /// the key. Only changes to the key that come before the guard affect it.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and [`apply`](Self::apply).
    pub fn expect(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        let key = key.into();
        let value = operand(&key, &value)?;
        self.apply(key, Operation::Expect(value))
    }

    /// Adds a guard, which refuses the whole commit unless the key is absent.
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

/// The same operations in builder style.
impl StateDelta {
    /// Works like [`increment`](Self::increment), in builder style.
    ///
    /// # Errors
    ///
    /// As [`increment`](Self::increment).
    pub fn with_increment(mut self, key: impl Into<String>, by: impl Serialize) -> Result<Self> {
        self.increment(key, by)?;
        Ok(self)
    }

    /// Works like [`append`](Self::append), in builder style.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn with_append(mut self, key: impl Into<String>, item: impl Serialize) -> Result<Self> {
        self.append(key, item)?;
        Ok(self)
    }

    /// Works like [`merge_patch`](Self::merge_patch), in builder style.
    ///
    /// # Errors
    ///
    /// As [`merge_patch`](Self::merge_patch).
    pub fn with_merge_patch(mut self, key: impl Into<String>, patch: impl Serialize) -> Result<Self> {
        self.merge_patch(key, patch)?;
        Ok(self)
    }

    /// Works like [`set_if_absent`](Self::set_if_absent), in builder style.
    ///
    /// # Errors
    ///
    /// As [`set_if_absent`](Self::set_if_absent).
    pub fn with_set_if_absent(mut self, key: impl Into<String>, value: impl Serialize) -> Result<Self> {
        self.set_if_absent(key, value)?;
        Ok(self)
    }

    /// Works like [`expect`](Self::expect), in builder style.
    ///
    /// # Errors
    ///
    /// As [`expect`](Self::expect).
    pub fn with_expect(mut self, key: impl Into<String>, value: impl Serialize) -> Result<Self> {
        self.expect(key, value)?;
        Ok(self)
    }

    /// Works like [`expect_absent`](Self::expect_absent), in builder style.
    ///
    /// # Errors
    ///
    /// As [`expect_absent`](Self::expect_absent).
    pub fn with_expect_absent(mut self, key: impl Into<String>) -> Result<Self> {
        self.expect_absent(key)?;
        Ok(self)
    }
}
