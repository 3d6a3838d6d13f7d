//! The changes of one event: values set and keys removed, in the order written.

use std::fmt;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::de::{MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::change::{Change, check_change};
use super::guard::Refused;
use super::operation::{kind_of, resolve};
use super::{Operation, Scope, check_key, to_value};
use crate::error::{Error, Result};

/// The error when a delta with operations is serialized to JSON.
const OPERATIONS_HAVE_NO_JSON: &str =
    "operations on state have no form in JSON before they are committed; append the event and write what is given back";

/// The form of a removal inside `stateDelta` on the wire; ADK for Java and Kotlin use the same string.
pub const REMOVED: &str = "__ADK_SENTINEL_REMOVED__";

/// Changes to state keys (with prefix), in the order written; a later write to a key replaces the earlier.
///
/// A change may also be [operations](Operation), such as [`increment`](Self::increment) or a guard: the store applies
/// them to the values it finds when it commits. Several operations on one key are applied in order.
///
/// ```
/// use scratchbook::StateDelta;
///
/// let mut delta = StateDelta::new();
/// delta.set("task_status", "active")?;
/// delta.set("user:login_count", 1)?;
/// delta.remove("draft")?;
/// assert_eq!(
///     serde_json::to_string(&delta).unwrap(),
///     r#"{"task_status":"active","user:login_count":1,"draft":"__ADK_SENTINEL_REMOVED__"}"#,
/// );
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDelta {
    changes: IndexMap<String, Change>,
}

impl StateDelta {
    /// Creates a delta without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key to a value: anything that serializes to JSON.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key over 1,024 bytes or with U+0000, for NaN, infinities and integers beyond 64 bits,
    /// for maps whose keys are not strings, and for the string that means removal on the wire.
    pub fn set(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        let key = key.into();
        check_key(&key)?;
        let value = to_value(&value).map_err(|e| e.context(format!("the value of '{key}'")))?;
        self.insert(key, Change::Set(value))
    }

    /// Works like [`set`](Self::set), in builder style.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn with(mut self, key: impl Into<String>, value: impl Serialize) -> Result<Self> {
        self.set(key, value)?;
        Ok(self)
    }

    /// Sets the keys of a scope to the fields of a value; keys without a field stay unchanged.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the value is neither a struct nor a map, and as [`set`](Self::set).
    pub fn set_scope(&mut self, scope: Scope, value: impl Serialize) -> Result<()> {
        let fields = match to_value(&value)? {
            Value::Object(fields) => fields,
            other => {
                let kind = kind_of(&other);
                return Err(Error::invalid(format!("the {}'s state is a JSON object, not {kind}", scope.as_str())));
            }
        };
        let mut delta = Self::new();
        fields.into_iter().try_for_each(|(name, value)| delta.set(scope.key(&name), value))?;
        self.merge(delta)
    }

    /// Works like [`set_scope`](Self::set_scope), in builder style.
    ///
    /// # Errors
    ///
    /// As [`set_scope`](Self::set_scope).
    pub fn with_scope(mut self, scope: Scope, value: impl Serialize) -> Result<Self> {
        self.set_scope(scope, value)?;
        Ok(self)
    }

    /// Removes a key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key over 1,024 bytes or with U+0000.
    pub fn remove(&mut self, key: impl Into<String>) -> Result<()> {
        let key = key.into();
        check_key(&key)?;
        self.insert(key, Change::Remove)
    }

    /// Adds a change to a key, after those that the delta already has for it.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set) and, for operations, as [`apply`](Self::apply).
    pub fn insert(&mut self, key: String, change: Change) -> Result<()> {
        check_change(&key, &change)?;
        self.put(key, change)
    }

    /// Adds a change after an existing one to the same key. After an error the delta is unchanged.
    fn put(&mut self, key: String, change: Change) -> Result<()> {
        match self.changes.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(change);
            }
            Entry::Occupied(entry) => {
                let index = entry.index();
                if let Some((key, earlier)) = self.changes.get_index_mut(index) {
                    earlier.add(key, change)?;
                }
            }
        }
        Ok(())
    }

    /// Applies an operation to the value of the key when the delta is committed, after the changes that the delta
    /// already makes to the key.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid key or value; if the delta already sets or removes the key, also the errors of
    /// the operation on that value: `FailedPrecondition` if it does not fit, `Conflict` for a failed guard.
    pub fn apply(&mut self, key: impl Into<String>, operation: Operation) -> Result<()> {
        self.insert(key.into(), Change::Apply(vec![operation]))
    }

    /// Returns the change to a key, if there is one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Change> {
        self.changes.get(key)
    }

    /// Whether a key is changed.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.changes.contains_key(key)
    }

    /// Returns the number of changed keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the keys and their changes, in the order first written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Change)> {
        self.changes.iter().map(|(key, change)| (key.as_str(), change))
    }

    /// Adds every change of a later delta. For keys that both deltas change, the later delta's values win, and its
    /// operations are applied after this delta's changes.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply), for an operation of the later delta on a key that this delta sets or removes. This
    /// delta is then unchanged.
    pub fn merge(&mut self, later: Self) -> Result<()> {
        let changes = self.followed_by(later)?;
        self.extend(changes);
        Ok(())
    }

    /// Returns the combined change for each key of a later delta.
    pub(super) fn followed_by(&self, later: Self) -> Result<Vec<(String, Change)>> {
        let follow = |(key, change): (String, Change)| {
            let change = match self.changes.get(&key) {
                Some(earlier) => earlier.clone().then(&key, change)?,
                None => change,
            };
            Ok((key, change))
        };
        later.changes.into_iter().map(follow).collect()
    }

    /// Replaces the changes of these keys.
    pub(super) fn extend(&mut self, changes: Vec<(String, Change)>) {
        self.changes.extend(changes);
    }

    /// Whether any change has operations, whose results are only known in the commit.
    #[must_use]
    pub fn has_operations(&self) -> bool {
        self.changes.values().any(|change| change.operations().is_some())
    }

    /// Applies the operations to these values; the result contains only sets and removals. Keys without a resulting
    /// change are left out.
    ///
    /// Stores call this with the values they find in their commit.
    ///
    /// ```
    /// use scratchbook::StateDelta;
    /// use serde_json::json;
    ///
    /// let delta = StateDelta::new().with_increment("n", 2)?.with_append("log", "started")?.with_expect("open", true)?;
    /// let state = json!({"n": 40, "open": true});
    /// assert_eq!(delta.resolve(|key| state.get(key))?, StateDelta::new().with("n", 42)?.with("log", ["started"])?);
    /// # Ok::<(), scratchbook::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Conflict` for failed guards, with every such key in [`conflicts`](Error::conflicts); `FailedPrecondition` if an
    /// operation does not fit the value found or overflows 64 bits.
    pub fn resolve<'v>(&self, found: impl Fn(&str) -> Option<&'v Value>) -> Result<Self> {
        let (mut resolved, mut conflicts, mut impossible) = (Self::new(), Vec::new(), None);
        for (key, change) in &self.changes {
            let change = match change {
                Change::Apply(operations) => resolve(key, operations, found(key)),
                known => Ok(Some(known.clone())),
            };
            match change {
                Ok(change) => resolved.changes.extend(change.map(|change| (key.clone(), change))),
                Err(Refused::Guard(conflict)) => conflicts.push(*conflict),
                Err(Refused::Impossible(error)) => impossible = impossible.or(Some(error)),
            }
        }
        match (conflicts.is_empty(), impossible) {
            (false, _) => Err(Error::conflict(conflicts)),
            (true, Some(error)) => Err(error),
            (true, None) => Ok(resolved),
        }
    }

    /// Removes every change.
    pub fn clear(&mut self) {
        self.changes.clear();
    }

    #[doc(hidden)]
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.changes.retain(|key, _| keep(key));
    }

    /// Checks, key by key, a delta that was received over the wire or built by hand.
    pub(crate) fn check(&self) -> Result<()> {
        self.changes.iter().try_for_each(|(key, change)| check_change(key, change))
    }
}

impl TryFrom<Map<String, Value>> for StateDelta {
    type Error = Error;

    fn try_from(map: Map<String, Value>) -> Result<Self> {
        let mut delta = Self::new();
        for (key, value) in map {
            delta.insert(key, Change::Set(value))?;
        }
        Ok(delta)
    }
}

/// Reads `json!({...})` as a delta of values to set; the wire's removal string is refused here.
impl TryFrom<Value> for StateDelta {
    type Error = Error;

    fn try_from(value: Value) -> Result<Self> {
        match value {
            Value::Object(map) => map.try_into(),
            Value::Null => Ok(Self::new()),
            other => Err(Error::invalid(format!("state is a JSON object, not {}", kind_of(&other)))),
        }
    }
}

impl Serialize for StateDelta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, change) in &self.changes {
            match change {
                Change::Set(value) => map.serialize_entry(key, value)?,
                Change::Remove => map.serialize_entry(key, REMOVED)?,
                Change::Apply(_) => return Err(S::Error::custom(format_args!("{OPERATIONS_HAVE_NO_JSON} ('{key}')"))),
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for StateDelta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChangesVisitor;
        impl<'de> Visitor<'de> for ChangesVisitor {
            type Value = StateDelta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of state keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StateDelta, A::Error> {
                let mut delta = StateDelta::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    let change = match value {
                        Value::String(s) if s == REMOVED => Change::Remove,
                        value => Change::Set(value),
                    };
                    delta.insert(key, change).map_err(serde::de::Error::custom)?;
                }
                Ok(delta)
            }
        }
        deserializer.deserialize_map(ChangesVisitor)
    }
}

/// A delta split by scope; the names are without prefix, and `temp:` keys are dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScopedDelta {
    /// Changes to the app's keys, by name without `app:`.
    pub app: StateDelta,
    /// Changes to the user's keys, by name without `user:`.
    pub user: StateDelta,
    /// Changes to the session's own keys.
    pub session: StateDelta,
}

/// Splits a delta by scope, as ADK's function of this name does.
///
/// ```
/// use scratchbook::state::extract_state_delta;
/// use scratchbook::StateDelta;
///
/// let delta = StateDelta::new()
///     .with("app:version", "1.0.0")?
///     .with("user:language", "en")?
///     .with("step", 3)?
///     .with("temp:raw", "gone")?;
/// let scoped = extract_state_delta(&delta);
/// assert_eq!(scoped.app, StateDelta::new().with("version", "1.0.0")?);
/// assert_eq!(scoped.user, StateDelta::new().with("language", "en")?);
/// assert_eq!(scoped.session, StateDelta::new().with("step", 3)?);
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[must_use]
pub fn extract_state_delta(delta: &StateDelta) -> ScopedDelta {
    let mut scoped = ScopedDelta::default();
    for (key, change) in &delta.changes {
        let (scope, name) = Scope::split(key);
        let part = match scope {
            Scope::App => &mut scoped.app,
            Scope::User => &mut scoped.user,
            Scope::Session => &mut scoped.session,
            Scope::Temp => continue,
        };
        part.changes.insert(name.to_owned(), change.clone());
    }
    scoped
}
