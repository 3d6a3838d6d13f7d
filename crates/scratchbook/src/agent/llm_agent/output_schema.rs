//! The shape of an agent's answer.

use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::json;
use crate::tool::SetModelResponseTool;

/// A JSON Schema, the check that a type of the caller's makes, and the tool that takes such an answer.
#[derive(Clone)]
pub(in crate::agent) struct OutputSchema {
    pub(in crate::agent) schema: Value,
    pub(in crate::agent) check: fn(&Value) -> Result<()>,
    /// For models that take no schema beside tools.
    pub(in crate::agent) tool: Arc<SetModelResponseTool>,
}

impl OutputSchema {
    /// Answers that are read as a type.
    pub(super) fn of_type<T: JsonSchema + DeserializeOwned>() -> Self {
        let check = |value: &Value| match T::deserialize(value) {
            Ok(_) => Ok(()),
            Err(e) => {
                let why = json::describe(&e);
                Err(Error::invalid(format!("the model's answer does not fit the output type: {why}")))
            }
        };
        Self::new(schema_for!(T).to_value(), check)
    }

    /// Answers that the model holds to a schema; any JSON is taken.
    pub(super) fn of_schema(schema: Value) -> Self {
        Self::new(schema, |_| Ok(()))
    }

    fn new(schema: Value, check: fn(&Value) -> Result<()>) -> Self {
        let tool = Arc::new(SetModelResponseTool::new(&schema, check));
        Self { schema, check, tool }
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.schema).finish()
    }
}
