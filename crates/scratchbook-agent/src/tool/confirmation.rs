//! A user's consent to a tool call: how it is asked for, and what is answered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;

/// What a tool call wants confirmed, and what the user says to it.
///
/// A tool asks for it by [`FunctionTool::require_confirmation`](crate::tool::FunctionTool::require_confirmation) or
/// [`ToolContext::request_confirmation`](crate::agent::ToolContext::request_confirmation). The run then ends with a call of
/// [`CALL_NAME`](Self::CALL_NAME), whose arguments are `originalFunctionCall` and `toolConfirmation`. The user answers it
/// by a function response under the id of that call:
///
/// ```
/// use scratchbook::{Content, Part, ToolConfirmation};
/// use serde_json::json;
///
/// let yes = ToolConfirmation { confirmed: true, ..ToolConfirmation::default() };
/// let answer = Part::function_response("adk-1", ToolConfirmation::CALL_NAME, json!(yes));
/// let message = Content::new("user", vec![answer]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolConfirmation {
    /// What the user is told of it.
    #[serde(default)]
    pub hint: String,
    /// Whether the user agrees.
    #[serde(default)]
    pub confirmed: bool,
    /// What else the tool wants to know, and what the user says to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

impl ToolConfirmation {
    /// The name of the call by which a run asks for a confirmation: ADK's.
    pub const CALL_NAME: &str = "adk_request_confirmation";

    /// Reads what a user has answered: the confirmation itself, or, as ADK's clients have it, its text under `response`.
    pub(crate) fn from_response(response: &Map<String, Value>) -> Result<Self> {
        let read = match (response.len(), response.get("response")) {
            (1, Some(Value::String(text))) => json::from_str(text).map_err(|e| e.to_string()),
            _ => serde_json::from_value(Value::Object(response.clone())).map_err(|e| json::describe(&e)),
        };
        read.map_err(|why| {
            Error::invalid(format!("the answer is no confirmation, such as {{\"confirmed\": true}}: {why}"))
        })
    }
}
