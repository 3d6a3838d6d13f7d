//! What one event changes: values set and keys removed, in the order written.

use std::fmt;

use indexmap::IndexMap;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Scope, check_key, to_value};
use crate::error::{Error, Result};
use crate::json::check_depth;

/// How a removal looks inside `stateDelta` on the wire; ADK for Java and Kotlin use the same string.
pub const REMOVED: &str = "__ADK_SENTINEL_REMOVED__";

/// What happens to one key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// The key has this value from now on. `null` is a value like any other.
    Set(Value),
    /// The key is gone.
    Remove,
}

impl Change {
    /// The value set, or `None` for a removal.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Set(value) => Some(value),
            Self::Remove => None,
        }
    }
}

/// Changes to state keys (prefixed), in the order written; a later write to a key replaces the earlier.
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
    /// A delta that changes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key to a value: anything that serializes to JSON.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key over 1,024 bytes or with U+0000, for NaN, infinities and integers beyond
    /// 64 bits, for maps whose keys are not strings, and for the string that means removal on the wire.
    pub fn set(&mut self, key: impl Into<String>, value: impl Serialize) -> Result<()> {
        let key = key.into();
        check_key(&key)?;
        let value = to_value(&value).map_err(|e| e.context(format!("the value of '{key}'")))?;
        self.insert(key, Change::Set(value))
    }

    /// [`set`](Self::set), for chains.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn with(mut self, key: impl Into<String>, value: impl Serialize) -> Result<Self> {
        self.set(key, value)?;
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

    /// Puts a change under a key.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn insert(&mut self, key: String, change: Change) -> Result<()> {
        check_change(&key, &change)?;
        self.changes.insert(key, change);
        Ok(())
    }

    /// The change to a key, if there is one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Change> {
        self.changes.get(key)
    }

    /// Whether a key is changed.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.changes.contains_key(key)
    }

    /// How many keys are changed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The keys and their changes, in the order first written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Change)> {
        self.changes.iter().map(|(key, change)| (key.as_str(), change))
    }

    /// Takes over every change of another delta, which wins where both change a key.
    pub fn merge(&mut self, later: Self) {
        self.changes.extend(later.changes);
    }

    /// Drops every change.
    pub fn clear(&mut self) {
        self.changes.clear();
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.changes.retain(|key, _| keep(key));
    }

    /// Checks what came over the wire or was built by hand, key by key.
    pub(crate) fn check(&self) -> Result<()> {
        self.changes.iter().try_for_each(|(key, change)| check_change(key, change))
    }
}

fn check_change(key: &str, change: &Change) -> Result<()> {
    check_key(key)?;
    match change {
        Change::Remove => Ok(()),
        Change::Set(Value::String(s)) if s == REMOVED => Err(Error::invalid(format!(
            "the value of '{key}' is the string '{REMOVED}', which means removal on the wire; use remove()"
        ))),
        Change::Set(value) => check_depth(value, || format!("the value of '{key}'")),
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

/// `json!({...})` as a delta of values to set; the wire's removal string is refused here.
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

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl Serialize for StateDelta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, change) in &self.changes {
            match change {
                Change::Set(value) => map.serialize_entry(key, value)?,
                Change::Remove => map.serialize_entry(key, REMOVED)?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for StateDelta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Changes;
        impl<'de> Visitor<'de> for Changes {
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
        deserializer.deserialize_map(Changes)
    }
}

/// A delta taken apart by scope; the names have lost their prefix and `temp:` keys are gone.
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
/// use scratchbook::{StateDelta, extract_state_delta};
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
