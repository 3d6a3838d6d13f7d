//! A compiled schema.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::violation::masked;
use scratchbook_core::error::{Error, Result};

/// The top-level keywords of a schema whose keys can be validated one by one. They concern single keys, or do not
/// validate.
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

    /// Returns whether an object is valid if each of its members, alone in an object, is valid.
    pub(super) fn is_of_single_keys(&self) -> bool {
        self.is_of_single_keys
    }
}
