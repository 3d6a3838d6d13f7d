//! Committed state: an immutable view that is cheap to clone, whatever its size.

use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Change, Scope, StateDelta, resolve};
use crate::error::{Error, Result};
use crate::json;

/// The values of one scope by name, shared between all views of it.
#[doc(hidden)]
pub type ScopeMap = OrdMap<Arc<str>, Arc<Value>>;

/// Committed state as one map of prefixed keys: session, `user:`, `app:` and, within a run, `temp:`.
///
/// A view is a snapshot; clones share its values. It cannot be changed directly: only events change state.
///
/// ```compile_fail
/// # async fn example(service: scratchbook::InMemorySessionService) -> scratchbook::Result<()> {
/// use scratchbook::{CreateSessionConfig, SessionService};
///
/// let session = service.create_session("app", "user", CreateSessionConfig::default()).await?;
/// // ADK's documentation warns against this; here it does not compile.
/// session.state().set("key", "value")?;
/// # Ok(()) }
/// ```
///
/// ```compile_fail
/// # async fn example(service: scratchbook::InMemorySessionService) -> scratchbook::Result<()> {
/// # use scratchbook::{CreateSessionConfig, SessionService};
/// # let session = service.create_session("app", "user", CreateSessionConfig::default()).await?;
/// session.state()["key"] = "value".into();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateMap {
    scopes: [ScopeMap; 4],
    held: Held,
}

/// Something that lives as long as a state: a server's share of memory. It is no part of the state's value.
#[derive(Clone, Default)]
struct Held(Option<Arc<dyn Send + Sync>>);

impl PartialEq for Held {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Held" } else { "None" })
    }
}

impl StateMap {
    #[doc(hidden)]
    pub fn new(session: ScopeMap, user: ScopeMap, app: ScopeMap) -> Self {
        Self { scopes: [session, user, app, ScopeMap::new()], held: Held::default() }
    }

    /// Keeps something until this state and all its clones are dropped.
    #[doc(hidden)]
    #[must_use]
    pub fn with_held(mut self, held: Arc<dyn Send + Sync>) -> Self {
        self.held = Held(Some(held));
        self
    }

    /// Returns the value of a key, or `None` if it is absent. A stored `null` is `Some(Value::Null)`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let (scope, name) = Scope::split(key);
        self.scope(scope).get(name).map(Arc::as_ref)
    }

    /// Returns the value of a required key.
    ///
    /// # Errors
    ///
    /// `NotFound` names the key.
    pub fn require(&self, key: &str) -> Result<&Value> {
        self.get(key).ok_or_else(|| missing(key))
    }

    /// Returns the value of a key, deserialized, or `None` if it is absent. The float 1.0 is accepted for an integer.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the value does not match the type.
    pub fn get_as<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|value| read_as(key, value)).transpose()
    }

    /// Returns all keys of a scope, deserialized to a type whose fields have the keys' names without prefix.
    ///
    /// ```
    /// use scratchbook::{Scope, StateDelta, StateMap};
    /// use serde_json::json;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    /// struct Profile {
    ///     name: String,
    ///     visits: u64,
    /// }
    ///
    /// let state = json!({"step": 1, "user:name": "Ada", "user:visits": 3});
    /// let state = StateMap::from(state.as_object().unwrap().clone());
    /// let mut profile: Profile = state.scope_as(Scope::User)?;
    /// profile.visits += 1;
    /// let delta = StateDelta::new().with_scope(Scope::User, &profile)?;
    /// assert_eq!(delta, StateDelta::new().with("user:name", "Ada")?.with("user:visits", 4)?);
    /// # Ok::<(), scratchbook::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the keys do not match the type.
    pub fn scope_as<T: DeserializeOwned>(&self, scope: Scope) -> Result<T> {
        let values = self.scope(scope).iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
        let fields = MapDeserializer::<_, serde_json::Error>::new(values);
        let again = |e| {
            let fields = self.scope(scope).iter().map(|(name, value)| (name.to_string(), with_integers(value)));
            T::deserialize(Value::Object(fields.collect())).map_err(|_| e)
        };
        T::deserialize(fields).or_else(again).map_err(|e| {
            let (wanted, why) = (std::any::type_name::<T>(), json::describe(&e));
            Error::invalid(format!("the {}'s state is no {wanted}: {why}", scope.as_str()))
        })
    }

    /// Returns a view of the keys of one scope. This is as cheap as a clone.
    #[must_use]
    pub fn only(&self, scope: Scope) -> Self {
        let mut only = Self { held: self.held.clone(), ..Self::default() };
        only.scopes[scope as usize] = self.scope(scope).clone();
        only
    }

    /// Whether a key exists, even with the value `null`.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns the number of keys in all scopes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scopes.iter().map(OrdMap::len).sum()
    }

    /// Whether there are no keys in any scope.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns every key with its value: the keys of the session, the user, the app and the invocation, each sorted by
    /// name.
    pub fn iter(&self) -> impl Iterator<Item = (String, &Value)> {
        Scope::ALL.into_iter().flat_map(|scope| {
            self.scope(scope).iter().map(move |(name, value)| (scope.key(name).into_owned(), value.as_ref()))
        })
    }

    /// Returns a plain map of all keys.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        self.iter().map(|(key, value)| (key, value.clone())).collect()
    }

    /// Applies a delta of prefixed keys, `temp:` ones included.
    pub(crate) fn apply(&mut self, delta: &StateDelta) {
        for (key, change) in delta.iter() {
            self.apply_change(key, change);
        }
    }

    #[doc(hidden)]
    pub fn apply_change(&mut self, key: &str, change: &Change) {
        let (scope, name) = Scope::split(key);
        change_scope(&mut self.scopes[scope as usize], name, change);
    }

    fn scope(&self, scope: Scope) -> &ScopeMap {
        &self.scopes[scope as usize]
    }
}

/// Applies one change to the values of a scope; failing operations leave the key unchanged.
#[doc(hidden)]
pub fn change_scope(scope: &mut ScopeMap, name: &str, change: &Change) {
    match change {
        Change::Set(value) => {
            let value = Arc::new(value.clone());
            match scope.get_mut(name) {
                Some(known) => *known = value,
                None => drop(scope.insert(Arc::from(name), value)),
            }
        }
        Change::Remove => {
            scope.remove(name);
        }
        Change::Apply(operations) => {
            let after = resolve(name, operations, scope.get(name).map(Arc::as_ref)).ok().flatten();
            after.iter().for_each(|known| change_scope(scope, name, known));
        }
    }
}

pub(super) fn missing(key: &str) -> Error {
    Error::not_found(format!("the state has no key '{key}'"))
}

/// Deserializes a value. The error omits the cause, which would show the value.
pub(super) fn read_as<T: DeserializeOwned>(key: &str, value: &Value) -> Result<T> {
    T::deserialize(value).or_else(|e| T::deserialize(&with_integers(value)).map_err(|_| e)).map_err(|e| {
        let (wanted, why) = (std::any::type_name::<T>(), json::describe(&e));
        Error::invalid(format!("the value of '{key}' is no {wanted}: {why}"))
    })
}

/// Replaces whole floats by integers: other languages, and stores that only have floats, write 1.0 for 1.
fn with_integers(value: &Value) -> Value {
    /// Up to this number floats represent every integer.
    const MOST: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= MOST => Value::from(float as i64),
            _ => value.clone(),
        },
        Value::Array(values) => values.iter().map(with_integers).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), with_integers(value))).collect(),
        _ => value.clone(),
    }
}

impl From<Map<String, Value>> for StateMap {
    fn from(map: Map<String, Value>) -> Self {
        let mut state = Self::default();
        for (key, value) in map {
            let (scope, name) = Scope::split(&key);
            state.scopes[scope as usize].insert(Arc::from(name), Arc::new(value));
        }
        state
    }
}

impl Serialize for StateMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(&key, value)?;
        }
        map.end()
    }
}
