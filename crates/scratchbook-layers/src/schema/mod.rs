//! State held to JSON Schemas: what a key, or a whole scope, may be.
//!
//! # Layout
//!
//! - `mod.rs`: [`StateSchema`], put together in code; `document.rs` reads one from JSON.
//! - `compiled.rs`: a schema made ready, and whether each key can be judged by itself.
//! - `check.rs`: what a write has to hold to; `breach.rs` says what is wrong, without the value.
//! - `adapter.rs`: [`WithStateSchema`], a service whose writes are checked.

mod adapter;
mod breach;
mod check;
mod compiled;
mod document;

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use scratchbook_core::error::{Error, Result};
use scratchbook_core::state::{Scope, check_key};

pub use adapter::WithStateSchema;

use compiled::Compiled;

/// What the state of an app may be: JSON Schemas for single keys and for whole scopes, with a version.
///
/// Schemas are of the draft that their `$schema` names, 2020-12 otherwise; `format` is checked where the name is known.
/// References stay inside a schema: nothing is fetched. A [`WithStateSchema`] checks what is written by it.
///
/// Keys that ADK keeps in the state for itself are not a scope's affair: names that begin with `__`, `_adk_`, `adk_` or
/// `_code_exec`, or end with `_existing_exchanged_credential` or `_token_cache`. One that has a schema of its own is
/// checked by that. `temp:` keys have no schema.
///
/// ```
/// use scratchbook::{Scope, StateSchema};
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
    /// A schema that allows everything. The version is yours, and told in errors.
    #[must_use]
    pub fn new(version: u64) -> Self {
        Self { version, scopes: BTreeMap::new(), keys: BTreeMap::new() }
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Holds all keys of a scope, as one object whose names have no prefix, to a schema.
    ///
    /// Where its top level says nothing but `type`, `properties`, `patternProperties`, `additionalProperties` and
    /// `propertyNames`, each key is judged by itself. For all others, as one with `required`, a write to the scope has
    /// the store read every key of it, in the commit.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a schema that is none, says where; and for `temp:`.
    pub fn with_scope(mut self, scope: Scope, schema: Value) -> Result<Self> {
        refuse_temp(scope)?;
        let compiled = Compiled::new(&schema).map_err(|e| e.context(format!("the schema of '{}'", scope.as_str())))?;
        self.scopes.insert(scope, compiled);
        Ok(self)
    }

    /// Holds the value of a key, named with its prefix, to a schema.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a schema that is none, says where; for a bad key, and for `temp:` keys.
    pub fn with_key(mut self, key: &str, schema: Value) -> Result<Self> {
        check_key(key)?;
        let (scope, name) = Scope::split(key);
        refuse_temp(scope)?;
        let compiled = Compiled::new(&schema).map_err(|e| e.context(format!("the schema of the key '{key}'")))?;
        self.keys.entry(scope).or_default().insert(name.to_owned(), compiled);
        Ok(self)
    }

    /// Holds the value of a key to what a type of yours reads.
    ///
    /// # Errors
    ///
    /// As [`with_key`](Self::with_key).
    pub fn with_type<T: JsonSchema>(self, key: &str) -> Result<Self> {
        self.with_key(key, schema_of::<T>())
    }

    /// Holds all keys of a scope to what a type of yours reads, whose fields are the names without prefix.
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

    /// The schema of a scope, for a key that it is about.
    fn scope_of(&self, scope: Scope, name: &str) -> Option<&Compiled> {
        self.scopes.get(&scope).filter(|_| !is_of_framework(name))
    }
}

/// Its version and what has a schema; the schemas are long.
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

/// Whether ADK keeps a key of this name for itself.
fn is_of_framework(name: &str) -> bool {
    ["__", "_adk_", "adk_", "_code_exec"].iter().any(|prefix| name.starts_with(prefix))
        || ["_existing_exchanged_credential", "_token_cache"].iter().any(|suffix| name.ends_with(suffix))
}
