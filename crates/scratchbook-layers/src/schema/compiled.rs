//! A schema made ready.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::breach::masked;
use scratchbook_core::error::{Error, Result};

/// What a schema may say on its top level so that each key can be judged by itself: about keys one by one, and about
/// nothing.
const OF_SINGLE_KEYS: &[&str] = &[
    "type",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];

#[derive(Clone, Debug)]
pub(super) struct Compiled {
    validator: Arc<Validator>,
    is_of_single_keys: bool,
}

impl Compiled {
    pub(super) fn new(schema: &Value) -> Result<Self> {
        let options = jsonschema::options().should_validate_formats(true);
        let validator = options.build(schema).map_err(|e| {
            let place = match e.instance_path().as_str() {
                "" => "its top level".to_owned(),
                path => path.to_owned(),
            };
            Error::invalid(format!("no JSON Schema, at {place}: {}", masked(&e, "what stands there")))
        })?;
        let is_of_single_keys = match schema {
            Value::Object(schema) => schema.keys().all(|keyword| OF_SINGLE_KEYS.contains(&keyword.as_str())),
            _ => true,
        };
        Ok(Self { validator: Arc::new(validator), is_of_single_keys })
    }

    pub(super) fn validator(&self) -> &Validator {
        &self.validator
    }

    /// Whether an object fits when each of its members does, alone in an object.
    pub(super) fn is_of_single_keys(&self) -> bool {
        self.is_of_single_keys
    }
}
