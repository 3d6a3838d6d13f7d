//! The schema of an agent's answer.

use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::SetModelResponseTool;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;

/// A JSON Schema, the check of an answer, and the tool that takes the answer.
#[derive(Clone)]
pub(in crate::agent) struct OutputSchema {
    pub(in crate::agent) schema: Value,
    check: fn(&Value) -> Result<()>,
    /// The tool for models that do not support a schema together with tools.
    pub(in crate::agent) tool: Arc<SetModelResponseTool>,
}

impl OutputSchema {
    /// Returns the schema for answers that are parsed as a type.
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

    /// Returns a schema that only the model applies. Any JSON is accepted as the answer.
    pub(super) fn of_schema(schema: Value) -> Self {
        Self::new(schema, |_| Ok(()))
    }

    /// Parses an answer that a model has written as text.
    pub(in crate::agent) fn parse(&self, text: &str) -> Result<Value> {
        let value = json::from_str(without_code_fence(text)).map_err(|e| e.context("the model's answer"))?;
        (self.check)(&value)?;
        Ok(value)
    }

    fn new(schema: Value, check: fn(&Value) -> Result<()>) -> Self {
        let tool = Arc::new(SetModelResponseTool::new(&schema, check));
        Self { schema, check, tool }
    }
}

/// Removes the Markdown code fence around an answer, since models write a fence even if only JSON was requested. The
/// rule is ADK's.
fn without_code_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    let inner = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    inner.trim()
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.schema).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::without_code_fence;

    #[test]
    fn a_code_fence_around_an_answer_is_taken_off() {
        for text in ["```json\n{\"a\": 1}\n```", " ```\n{\"a\": 1}``` \n", "```JSON {\"a\": 1}\n```", "{\"a\": 1}"] {
            assert_eq!(without_code_fence(text), "{\"a\": 1}", "{text}");
        }
        for text in ["", "```", "`````", "```json", "{}```"] {
            assert_eq!(without_code_fence(text), text);
        }
        assert_eq!(without_code_fence("``````"), "");
    }
}
