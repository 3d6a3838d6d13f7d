//! `get_user_choice`: the tool with which a model lets the user choose.

use serde_json::{Map, Value, json};

use super::FunctionTool;
use crate::agent::ToolContext;

/// Returns ADK's tool `get_user_choice`: a long-running tool whose call has the options. The agent's turn ends, and the
/// next message has the user's choice as a function response with the id of the call.
///
/// ```
/// use scratchbook::agent::{Tool, get_user_choice};
///
/// assert!(get_user_choice().is_long_running());
/// ```
#[must_use]
pub fn get_user_choice() -> FunctionTool {
    let description = "Provides the options to the user and asks them to choose one.";
    let run = |_: Map<String, Value>, _: ToolContext| async move { Ok(Value::Null) };
    let schema = json!({
        "type": "object",
        "title": "get_user_choiceParams",
        "properties": {"options": {"type": "array", "title": "Options", "items": {"type": "string"}}},
        "required": ["options"],
    });
    FunctionTool::new("get_user_choice", description, run).with_parameters_json_schema(schema).long_running()
}
