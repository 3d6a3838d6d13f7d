//! The schema of an agent's input when the agent is a tool.

use std::fmt;

use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;
use scratchbook_core::state::to_value;

/// A JSON Schema, and the check of arguments against it.
#[derive(Clone)]
pub(crate) struct InputSchema {
    pub(crate) schema: Value,
    check: fn(Map<String, Value>) -> Result<Value>,
}

impl InputSchema {
    /// Returns the schema of arguments that are parsed as a type. Missing arguments get the type's defaults.
    pub(super) fn of_type<T: JsonSchema + DeserializeOwned + Serialize>() -> Self {
        let check = |args| match serde_json::from_value::<T>(Value::Object(args)) {
            Ok(input) => to_value(&input),
            Err(e) => {
                let why = json::describe(&e);
                Err(Error::invalid(format!("the arguments do not fit the agent's input type: {why}")))
            }
        };
        Self { schema: schema_for!(T).to_value(), check }
    }

    /// Returns a schema that only the calling model applies.
    pub(super) fn of_schema(schema: Value) -> Self {
        Self { schema, check: |args| Ok(Value::Object(args)) }
    }

    /// Returns the agent's message for these arguments: their JSON, without members that are null.
    pub(crate) fn message(&self, args: Map<String, Value>) -> Result<String> {
        let mut input = (self.check)(args)?;
        drop_nulls(&mut input);
        Ok(input.to_string())
    }
}

/// Removes the members of objects that are null.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

impl fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InputSchema").field(&self.schema).finish()
    }
}
