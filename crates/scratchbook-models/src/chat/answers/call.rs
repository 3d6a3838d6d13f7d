//! The function calls and the finish reason of an answer, which together determine the calls to make.

use serde_json::{Map, Value};

/// A function call whose arguments arrive as fragments of text or as a whole.
#[derive(Debug, Default)]
pub(in crate::chat) struct PartialCall {
    /// The call's index in the answer, if the provider numbers them.
    pub(in crate::chat) index: Option<u64>,
    pub(in crate::chat) id: String,
    pub(in crate::chat) name: String,
    pub(in crate::chat) text: String,
    pub(in crate::chat) whole: Option<Value>,
    /// What the provider has attached to the call.
    pub(in crate::chat) data: Map<String, Value>,
}

impl PartialCall {
    /// Returns the arguments, if they are an object and the call has a name. Missing arguments count as an empty
    /// object, except at the token limit, where the arguments may have been cut off.
    pub(in crate::chat) fn arguments(&self, finish: Finish) -> Option<Map<String, Value>> {
        if self.name.is_empty() {
            return None;
        }
        let none = self.text.trim().is_empty();
        match &self.whole {
            Some(Value::Object(args)) if none => return Some(args.clone()),
            None | Some(Value::Null) if none && finish != Finish::MaxTokens => return Some(Map::new()),
            _ if none => return None,
            _ => {}
        }
        match scratchbook_core::json::read_marked(&self.text) {
            Ok(Value::Object(args)) => Some(args),
            _ => None,
        }
    }
}

/// Returns the error for calls whose arguments are not a JSON object.
pub(super) fn void(names: &[String], finish: Finish) -> (&'static str, String) {
    if finish == Finish::MaxTokens {
        let message = "Tool call arguments were truncated and could not be parsed as valid JSON. Increase \
                       `max_output_tokens` and retry.";
        return (finish.as_str(), message.to_owned());
    }
    let names = names.join(", ");
    (
        "MALFORMED_FUNCTION_CALL",
        format!("Arguments for the following function calls were not a valid JSON object: {names}"),
    )
}

/// Why an answer ended, with ADK's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chat) enum Finish {
    Stop,
    MaxTokens,
    Safety,
    Other,
}

impl Finish {
    pub(in crate::chat) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "STOP",
            Self::MaxTokens => "MAX_TOKENS",
            Self::Safety => "SAFETY",
            Self::Other => "OTHER",
        }
    }

    pub(in crate::chat) fn message(self) -> String {
        match self {
            Self::MaxTokens => "Maximum tokens reached".to_owned(),
            other => format!("Finished with {}", other.as_str()),
        }
    }
}
