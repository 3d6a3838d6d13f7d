//! Models: the trait, requests and responses.

mod config;
mod scripted;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;

pub use config::GenerateContentConfig;
pub use scripted::ScriptedLlm;

/// A model's responses to one request: if it streams, partial ones first, and then the whole answer.
pub type LlmStream = Pin<Box<dyn Stream<Item = Result<LlmResponse>> + Send>>;

/// A language model.
pub trait Llm: fmt::Debug + Send + Sync + 'static {
    /// Returns the model's name, such as `gemini-2.5-flash`.
    fn name(&self) -> &str;

    /// Calls the model. With [`LlmRequest::stream`], partial responses may come first; the last response of a stream is
    /// always complete. Dropping the stream cancels the call.
    fn generate(&self, request: LlmRequest) -> LlmStream;

    /// Returns the model's optional capabilities; none by default.
    fn capabilities(&self) -> LlmCapabilities {
        LlmCapabilities::default()
    }
}

/// The optional capabilities of a model, which determine how an agent builds its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LlmCapabilities {
    /// Whether a request may have both a schema for the answer and tools. If not, an agent with both receives its
    /// answer through a call of the tool `set_model_response`, as in ADK.
    pub output_schema_and_tools: bool,
    /// Whether the model matches responses with calls by id. If so, ids that this crate has generated are sent as well.
    pub call_ids: bool,
}

#[deny(clippy::missing_trait_methods)]
impl<L: Llm + ?Sized> Llm for Arc<L> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        (**self).generate(request)
    }

    fn capabilities(&self) -> LlmCapabilities {
        (**self).capabilities()
    }
}

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LlmRequest {
    /// The model's name.
    pub model: String,
    /// The system instruction, rendered.
    pub system_instruction: Option<String>,
    /// The conversation.
    pub contents: Vec<Content>,
    /// The tools that the model may call.
    pub tools: Vec<FunctionDeclaration>,
    /// Tools that the model's provider runs itself, in the form of Gemini's API, such as `{"googleSearch": {}}`. Models
    /// of other providers refuse a request that has any.
    pub built_in_tools: Vec<Value>,
    /// The JSON Schema of the answer.
    pub output_schema: Option<Value>,
    /// How the model generates the answer.
    pub config: GenerateContentConfig,
    /// Whether partial responses are wanted.
    pub stream: bool,
}

impl LlmRequest {
    /// Adds a text to the system instruction, after an empty line.
    pub fn append_instruction(&mut self, text: &str) {
        let instruction = self.system_instruction.get_or_insert_default();
        if !instruction.is_empty() {
            instruction.push_str("\n\n");
        }
        instruction.push_str(text);
    }
}

/// A tool, as it is declared to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionDeclaration {
    /// The tool's name.
    pub name: String,
    /// The description of the tool for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters_json_schema: Value,
    /// The JSON Schema of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_json_schema: Option<Value>,
}

/// The name under which the metadata of a call says why the call is not run.
const REFUSED: &str = "refusedCall";

/// Marks a call that must not be run. The model gets the reason as the call's result.
#[doc(hidden)]
pub fn refuse_call(part: &mut Part, why: &str) {
    part.part_metadata.get_or_insert_default().insert(REFUSED.to_owned(), why.into());
}

/// Returns why a call must not be run.
pub(crate) fn call_refusal(part: &Part) -> Option<&str> {
    part.part_metadata.as_ref()?.get(REFUSED)?.as_str()
}

/// A response of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LlmResponse {
    /// The answer: text, function calls, data.
    pub content: Option<Content>,
    /// Whether this is a piece of an unfinished answer. The whole answer after the pieces has `false`, as in ADK.
    pub partial: Option<bool>,
    /// Whether the model's turn ends here.
    pub turn_complete: Option<bool>,
    /// The reason why the model stopped, such as `STOP` or `MAX_TOKENS`.
    pub finish_reason: Option<String>,
    /// The kind of failure, such as `SAFETY`.
    pub error_code: Option<String>,
    /// The message of the failure.
    pub error_message: Option<String>,
    /// Whether the user cut the answer short.
    pub interrupted: Option<bool>,
    /// The token usage.
    pub usage_metadata: Option<Value>,
    /// The sources of the answer's facts.
    pub grounding_metadata: Option<Value>,
    /// The citations.
    pub citation_metadata: Option<Value>,
    /// The mean logarithm of the probabilities of the answer's tokens.
    pub avg_logprobs: Option<f64>,
    /// The probabilities of the answer's tokens, and of alternatives.
    pub logprobs_result: Option<Value>,
    /// The model that answered, with its version.
    pub model_version: Option<String>,
    /// Custom data to store with the event.
    pub custom_metadata: Option<Map<String, Value>>,
}

impl LlmResponse {
    /// Creates a whole answer of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Some(Content::model(text)), finish_reason: Some("STOP".to_owned()), ..Self::default() }
    }

    /// Creates a piece of a text answer that is not finished.
    #[must_use]
    pub fn piece(text: impl Into<String>) -> Self {
        Self { content: Some(Content::model(text)), partial: Some(true), ..Self::default() }
    }

    /// Creates an answer that calls one tool.
    #[must_use]
    pub fn call(name: impl Into<String>, args: Value) -> Self {
        Self::calls([(name, args)])
    }

    /// Creates an answer that calls several tools at once. Arguments that are not a JSON object are left out.
    #[must_use]
    pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        let parts = calls.into_iter().map(|(name, args)| {
            let args = if let Value::Object(map) = args { map } else { Map::new() };
            Part::function_call(name, args)
        });
        let content = Content::new("model", parts.collect());
        Self { content: Some(content), finish_reason: Some("STOP".to_owned()), ..Self::default() }
    }

    /// Returns the event that carries this answer.
    pub(crate) fn into_event(self) -> Event {
        Event {
            content: self.content,
            partial: self.partial,
            turn_complete: self.turn_complete,
            finish_reason: self.finish_reason,
            error_code: self.error_code,
            error_message: self.error_message,
            interrupted: self.interrupted,
            usage_metadata: self.usage_metadata.map(Box::new),
            grounding_metadata: self.grounding_metadata.map(Box::new),
            citation_metadata: self.citation_metadata.map(Box::new),
            avg_logprobs: self.avg_logprobs,
            logprobs_result: self.logprobs_result.map(Box::new),
            model_version: self.model_version,
            custom_metadata: self.custom_metadata.map(Box::new),
            ..Event::default()
        }
    }
}

impl From<&str> for LlmResponse {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for LlmResponse {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}
