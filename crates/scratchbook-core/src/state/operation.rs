//! Operations on a value that is only known in the commit, and their results.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::guard::{self, Refused};
use super::{Change, REMOVED};
use crate::error::{Error, Result};
use crate::json::{check_depth, check_item_depth};

/// One step of a [`Change::Apply`]: the store applies it to the value found in the commit.
///
/// An absent key counts as `0` for an increment, as `[]` for an append and as `{}` for a merge. `null` is an ordinary
/// value, and neither a number nor a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Operation {
    /// Sets the value.
    Set(Value),
    /// Removes the key.
    Remove,
    /// Adds this number to the number found. Integers give an integer, or an error if it overflows 64 bits; if either
    /// is a float, the result is a float.
    Increment(Number),
    /// Appends this value to the list found.
    Append(Value),
    /// Applies a JSON Merge Patch (RFC 7386) to the value found: members of an object replace those found, `null`
    /// removes a member, and a patch that is not an object replaces the value.
    MergePatch(Value),
    /// Sets this value if the key is absent.
    SetIfAbsent(Value),
    /// A guard: refuses the whole commit unless this is the value found. `1` and `1.0` are different values.
    Expect(Value),
    /// A guard: refuses the whole commit unless the key is absent.
    ExpectAbsent,
}

impl Operation {
    /// Refuses an operation that can never be applied, or whose value could not be read back.
    pub(super) fn check(&self, key: &str) -> Result<()> {
        match self {
            Self::Set(value) | Self::MergePatch(value) | Self::SetIfAbsent(value) | Self::Expect(value) => {
                check_value(key, value)
            }
            Self::Append(item) => check_item_depth(item, || format!("what is appended to '{key}'")),
            Self::Remove | Self::Increment(_) | Self::ExpectAbsent => Ok(()),
        }
    }

    /// Whether the value found can make this operation fail.
    pub(super) fn may_be_refused(&self) -> bool {
        matches!(self, Self::Increment(_) | Self::Append(_) | Self::Expect(_) | Self::ExpectAbsent)
    }
}

/// Refuses a value that a key cannot have.
pub(super) fn check_value(key: &str, value: &Value) -> Result<()> {
    if matches!(value, Value::String(s) if s == REMOVED) {
        return Err(Error::invalid(format!(
            "the value of '{key}' is the string '{REMOVED}', which means removal on the wire; use remove()"
        )));
    }
    check_depth(value, || format!("the value of '{key}'"))
}

/// Applies operations in order to the value found; `None` if they write nothing.
#[doc(hidden)]
pub fn resolve(key: &str, operations: &[Operation], found: Option<&Value>) -> Result<Option<Change>, Refused> {
    let mut value = found.map(Cow::Borrowed);
    let mut written = false;
    for operation in operations {
        match operation {
            Operation::Set(new) => value = Some(Cow::Borrowed(new)),
            Operation::Remove => value = None,
            Operation::Increment(by) => value = Some(Cow::Owned(incremented(key, value.as_deref(), by)?)),
            Operation::Append(item) => value = Some(Cow::Owned(appended(key, value, item)?)),
            Operation::MergePatch(patch) => {
                let mut target = value.map_or(Value::Null, Cow::into_owned);
                merge_patch(&mut target, patch);
                value = Some(Cow::Owned(target));
            }
            Operation::SetIfAbsent(_) if value.is_some() => continue,
            Operation::SetIfAbsent(new) => value = Some(Cow::Borrowed(new)),
            Operation::Expect(expected) => {
                guard::check(key, value.as_deref(), Some(expected))?;
                continue;
            }
            Operation::ExpectAbsent => {
                guard::check(key, value.as_deref(), None)?;
                continue;
            }
        }
        written = true;
    }
    Ok(written.then(|| value.map_or(Change::Remove, |value| Change::Set(value.into_owned()))))
}

fn incremented(key: &str, found: Option<&Value>, by: &Number) -> Result<Value, Refused> {
    let zero = Number::from(0);
    let found = match found {
        None => &zero,
        Some(Value::Number(number)) => number,
        Some(other) => return Err(unfit(key, other, "only a number can be incremented")),
    };
    let message = || format!("incrementing '{key}' gives a number that does not fit 64 bits; nothing was changed");
    let sum = sum(found, by).ok_or_else(|| Refused::Impossible(Error::precondition(message())))?;
    Ok(Value::Number(sum))
}

fn sum(a: &Number, b: &Number) -> Option<Number> {
    let integer = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => {
            let sum = a + b;
            i64::try_from(sum).map(Number::from).or_else(|_| u64::try_from(sum).map(Number::from)).ok()
        }
        // Infinite sums have no JSON number.
        _ => Number::from_f64(a.as_f64()? + b.as_f64()?),
    }
}

fn appended(key: &str, found: Option<Cow<'_, Value>>, item: &Value) -> Result<Value, Refused> {
    let mut list = match found.map(Cow::into_owned) {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(unfit(key, &other, "only a list can be appended to")),
    };
    list.push(item.clone());
    Ok(Value::Array(list))
}

/// Applies a merge patch (RFC 7386, section 2). The result is not nested more deeply than the two values, whose depths
/// were checked.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else {
        return;
    };
    for (name, change) in patch {
        if change.is_null() {
            members.shift_remove(name);
        } else {
            merge_patch(members.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

/// Returns the error for a value that does not fit. It names the value's kind, never the value.
fn unfit(key: &str, found: &Value, rule: &str) -> Refused {
    let kind = kind_of(found);
    Refused::Impossible(Error::precondition(format!("the value of '{key}' is {kind}; {rule}")))
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
