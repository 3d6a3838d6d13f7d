//! Operations on a value that is only known in the commit, and their results.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

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
    let mut resolution = Resolution::new(found.map(Cow::Borrowed));
    resolution.apply(key, operations)?;
    Ok(resolution.into_change())
}

/// A value to which operations are applied one after the other. All of them together take time that is linear in their
/// size and the size of the value found, which is copied once.
#[derive(Debug)]
pub(crate) struct Resolution<'a> {
    value: Option<Cow<'a, Value>>,
    /// The members that merge patches have removed from the value, and that are still in it as `null`.
    removed: RemovedMembers,
    is_written: bool,
}

impl<'a> Resolution<'a> {
    pub(crate) fn new(found: Option<Cow<'a, Value>>) -> Self {
        Self { value: found, removed: RemovedMembers::default(), is_written: false }
    }

    /// Applies operations in order. The operation that fails changes nothing; those before it have been applied.
    pub(crate) fn apply(&mut self, key: &str, operations: &'a [Operation]) -> Result<(), Refused> {
        for operation in operations {
            match operation {
                Operation::Set(new) => self.replace(Some(Cow::Borrowed(new))),
                Operation::Remove => self.replace(None),
                Operation::Increment(by) => {
                    let sum = incremented(key, self.value.as_deref(), by)?;
                    self.replace(Some(Cow::Owned(sum)));
                }
                Operation::Append(item) => match self.value.as_mut() {
                    None => self.value = Some(Cow::Owned(Value::Array(vec![item.clone()]))),
                    Some(found) if found.is_array() => {
                        if let Value::Array(list) = found.to_mut() {
                            list.push(item.clone());
                        }
                    }
                    Some(other) => return Err(unfit(key, other, "only a list can be appended to")),
                },
                Operation::MergePatch(patch) => {
                    let value = self.value.get_or_insert(Cow::Owned(Value::Null));
                    merge_patch(value.to_mut(), patch, &mut self.removed);
                }
                Operation::SetIfAbsent(_) if self.value.is_some() => continue,
                Operation::SetIfAbsent(new) => self.replace(Some(Cow::Borrowed(new))),
                Operation::Expect(expected) => {
                    self.drop_removed();
                    guard::check(key, self.value.as_deref(), Some(expected))?;
                    continue;
                }
                Operation::ExpectAbsent => {
                    self.drop_removed();
                    guard::check(key, self.value.as_deref(), None)?;
                    continue;
                }
            }
            self.is_written = true;
        }
        Ok(())
    }

    fn replace(&mut self, value: Option<Cow<'a, Value>>) {
        self.value = value;
        self.removed = RemovedMembers::default();
    }

    fn drop_removed(&mut self) {
        if let Some(Cow::Owned(value)) = &mut self.value {
            std::mem::take(&mut self.removed).drop_from(value);
        }
    }

    /// Returns the value, as it is after the operations.
    pub(super) fn into_value(mut self) -> Option<Value> {
        self.drop_removed();
        self.value.map(Cow::into_owned)
    }

    /// Returns the change that the operations make; `None` if they write nothing.
    pub(crate) fn into_change(self) -> Option<Change> {
        self.is_written.then(|| self.into_value().map_or(Change::Remove, Change::Set))
    }
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

/// The members that merge patches have removed from an object, by name, and from the objects in it.
///
/// Taking a member out of an object moves all members behind it. So they stay until the last patch, as `null`, and are
/// then taken out together. A member that is set again meanwhile keeps its place among the others.
#[derive(Debug, Default)]
struct RemovedMembers {
    names: HashSet<String>,
    below: HashMap<String, Self>,
}

impl RemovedMembers {
    fn drop_from(self, value: &mut Value) {
        let Value::Object(members) = value else { return };
        if !self.names.is_empty() {
            members.retain(|name, _| !self.names.contains(name));
        }
        for (name, below) in self.below {
            if let Some(member) = members.get_mut(&name) {
                below.drop_from(member);
            }
        }
    }
}

/// Applies a merge patch (RFC 7386, section 2). The result is not nested more deeply than the two values, whose depths
/// were checked.
fn merge_patch(target: &mut Value, patch: &Value, removed: &mut RemovedMembers) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        *removed = RemovedMembers::default();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
        *removed = RemovedMembers::default();
    }
    let Value::Object(members) = target else {
        return;
    };
    for (name, change) in patch {
        if change.is_null() {
            if let Some(member) = members.get_mut(name) {
                *member = Value::Null;
                removed.names.insert(name.clone());
                removed.below.remove(name);
            }
            continue;
        }
        removed.names.remove(name);
        let member = members.entry(name.as_str()).or_insert(Value::Null);
        if change.is_object() {
            merge_patch(member, change, removed.below.entry(name.clone()).or_default());
        } else {
            *member = change.clone();
            removed.below.remove(name);
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
