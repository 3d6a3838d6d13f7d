//! Guards: operations that refuse a write unless a key has the expected value, and the errors of operations.

use serde_json::Value;

use crate::error::{ConflictCause, Error, KeyConflict};

/// The reasons why an operation cannot be applied to the stored value.
#[derive(Debug)]
#[doc(hidden)]
pub enum Refused {
    /// A guard failed.
    Guard(Box<KeyConflict>),
    /// The value has a kind that does not fit the operation, or the result overflows.
    Impossible(Error),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Guard(conflict) => Self::conflict(vec![*conflict]),
            Refused::Impossible(error) => error,
        }
    }
}

/// Fails if the value found is not the expected one.
pub(super) fn check(key: &str, found: Option<&Value>, expected: Option<&Value>) -> Result<(), Refused> {
    if found == expected {
        return Ok(());
    }
    let mut conflict = KeyConflict::new(key, ConflictCause::Guard, found.cloned());
    conflict.read = expected.cloned();
    Err(Refused::Guard(Box::new(conflict)))
}
