//! Models of Google, OpenAI, Anthropic, Ollama and others over HTTP, for the agents of
//! [scratchbook](https://docs.rs/scratchbook).
//!
//! A [`RemoteLlm`] is created by the model's name. The key comes from an environment variable, such as
//! `GOOGLE_API_KEY`, or from the [builder](RemoteLlm::builder). [`ModelName`] sets the model of an agent by name:
//!
//! ```no_run
//! use futures_util::TryStreamExt;
//! use scratchbook::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
//! let agent = LlmAgent::builder("helper").model_name("gemini-2.5-flash").build()?;
//! let runner = Runner::builder("app", agent, InMemorySessionService::new()).auto_create_session().build()?;
//! let events: Vec<_> = runner.run("alice", "s1", "Hello").try_collect().await?;
//! # Ok(()) }
//! ```

mod body;
mod chat;
mod client;
mod failure;
mod frames;
mod gemini;
mod names;
mod opaque;
mod provider;
mod retry;
mod secrets;

use std::fmt;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use client::{ClientOptions, ModelCall};
use names::ToolNames;
use provider::Provider;
use scratchbook_agent::agent::LlmAgentBuilder;
use scratchbook_agent::model::{Llm, LlmCapabilities, LlmRequest, LlmResponse, LlmStream, refuse_call};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;

/// Sets an agent's model by name.
pub trait ModelName {
    /// Sets the model by the name of a [`RemoteLlm`], such as `gemini-2.5-flash`. If [`RemoteLlm::new`] fails,
    /// [`build`](LlmAgentBuilder::build) returns the error.
    ///
    /// ```no_run
    /// use scratchbook::model::ModelName;
    /// use scratchbook::LlmAgent;
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
/// Its name is `provider::model`, such as `ollama::llama3.2`, or `provider/model`. The provider can be omitted if the
/// model's name determines it: `gemini-..`, `gpt-..` and `claude-..`. `openai::` with an
/// [`endpoint`](RemoteLlmBuilder::endpoint) is any server with OpenAI's protocol, such as Groq, DeepSeek or OpenRouter.
///
/// | provider | key | endpoint |
/// |---|---|---|
/// | `gemini` | `GOOGLE_API_KEY`, `GEMINI_API_KEY` | `GOOGLE_GEMINI_BASE_URL` |
/// | `openai`, and `openai_resp` for OpenAI's Responses | `OPENAI_API_KEY` | `OPENAI_BASE_URL` |
/// | `anthropic` | `ANTHROPIC_API_KEY` | `ANTHROPIC_BASE_URL` |
/// | `ollama` | none | `OLLAMA_HOST` |
/// | `ollama_cloud` | `OLLAMA_API_KEY` | |
///
/// Keys and endpoints are read from these environment variables unless they are set in the builder. A key never appears
/// in a message, a log or `Debug` output.
///
/// If a model reports a problem with its own answer, for example that the answer was blocked, the response has an
/// [`error_code`](scratchbook_agent::model::LlmResponse::error_code). If there is no answer, the result is an
/// [`Error`]: `InvalidArgument`, `PermissionDenied`, `NotFound` or `ResourceExhausted` by the HTTP status, and
/// `Unavailable` if the provider fails, cannot be reached, takes too long or breaks off. A call is retried only before
/// its first piece is shown. Dropping the stream closes the connection. Needs a Tokio runtime with timer and I/O
/// enabled.
///
/// A setting of [`GenerateContentConfig`](scratchbook_agent::model::GenerateContentConfig) that a provider does not
/// have is dropped if it only influences the model, such as `topK`, penalties, the seed, probabilities and safety
/// settings. A setting without which the answer would be of a different kind is `Unsupported`: modalities other than
/// text, contexts cached by the provider, and data of a type that the provider does not accept in the user's last
/// message (older data is only named). Calls whose arguments are not a JSON object are dropped, and the answer has the
/// error code `MALFORMED_FUNCTION_CALL`, as an answer of more than 1,000 calls has. A call with a number beyond 64 bits
/// is not run, and the model gets the reason as its result. An answer of more than 64 MiB is `Unavailable`.
///
/// Data that a provider attaches to its answers and needs back, such as signatures of thoughts, stays in the parts'
/// metadata and goes back to the same model. Names of tools that a provider would refuse are sent in another form.
///
/// ```no_run
/// use std::time::Duration;
/// use scratchbook::model::RemoteLlm;
/// use scratchbook::LlmAgent;
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
    call: ModelCall,
}

impl RemoteLlm {
    /// Creates a model by its name, with the key from the environment.
    ///
    /// # Errors
    ///
    /// As for [`RemoteLlmBuilder::build`].
    pub fn new(name: impl Into<String>) -> Result<Self> {
        Self::builder(name).build()
    }

    /// Starts building a model with this name.
    pub fn builder(name: impl Into<String>) -> RemoteLlmBuilder {
        RemoteLlmBuilder { name: name.into(), options: ClientOptions::default() }
    }
}

impl Llm for RemoteLlm {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, mut request: LlmRequest) -> LlmStream {
        let call = match self.call.of(&self.name, &request) {
            Ok(call) => call,
            Err(error) => return failed(error),
        };
        let names = match ToolNames::change(&mut request, call.target.provider) {
            Ok(names) => names,
            Err(error) => return failed(error),
        };
        let answers = match call.target.provider {
            Provider::Gemini => gemini::generate(call, request),
            _ => chat::generate(call, request),
        };
        let restored = answers.map_ok(move |mut answer| {
            names.restore(&mut answer);
            refuse_lossy_calls(&mut answer);
            answer
        });
        restored.boxed()
    }

    fn capabilities(&self) -> LlmCapabilities {
        let provider = self.call.target.provider;
        LlmCapabilities { output_schema_and_tools: provider.is_openai(), call_ids: provider != Provider::Gemini }
    }
}

impl fmt::Debug for RemoteLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLlm")
            .field("name", &self.name)
            .field("retry_policy", &self.call.retry_policy)
            .finish_non_exhaustive()
    }
}

/// Builds a [`RemoteLlm`].
#[derive(Clone)]
#[must_use]
pub struct RemoteLlmBuilder {
    name: String,
    options: ClientOptions,
}

impl RemoteLlmBuilder {
    /// Sets the provider's address, in the form of its environment variable, such as `https://api.openai.com/v1`.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.options.endpoint = Some(url.into());
        self
    }

    /// Sets the key, instead of the environment's.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.options.api_key = Some(key.into());
        self
    }

    /// Sets how long an answer may take to begin, and how long each further piece may take to arrive; 10 minutes by
    /// default. An answer that is not streamed arrives in one piece.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Sets how often a call is retried if it was refused temporarily (408, 429, 500, 502, 503, 504, 529), got no
    /// response, or failed in one of these ways before anything of its answer was shown; twice by default. Pauses grow from one second up to a minute, unless the provider asks for a certain
    /// pause. If the provider asks for more than a minute, the call is not retried.
    pub fn max_retries(mut self, retries: usize) -> Self {
        self.options.max_retries = Some(retries);
        self
    }

    /// Adds a header to every request, replacing another of this name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.push((name.into(), value.into()));
        self
    }

    /// Builds the model. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name does not determine the provider, if the endpoint is not an HTTP address, or if a
    /// header is invalid; `FailedPrecondition` if the key is missing; `Unsupported` if the provider is known but not
    /// supported.
    pub fn build(self) -> Result<RemoteLlm> {
        let call = ModelCall::new(&self.name, self.options)?;
        Ok(RemoteLlm { name: self.name, call })
    }
}

impl fmt::Debug for RemoteLlmBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLlmBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Marks calls with a number that would not survive. The model gets the reason as the call's result.
fn refuse_lossy_calls(answer: &mut LlmResponse) {
    for part in answer.content.iter_mut().filter_map(|content| content.parts.as_mut()).flatten() {
        let args = part.function_call.as_mut().and_then(|call| call.args.as_mut());
        let why = args.and_then(|args| args.values_mut().filter_map(json::unmark).reduce(|first, _| first));
        if let Some(why) = why {
            refuse_call(part, &why.to_string());
        }
    }
}

fn failed(error: Error) -> LlmStream {
    Box::pin(stream::iter([Err(error)]))
}
