//! A change to one key, and the combination of several changes to the same key.

use std::borrow::Cow;

use serde_json::Value;

use super::check_key;
use super::operation::{Operation, Resolution, check_value};
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

    /// Returns this change combined with a later one to the same key.
    #[doc(hidden)]
    pub fn then(mut self, key: &str, later: Self) -> Result<Self> {
        self.add(key, later)?;
        Ok(self)
    }

    /// Combines this change with a later one to the same key. After an error, this change is as it was.
    ///
    /// Nothing that can refuse the commit is lost: a guard stays when a value is set after it. Known results are
    /// computed at once: an increment after a set becomes a set. What is here is not copied, because a caller may send
    /// a hundred thousand changes to one key.
    pub(super) fn add(&mut self, key: &str, later: Self) -> Result<()> {
        match (&mut *self, later) {
            (Self::Apply(first), Self::Apply(more)) => match first.pop() {
                Some(Operation::Set(value)) => {
                    let mut known = Some(value);
                    let followed = follow(key, &mut known, &more);
                    first.push(known.map_or(Operation::Remove, Operation::Set));
                    followed?;
                }
                Some(Operation::Remove) => {
                    let mut known = None;
                    let followed = follow(key, &mut known, &more);
                    first.push(known.map_or(Operation::Remove, Operation::Set));
                    followed?;
                }
                last => {
                    first.extend(last);
                    first.extend(more);
                }
            },
            (Self::Apply(first), later) => match first.iter().rposition(Operation::may_be_refused) {
                Some(last) => {
                    // What comes after it cannot refuse the commit, and the later change replaces its result.
                    first.truncate(last + 1);
                    first.push(match later {
                        Self::Set(value) => Operation::Set(value),
                        Self::Remove | Self::Apply(_) => Operation::Remove,
                    });
                }
                None => *self = later,
            },
            (this, Self::Apply(more)) => {
                let mut known = match std::mem::replace(this, Self::Remove) {
                    Self::Set(value) => Some(value),
                    Self::Remove | Self::Apply(_) => None,
                };
                let followed = follow(key, &mut known, &more);
                *this = known.map_or(Self::Remove, Self::Set);
                followed?;
            }
            (this, later) => *this = later,
        }
        Ok(())
    }
}

/// Applies operations to a known value. After an error, the value is as it was.
fn follow(key: &str, known: &mut Option<Value>, more: &[Operation]) -> Result<()> {
    // A single operation that fails changes nothing. Of several, those before it have changed the value.
    let is_single = more.len() == 1;
    let found = if is_single { known.take() } else { known.clone() };
    let mut resolution = Resolution::new(found.map(Cow::Owned));
    let applied = resolution.apply(key, more);
    if is_single || applied.is_ok() {
        *known = resolution.into_value();
    }
    Ok(applied?)
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
