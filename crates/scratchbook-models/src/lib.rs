//! Models of other people, over HTTP.

mod body;
mod chat;
mod client;
mod failure;
mod gemini;
mod provider;
mod retry;
mod secrets;

use std::fmt;
use std::time::Duration;

use futures_util::stream;
use genai::adapter::AdapterKind;

use client::{Call, Options};
use scratchbook_agent::agent::LlmAgentBuilder;
use scratchbook_agent::model::{Llm, LlmCapabilities, LlmRequest, LlmStream};
use scratchbook_core::error::{Error, Result};

/// Gives an agent's builder a model by its name.
pub trait ModelName {
    /// The model to ask, by the name of a [`RemoteLlm`], such as `gemini-2.5-flash`. What [`RemoteLlm::new`] says against
    /// the name is returned by [`build`](LlmAgentBuilder::build).
    ///
    /// ```no_run
    /// use scratchbook::{LlmAgent, ModelName};
    ///
    /// # fn main() -> scratchbook::Result<()> {
    /// let agent = LlmAgent::builder("helper").model_name("gemini-2.5-flash").build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    fn model_name(self, name: impl Into<String>) -> Self;
}

impl ModelName for LlmAgentBuilder {
    fn model_name(self, name: impl Into<String>) -> Self {
        self.try_model(RemoteLlm::new(name))
    }
}

/// A model of Google, OpenAI, Anthropic, Ollama and others, over HTTP.
///
/// Its name is `provider::model`, such as `groq::llama-3.3-70b-versatile`, or `provider/model`; the provider may be left
/// out where the model's name says it: `gemini-..`, `gpt-..`, `claude-..` and the like. `openai::` with an
/// [`endpoint`](RemoteLlmBuilder::endpoint) is any server that speaks OpenAI's protocol.
///
/// | provider | key | endpoint |
/// |---|---|---|
/// | `gemini` | `GOOGLE_API_KEY`, `GEMINI_API_KEY` | `GOOGLE_GEMINI_BASE_URL` |
/// | `openai` | `OPENAI_API_KEY` | `OPENAI_BASE_URL` |
/// | `anthropic` | `ANTHROPIC_API_KEY` | `ANTHROPIC_BASE_URL` |
/// | `ollama` | none | `OLLAMA_HOST` |
///
/// Keys and endpoints come from the environment, by these variables or what other providers call theirs, unless the
/// builder was given them. A key is in no message, no log and no `Debug`.
///
/// What a model says of its own answer, such as that it was blocked, is a response with an
/// [`error_code`](scratchbook_agent::model::LlmResponse::error_code). What keeps an answer from coming is an [`Error`]:
/// `InvalidArgument`, `PermissionDenied`, `NotFound` and `ResourceExhausted` by the status of HTTP; `Unavailable` where the
/// provider fails, cannot be reached, takes too long, or breaks off. A call is tried again before its first piece
/// was shown and never after. Dropping the stream closes the connection. Needs a Tokio runtime with its timer and I/O.
///
/// What of a [`GenerateContentConfig`](scratchbook_agent::model::GenerateContentConfig) a provider has no word for is left out where it only
/// nudges the model, such as `topK`, penalties, the seed, probabilities and safety settings. `Unsupported` is what would
/// make another answer: modalities but text, contexts kept by the provider, data of a type it does not take in what the
/// user said last (from before, it is only named). Calls whose arguments are no JSON object are not made; such an answer has
/// the error code `MALFORMED_FUNCTION_CALL`. An answer of more than 64 MiB is `Unavailable`.
///
/// ```no_run
/// use std::time::Duration;
/// use scratchbook::{LlmAgent, RemoteLlm};
///
/// # fn main() -> scratchbook::Result<()> {
/// let agent = LlmAgent::builder("helper").model(RemoteLlm::new("gemini-2.5-flash")?).build()?;
///
/// let local = RemoteLlm::builder("openai::qwen3")
///     .endpoint("http://localhost:8000/v1")
///     .api_key("none")
///     .timeout(Duration::from_secs(60))
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RemoteLlm {
    name: String,
    call: Call,
}

impl RemoteLlm {
    /// A model by its name, with its key from the environment.
    ///
    /// # Errors
    ///
    /// As [`RemoteLlmBuilder::build`].
    pub fn new(name: impl Into<String>) -> Result<Self> {
        Self::builder(name).build()
    }

    /// A model by its name, and how to reach it.
    pub fn builder(name: impl Into<String>) -> RemoteLlmBuilder {
        RemoteLlmBuilder { name: name.into(), options: Options::default() }
    }
}

impl Llm for RemoteLlm {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        let call = match self.call.of(&self.name, &request) {
            Ok(call) => call,
            Err(error) => return failed(error),
        };
        match call.target.provider {
            AdapterKind::Gemini => gemini::generate(call, request),
            _ => chat::generate(call, request),
        }
    }

    fn capabilities(&self) -> LlmCapabilities {
        let provider = self.call.target.provider;
        LlmCapabilities {
            output_schema_and_tools: matches!(provider, AdapterKind::OpenAI | AdapterKind::OpenAIResp),
            call_ids: provider != AdapterKind::Gemini,
        }
    }
}

impl fmt::Debug for RemoteLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLlm")
            .field("name", &self.name)
            .field("patience", &self.call.patience)
            .finish_non_exhaustive()
    }
}

/// How a [`RemoteLlm`] is reached.
#[derive(Clone)]
#[must_use]
pub struct RemoteLlmBuilder {
    name: String,
    options: Options,
}

impl RemoteLlmBuilder {
    /// Where the provider is, in the form of its environment variable, such as `https://api.openai.com/v1`.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.options.endpoint = Some(url.into());
        self
    }

    /// The key, in place of the environment's.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.options.api_key = Some(key.into());
        self
    }

    /// How long an answer may take to begin, and each piece of it to follow; 10 minutes by default. An answer that is
    /// not streamed comes in one piece.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// How often a call is tried again that was refused for now (408, 429, 500, 502, 503, 504, 529) or not answered at
    /// all; 2 times by default. Pauses grow from a second, or are what the provider asks for up to a minute.
    pub fn max_retries(mut self, retries: usize) -> Self {
        self.options.max_retries = Some(retries);
        self
    }

    /// A header to send with every request, in place of another of this name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.push((name.into(), value.into()));
        self
    }

    /// The model. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name that does not say whose model it is, an endpoint that is no address of HTTP, and a
    /// header that is none; `FailedPrecondition` where the key is missing; `Unsupported` for a provider that is known,
    /// but not supported.
    pub fn build(self) -> Result<RemoteLlm> {
        let call = Call::new(&self.name, self.options)?;
        Ok(RemoteLlm { name: self.name, call })
    }
}

impl fmt::Debug for RemoteLlmBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLlmBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

fn failed(error: Error) -> LlmStream {
    Box::pin(stream::iter([Err(error)]))
}
