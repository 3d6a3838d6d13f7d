//! What happens to one key, and how changes to a key follow one another.

use serde_json::Value;

use super::check_key;
use super::operation::{Operation, check_value, resolve};
use crate::error::Result;

/// What happens to one key.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The key has this value from now on. `null` is a value like any other.
    Set(Value),
    /// The key is gone.
    Remove,
    /// These operations are carried out on the value found when the change is committed, in order; what they come to
    /// is committed as a `Set` or a `Remove`, or as no change where they write nothing. It has no form in JSON.
    Apply(Vec<Operation>),
}

impl Change {
    /// The value set; `None` for a removal, and for operations, whose value is not known before they are committed.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Set(value) => Some(value),
            Self::Remove | Self::Apply(_) => None,
        }
    }

    /// The operations, where it is made of them.
    #[must_use]
    pub fn operations(&self) -> Option<&[Operation]> {
        match self {
            Self::Apply(operations) => Some(operations),
            Self::Set(_) | Self::Remove => None,
        }
    }

    /// The change that does this one and then another, to the same key.
    ///
    /// Nothing is forgotten that could refuse the commit: a guard stays when a value is set after it. What is known
    /// already is worked out at once: an increment after a set is a set.
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
            // Operations have been taken apart before.
            Self::Remove | Self::Apply(_) => Operation::Remove,
        }
    }
}

/// Operations after others; where the first ones end with a known value, it is gone on from there.
fn follow(key: &str, mut first: Vec<Operation>, more: Vec<Operation>) -> Result<Change> {
    match known(&mut first) {
        None => first.extend(more),
        Some(last) => first.push(resolve(key, &more, last.value())?.unwrap_or(last).into_operation()),
    }
    Ok(Change::Apply(first))
}

/// Takes off the set or removal that operations end with.
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

/// Refuses a change that not every store could hold.
pub(super) fn check_change(key: &str, change: &Change) -> Result<()> {
    check_key(key)?;
    match change {
        Change::Remove => Ok(()),
        Change::Set(value) => check_value(key, value),
        Change::Apply(operations) => operations.iter().try_for_each(|operation| operation.check(key)),
    }
}
