//! Models of everybody but Google. Through genai, which puts requests into each provider's words and sends them; Ollama alone
//! is asked without it.
//!
//! Answers are read by us, from the frames as they come. genai's own reading would lose refusals, names of models, and
//! whether a stream came to its end; it stops at a call whose arguments are no JSON, and makes as much room for calls as a
//! stream says.

mod answer;
mod anthropic;
mod call;
mod frames;
mod history;
mod ollama;
mod openai;
mod options;
mod parts;
mod quiet;
mod request;
mod responses;
mod stream;

use genai::adapter::AdapterKind;
use genai::chat::ReasoningEffort;

use super::client::Call;
use scratchbook_agent::model::{LlmRequest, LlmStream};

/// Asks a model; the answer is pieces, where they are wanted, and then the whole.
pub(super) fn generate(call: Call, request: LlmRequest) -> LlmStream {
    stream::generate(call, request)
}

/// How a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// OpenAI's Chat Completions, which most others speak, too.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Ollama's chat.
    Ollama,
}

/// How the provider of one model speaks, and what it is known to need.
struct Dialect {
    kind: AdapterKind,
    wire: Wire,
    model: String,
}

impl Dialect {
    fn new(kind: AdapterKind, model: &str) -> Self {
        let wire = match kind {
            AdapterKind::OpenAIResp => Wire::Responses,
            AdapterKind::Anthropic | AdapterKind::MiniMax => Wire::Anthropic,
            AdapterKind::OpenCodeGo if model.to_lowercase().starts_with("minimax-") => Wire::Anthropic,
            AdapterKind::Ollama | AdapterKind::OllamaCloud => Wire::Ollama,
            _ => Wire::Chat,
        };
        Self { kind, wire, model: model.to_owned() }
    }

    fn provider(&self) -> &'static str {
        self.kind.as_lower_str()
    }

    /// Whether an answer can be held to a schema. Where not, the model is told of it, and of JSON.
    fn takes_schema(&self) -> bool {
        // Claude learned it with 4.1 and 4.5.
        let old =
            ["claude-2", "claude-3", "claude-opus-4-0", "claude-opus-4-2", "claude-sonnet-4-0", "claude-sonnet-4-2"];
        match self.kind {
            AdapterKind::Anthropic => !old.iter().any(|name| self.model.contains(name)),
            // They know JSON at most, but no schemas.
            AdapterKind::MiniMax | AdapterKind::DeepSeek | AdapterKind::Zai | AdapterKind::BigModel => false,
            AdapterKind::Kimi | AdapterKind::Moonshot => false,
            _ => true,
        }
    }

    /// Whether the thoughts that led to a call have to come back with it.
    fn wants_thoughts(&self) -> bool {
        let these = [AdapterKind::DeepSeek, AdapterKind::Kimi, AdapterKind::Moonshot, AdapterKind::Mimo];
        self.wire == Wire::Ollama || these.contains(&self.kind)
    }

    /// What keeps genai from taking the end of a model's name, as in `mistral-medium`, for how much the model is to think:
    /// an effort that is not sent.
    fn keep_name(&self) -> Option<ReasoningEffort> {
        let looks_so = ReasoningEffort::from_model_name(&self.model).0.is_some();
        (looks_so && matches!(self.wire, Wire::Chat | Wire::Responses)).then_some(ReasoningEffort::Budget(0))
    }
}
