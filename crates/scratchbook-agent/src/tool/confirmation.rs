//! The user's consent to a tool call: how it is requested and answered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;

/// A tool call's request for the user's consent, and the user's answer.
///
/// A tool requests consent with [`FunctionTool::require_confirmation`](crate::tool::FunctionTool::require_confirmation)
/// or [`ToolContext::request_confirmation`](crate::agent::ToolContext::request_confirmation). The run then ends with a
/// call of [`CALL_NAME`](Self::CALL_NAME), whose arguments are `originalFunctionCall` and `toolConfirmation`. The user
/// answers with a function response that has the same id as this call:
///
/// ```
/// use scratchbook::agent::ToolConfirmation;
/// use scratchbook::content::Part;
/// use scratchbook::Content;
/// use serde_json::json;
///
/// let yes = ToolConfirmation { confirmed: true, ..ToolConfirmation::default() };
/// let answer = Part::function_response("adk-1", ToolConfirmation::CALL_NAME, json!(yes));
/// let message = Content::new("user", vec![answer]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolConfirmation {
    /// The text that the user is shown.
    #[serde(default)]
    pub hint: String,
    /// Whether the user agrees.
    #[serde(default)]
    pub confirmed: bool,
    /// Further fields that the tool requests, and the user's values for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

impl ToolConfirmation {
    /// The name of the call that requests a confirmation. ADK uses the same name.
    pub const CALL_NAME: &str = "adk_request_confirmation";

    /// Reads a user's answer: the confirmation itself or, as ADK's clients send it, its JSON text under `response`.
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
