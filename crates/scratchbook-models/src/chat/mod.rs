//! Models of all providers except Google. The conversation is brought into a form that every provider accepts
//! (`request`, `history`, `parts`), and then each protocol has a file that writes the request and a file that reads the
//! answers.

mod answers;
mod claude;
mod generate;
mod history;
mod options;
mod parts;
mod request;
mod schema;
mod write;

use super::client::ModelCall;
use super::provider::Provider;
use claude::Claude;
use scratchbook_agent::model::{LlmRequest, LlmStream};

pub(super) use request::{BEGIN, GO_ON};

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
    provider: Provider,
    wire: WireProtocol,
    model: String,
    /// Whether the provider itself is called, and not another server with its protocol.
    is_own: bool,
    /// The provider and the model, to which data that they attach to an answer goes back.
    origin: String,
}

impl ProviderProfile {
    fn new(call: &ModelCall) -> Self {
        let provider = call.target.provider;
        let model = call.target.model.clone();
        let wire = match provider {
            Provider::OpenAiResponses => WireProtocol::Responses,
            Provider::Anthropic => WireProtocol::Anthropic,
            Provider::Ollama | Provider::OllamaCloud => WireProtocol::Ollama,
            _ => WireProtocol::Chat,
        };
        let origin = format!("{}::{model}", provider.name());
        Self { provider, wire, model, is_own: provider.is_at(&call.endpoint), origin }
    }

    /// Returns whether the provider enforces a schema for the answer. If not, the instruction contains the schema and
    /// asks for JSON.
    fn takes_schema(&self) -> bool {
        match self.wire {
            WireProtocol::Anthropic => Claude::new(&self.model).takes_schema(),
            // DeepSeek supports JSON, but not schemas.
            WireProtocol::Chat => !self.model.starts_with("deepseek-"),
            WireProtocol::Responses | WireProtocol::Ollama => true,
        }
    }

    /// Returns whether the thoughts before a call have to be sent back with it, also those of another model.
    fn wants_thoughts(&self) -> bool {
        let these = ["deepseek-", "kimi-", "mimo-", "moonshot-"];
        self.wire == WireProtocol::Ollama || these.iter().any(|name| self.model.starts_with(name))
    }
}
