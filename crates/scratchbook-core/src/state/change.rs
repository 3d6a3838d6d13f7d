//! A change to one key, and the combination of several changes to the same key.

use serde_json::Value;

use super::check_key;
use super::operation::{Operation, check_value, resolve};
use crate::error::Result;

/// A change to one key.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Sets the value. `null` is a value like any other.
    Set(Value),
    /// Removes the key.
    Remove,
    /// Applies these operations in order to the value found in the commit. The result is committed as a `Set` or a
    /// `Remove`, or as no change if they write nothing. This has no JSON form.
    Apply(Vec<Operation>),
}

impl Change {
    /// Returns the value set; `None` for a removal, and for operations, whose result is unknown before the commit.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Set(value) => Some(value),
            Self::Remove | Self::Apply(_) => None,
        }
    }

    /// Returns the operations, if the change consists of them.
    #[must_use]
    pub fn operations(&self) -> Option<&[Operation]> {
        match self {
            Self::Apply(operations) => Some(operations),
            Self::Set(_) | Self::Remove => None,
        }
    }

    /// Combines this change with a later one to the same key.
    ///
    /// Nothing that can refuse the commit is lost: a guard stays when a value is set after it. Known results are
    /// computed at once: an increment after a set becomes a set.
    #[doc(hidden)]
    pub fn then(self, key: &str, later: Self) -> Result<Self> {
        match (self, later) {
            (Self::Apply(first), Self::Apply(more)) => follow(key, first, more),
            (Self::Apply(mut first), later) => {
                if !first.iter().any(Operation::may_be_refused) {
                    return Ok(later);
                }
                known(&mut first);
                first.push(later.into_operation());
                Ok(Self::Apply(first))
            }
            (known, Self::Apply(more)) => Ok(resolve(key, &more, known.value())?.unwrap_or(known)),
            (_, later) => Ok(later),
        }
    }

    fn into_operation(self) -> Operation {
        match self {
            Self::Set(value) => Operation::Set(value),
            // The caller handles operations one by one.
            Self::Remove | Self::Apply(_) => Operation::Remove,
        }
    }
}

/// Appends operations to earlier ones. If the earlier ones end with a known value, the later ones are computed from it.
fn follow(key: &str, mut first: Vec<Operation>, more: Vec<Operation>) -> Result<Change> {
    match known(&mut first) {
        None => first.extend(more),
        Some(last) => first.push(resolve(key, &more, last.value())?.unwrap_or(last).into_operation()),
    }
    Ok(Change::Apply(first))
}

/// Removes and returns the set or removal at the end of the operations, if there is one.
fn known(operations: &mut Vec<Operation>) -> Option<Change> {
    match operations.pop()? {
        Operation::Set(value) => Some(Change::Set(value)),
        Operation::Remove => Some(Change::Remove),
        other => {
            operations.push(other);
            None
        }
    }
}

/// Refuses a change that some store could not hold.
pub(super) fn check_change(key: &str, change: &Change) -> Result<()> {
    check_key(key)?;
    match change {
        Change::Remove => Ok(()),
        Change::Set(value) => check_value(key, value),
        Change::Apply(operations) => operations.iter().try_for_each(|operation| operation.check(key)),
    }
}
