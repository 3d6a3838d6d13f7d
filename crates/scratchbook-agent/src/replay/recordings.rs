//! The file of a test case: requests to models with their answers, and tool calls with their responses, in google-adk's
//! YAML.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::LlmResponse;
use scratchbook_core::content::{Content, FunctionCall, FunctionResponse};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json::{self, camel_case};

/// The recordings of a test case, in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recordings {
    #[serde(default)]
    recordings: Vec<Recording>,
}

/// A recorded request or call of an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recording {
    user_message_index: u64,
    pub(super) agent_name: String,
    pub(super) llm_recording: Option<LlmRecording>,
    pub(super) tool_recording: Option<ToolRecording>,
}

/// A recorded request to a model, with the answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LlmRecording {
    pub(super) llm_request: RecordedRequest,
    llm_responses: Vec<Map<String, Value>>,
}

/// A recorded call of a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolRecording {
    pub(super) tool_call: FunctionCall,
    pub(super) tool_response: FunctionResponse,
}

/// A recorded request, without fields that are not compared, such as `live_connect_config`.
#[derive(Debug, Deserialize)]
pub(super) struct RecordedRequest {
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) contents: Vec<Content>,
    #[serde(default)]
    pub(super) config: Map<String, Value>,
}

impl Recordings {
    /// # Errors
    ///
    /// `InvalidArgument` if the text does not have the form of recordings.
    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).map_err(|e| {
            let said = e.without_snippet().to_string();
            let said: Vec<_> = said.split_whitespace().collect();
            Error::invalid(format!("the recordings of a test case are invalid: {}", said.join(" ")))
        })
    }

    /// Returns the recordings of one message.
    pub(super) fn of_message(self, index: u64) -> Vec<Recording> {
        self.recordings.into_iter().filter(|recording| recording.user_message_index == index).collect()
    }
}

impl LlmRecording {
    /// Returns the answers.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a field has a wrong type.
    pub(super) fn responses(&self) -> Result<Vec<LlmResponse>> {
        self.llm_responses.iter().map(response).collect()
    }
}

fn response(fields: &Map<String, Value>) -> Result<LlmResponse> {
    let documented = |name: &str| fields.get(name).cloned().map(with_camel_case);
    Ok(LlmResponse {
        content: field(fields, "content")?,
        partial: field(fields, "partial")?,
        turn_complete: field(fields, "turn_complete")?,
        finish_reason: field(fields, "finish_reason")?,
        error_code: field(fields, "error_code")?,
        error_message: field(fields, "error_message")?,
        interrupted: field(fields, "interrupted")?,
        usage_metadata: documented("usage_metadata"),
        grounding_metadata: documented("grounding_metadata"),
        citation_metadata: documented("citation_metadata"),
        avg_logprobs: field(fields, "avg_logprobs")?,
        logprobs_result: documented("logprobs_result"),
        model_version: field(fields, "model_version")?,
        custom_metadata: field(fields, "custom_metadata")?,
    })
}

fn field<T: for<'de> Deserialize<'de>>(fields: &Map<String, Value>, name: &str) -> Result<Option<T>> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(|e| {
            let why = json::describe(&e);
            Error::invalid(format!("the '{name}' of a recorded answer is invalid: {why}"))
        }),
    }
}

/// Writes the names of fields as the API does.
pub(super) fn with_camel_case(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(with_camel_case).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (camel_case(&name), with_camel_case(value)));
            fields.collect::<Map<_, _>>().into()
        }
        other => other,
    }
}
