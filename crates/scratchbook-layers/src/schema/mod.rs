//! JSON Schemas for the state of an app: for single keys and for whole scopes.
//!
//! # Layout
//!
//! - `mod.rs`: [`StateSchema`], built in code; `document.rs` reads one from JSON.
//! - `compiled.rs`: a compiled schema, and whether its keys can be validated one by one.
//! - `check.rs`: validates writes; `violation.rs` describes errors without showing values.
//! - `layer.rs`: [`WithStateSchema`], a service whose writes are validated.

mod check;
mod compiled;
mod document;
mod layer;
mod violation;

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use scratchbook_core::error::{Error, Result};
use scratchbook_core::state::{Scope, check_key};

pub use layer::WithStateSchema;

use compiled::Compiled;

/// JSON Schemas for the state of an app, for single keys and for whole scopes, with a version.
///
/// The draft of a schema is set by its `$schema`; the default is 2020-12. `format` is validated if its name is known.
/// References stay inside a schema: nothing is fetched. A [`WithStateSchema`] validates the writes that go through it.
///
/// The schema of a scope does not cover keys that ADK uses for itself: names that begin with `__`, `_adk_`, `adk_`
/// or `_code_exec`, or end with `_existing_exchanged_credential` or `_token_cache`. Such a key can have a schema of
/// its own. `temp:` keys have no schema.
///
/// ```
/// use scratchbook::layer::StateSchema;
/// use scratchbook::Scope;
/// use serde_json::json;
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Cart {
///     items: Vec<String>,
/// }
///
/// let schema = StateSchema::new(3)
///     .with_type::<Cart>("user:cart")?
///     .with_key("step", json!({"type": "integer", "minimum": 0}))?
///     .with_scope(Scope::App, json!({"properties": {"open": {"type": "boolean"}}, "additionalProperties": false}))?;
/// assert_eq!(schema.version(), 3);
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone)]
pub struct StateSchema {
    version: u64,
    scopes: BTreeMap<Scope, Compiled>,
    keys: BTreeMap<Scope, BTreeMap<String, Compiled>>,
}

impl StateSchema {
    /// Creates a schema that allows everything. You choose the version, which appears in errors.
    #[must_use]
    pub fn new(version: u64) -> Self {
        Self { version, scopes: BTreeMap::new(), keys: BTreeMap::new() }
    }

    /// Returns the version of the schema.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Sets the schema of a scope. The scope is validated as one object, whose names have no prefix.
    ///
    /// If the schema's top level has only `type`, `properties`, `patternProperties`, `additionalProperties` and
    /// `propertyNames`, each key is validated by itself. With any other keyword, such as `required`, a write to the
    /// scope makes the store read all of its keys in the commit.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the schema is invalid, and for the scope `temp:`. The message says where the schema is
    /// invalid.
    pub fn with_scope(mut self, scope: Scope, schema: Value) -> Result<Self> {
        refuse_temp(scope)?;
        let compiled = Compiled::new(&schema).map_err(|e| e.context(format!("the schema of '{}'", scope.as_str())))?;
        self.scopes.insert(scope, compiled);
        Ok(self)
    }

    /// Sets the schema of a key, named with its prefix.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the schema or the key is invalid, and for `temp:` keys. The message says where the schema
    /// is invalid.
    pub fn with_key(mut self, key: &str, schema: Value) -> Result<Self> {
        check_key(key)?;
        let (scope, name) = Scope::split(key);
        refuse_temp(scope)?;
        let compiled = Compiled::new(&schema).map_err(|e| e.context(format!("the schema of the key '{key}'")))?;
        self.keys.entry(scope).or_default().insert(name.to_owned(), compiled);
        Ok(self)
    }

    /// Sets the schema of a key to the schema of the type `T`.
    ///
    /// # Errors
    ///
    /// As [`with_key`](Self::with_key).
    pub fn with_type<T: JsonSchema>(self, key: &str) -> Result<Self> {
        self.with_key(key, schema_of::<T>())
    }

    /// Sets the schema of a scope to the schema of the type `T`. The fields of `T` are the keys without their prefix.
    ///
    /// # Errors
    ///
    /// As [`with_scope`](Self::with_scope).
    pub fn with_scope_type<T: JsonSchema>(self, scope: Scope) -> Result<Self> {
        self.with_scope(scope, schema_of::<T>())
    }

    fn key(&self, scope: Scope, name: &str) -> Option<&Compiled> {
        self.keys.get(&scope)?.get(name)
    }

    /// Returns the schema of a scope that covers a key.
    fn scope_of(&self, scope: Scope, name: &str) -> Option<&Compiled> {
        self.scopes.get(&scope).filter(|_| !is_of_framework(name))
    }
}

/// Shows the version and the names of the scopes and keys with schemas. The schemas themselves would be too long.
impl fmt::Debug for StateSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |keys: &BTreeMap<String, Compiled>| keys.keys().cloned().collect::<Vec<_>>();
        let keys: BTreeMap<_, _> = self.keys.iter().map(|(scope, keys)| (scope, names(keys))).collect();
        let scopes: Vec<_> = self.scopes.keys().collect();
        f.debug_struct("StateSchema")
            .field("version", &self.version)
            .field("scopes", &scopes)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    SchemaGenerator::default().into_root_schema_for::<T>().into()
}

fn refuse_temp(scope: Scope) -> Result<()> {
    match scope {
        Scope::Temp => Err(Error::invalid("'temp:' keys are stored nowhere and have no schema; name another scope")),
        _ => Ok(()),
    }
}

/// Returns whether ADK uses a key of this name for itself.
fn is_of_framework(name: &str) -> bool {
    ["__", "_adk_", "adk_", "_code_exec"].iter().any(|prefix| name.starts_with(prefix))
        || ["_existing_exchanged_credential", "_token_cache"].iter().any(|suffix| name.ends_with(suffix))
}
