//! A call's result as the model receives it, with the names that ADK uses.

use rmcp::model::CallToolResult;
use serde_json::{Map, Value};

use scratchbook_core::error::{Error, Result};

/// Values that the server owns. Their keys are not changed.
const OPAQUE: [&str; 4] = ["_meta", "inputSchema", "outputSchema", "structuredContent"];

/// Returns the result as an object: `content`, `isError`, and `structuredContent` and `meta` if the server sent them.
pub(crate) fn dumped(result: &CallToolResult) -> Result<Value> {
    let written = serde_json::to_value(result)
        .map_err(|error| Error::internal("a tool's answer cannot be written as JSON").with_source(error))?;
    let mut written = with_meta(written);
    if let Some(fields) = written.as_object_mut() {
        fields.remove("resultType");
        fields.entry("isError").or_insert(Value::Bool(false));
    }
    Ok(written)
}

/// Renames `_meta` to `meta`, which is its name in ADK.
fn with_meta(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = fields.into_iter().map(|(key, value)| match key.as_str() {
                "_meta" => ("meta".to_owned(), value),
                key if OPAQUE.contains(&key) => (key.to_owned(), value),
                _ => (key, with_meta(value)),
            });
            renamed.collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(with_meta).collect(),
        other => other,
    }
}
