//! Models of all providers except Google. genai translates requests for each provider and sends them. Only Ollama is
//! called without genai.
//!
//! Answers are parsed here, from the frames as they arrive. genai's own parser would lose refusals, model names and
//! whether a stream was complete. It also fails on a call whose arguments are not JSON, and allocates as many calls as
//! a stream claims to have.

mod answers;
mod frames;
mod generate;
mod history;
mod ollama;
mod options;
mod parts;
mod request;
mod silenced_tracing;

use genai::adapter::AdapterKind;
use genai::chat::ReasoningEffort;

use super::client::ModelCall;
use scratchbook_agent::model::{LlmRequest, LlmStream};

/// Calls a model. The answer arrives in pieces if streaming is requested, and then as a whole.
pub(super) fn generate(call: ModelCall, request: LlmRequest) -> LlmStream {
    generate::generate(call, request)
}

/// The protocol of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WireProtocol {
    /// OpenAI's Chat Completions, which most other providers use as well.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Ollama's chat.
    Ollama,
}

/// The protocol of one model's provider, and the provider's known requirements.
struct ProviderProfile {
    kind: AdapterKind,
    wire: WireProtocol,
    model: String,
}

impl ProviderProfile {
    fn new(kind: AdapterKind, model: &str) -> Self {
        let wire = match kind {
            AdapterKind::OpenAIResp => WireProtocol::Responses,
            AdapterKind::Anthropic | AdapterKind::MiniMax => WireProtocol::Anthropic,
            AdapterKind::OpenCodeGo if model.to_lowercase().starts_with("minimax-") => WireProtocol::Anthropic,
            AdapterKind::Ollama | AdapterKind::OllamaCloud => WireProtocol::Ollama,
            _ => WireProtocol::Chat,
        };
        Self { kind, wire, model: model.to_owned() }
    }

    fn provider(&self) -> &'static str {
        self.kind.as_lower_str()
    }

    /// Returns whether the provider enforces a schema for the answer. If not, the instruction contains the schema and
    /// asks for JSON.
    fn takes_schema(&self) -> bool {
        // Claude supports schemas since the versions 4.1 and 4.5.
        let old =
            ["claude-2", "claude-3", "claude-opus-4-0", "claude-opus-4-2", "claude-sonnet-4-0", "claude-sonnet-4-2"];
        match self.kind {
            AdapterKind::Anthropic => !old.iter().any(|name| self.model.contains(name)),
            // These providers support JSON at most, but no schemas.
            AdapterKind::MiniMax | AdapterKind::DeepSeek | AdapterKind::Zai | AdapterKind::BigModel => false,
            AdapterKind::Kimi | AdapterKind::Moonshot => false,
            _ => true,
        }
    }

    /// Returns whether the thoughts before a call have to be sent back with it.
    fn wants_thoughts(&self) -> bool {
        let these = [AdapterKind::DeepSeek, AdapterKind::Kimi, AdapterKind::Moonshot, AdapterKind::Mimo];
        self.wire == WireProtocol::Ollama || these.contains(&self.kind)
    }

    /// Returns a reasoning effort that genai gets but does not send. Without it, genai would read the end of a model's
    /// name, as in `mistral-medium`, as a reasoning effort.
    fn keep_name(&self) -> Option<ReasoningEffort> {
        let looks_so = ReasoningEffort::from_model_name(&self.model).0.is_some();
        (looks_so && matches!(self.wire, WireProtocol::Chat | WireProtocol::Responses))
            .then_some(ReasoningEffort::Budget(0))
    }
}
