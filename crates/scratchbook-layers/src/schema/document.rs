//! Reads a schema from a document, as configuration files contain it.

use serde_json::{Map, Value};

use super::StateSchema;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;
use scratchbook_core::state::Scope;

impl StateSchema {
    /// Reads a JSON document: `version`; a schema for each of `session`, `user` and `app`; and `keys`, with schemas
    /// by prefixed key. Everything but `version` is optional.
    ///
    /// ```
    /// use scratchbook::layer::StateSchema;
    ///
    /// let schema = StateSchema::from_json(r#"{
    ///     "version": 3,
    ///     "user": {"properties": {"name": {"type": "string"}}},
    ///     "keys": {"user:cart": {"type": "object", "required": ["items"]}}
    /// }"#)?;
    /// assert_eq!(schema.version(), 3);
    ///
    /// let error = StateSchema::from_json(r#"{"version": 4, "keys": {"n": {"type": "whole"}}}"#).unwrap_err();
    /// assert!(error.to_string().contains("'n'") && error.to_string().contains("/type"));
    /// # Ok::<(), scratchbook::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the document is invalid; the message says where.
    pub fn from_json(text: &str) -> Result<Self> {
        let document: Map<String, Value> = json::from_str(text).map_err(|e| e.context("the state's schema"))?;
        let version = document.get("version").and_then(Value::as_u64);
        let version = version.ok_or_else(|| Error::invalid("the state's schema has no 'version', a whole number"))?;
        let mut schema = Self::new(version);
        for (name, value) in document {
            schema = match name.as_str() {
                "version" => schema,
                "session" => schema.with_scope(Scope::Session, value)?,
                "user" => schema.with_scope(Scope::User, value)?,
                "app" => schema.with_scope(Scope::App, value)?,
                "keys" => match value {
                    Value::Object(keys) => {
                        keys.into_iter().try_fold(schema, |schema, (key, value)| schema.with_key(&key, value))?
                    }
                    _ => return Err(Error::invalid("'keys' in the state's schema is an object of schemas by key")),
                },
                _ => {
                    return Err(Error::invalid(format!(
                        "'{name}' in the state's schema; it has 'version', 'session', 'user', 'app' and 'keys'"
                    )));
                }
            };
        }
        Ok(schema)
    }
}
