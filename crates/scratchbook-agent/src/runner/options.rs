//! The request and the configuration of a run.

use serde_json::{Map, Value};

use scratchbook_core::content::Content;
use scratchbook_core::session::GetSessionConfig;
use scratchbook_core::state::StateDelta;

/// A run's input: a message, state changes, or both. Without either, the run continues from the session as it is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunRequest {
    /// The user's message.
    pub message: Option<Content>,
    /// State changes that are committed with the message; its `temp:` keys are visible during the whole run.
    pub state_delta: StateDelta,
    /// The run's id; if it is absent or empty, one is generated. A message that answers calls continues the run that
    /// made them, under that run's id, whatever this field says; the rule is ADK's. Without a message, and if runs are
    /// [resumable](crate::runner::RunnerBuilder::resumable), this run is resumed.
    pub invocation_id: Option<String>,
    /// Whether the id belongs to a new run, so that no run is resumed.
    pub is_new: bool,
    /// How the run is done.
    pub config: RunConfig,
}

impl RunRequest {
    /// A request with a message.
    #[must_use]
    pub fn message(message: impl Into<Content>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }

    /// A request with state changes and no message: an event without content.
    #[must_use]
    pub fn state_delta(delta: StateDelta) -> Self {
        Self::default().with_state_delta(delta)
    }

    /// Sets the state changes.
    #[must_use]
    pub fn with_state_delta(mut self, delta: StateDelta) -> Self {
        self.state_delta = delta;
        self
    }

    /// Sets the run's id.
    #[must_use]
    pub fn with_invocation_id(mut self, invocation_id: impl Into<String>) -> Self {
        self.invocation_id = Some(invocation_id.into());
        self
    }

    /// Sets an id that no run of the session has yet, for callers that need to know the id in advance.
    #[must_use]
    pub fn with_new_invocation_id(mut self, invocation_id: impl Into<String>) -> Self {
        self.is_new = true;
        self.with_invocation_id(invocation_id)
    }

    /// Sets how the run is done.
    #[must_use]
    pub fn with_config(mut self, config: RunConfig) -> Self {
        self.config = config;
        self
    }
}

impl<C: Into<Content>> From<C> for RunRequest {
    fn from(message: C) -> Self {
        Self::message(message)
    }
}

/// How a run is done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunConfig {
    /// Whether answers arrive in pieces, as partial events, before the whole.
    pub streaming: bool,
    /// The maximum number of model calls; 500 by default, as in ADK. With 0 the run may make none.
    pub max_llm_calls: usize,
    /// What happens if another run of the session is active.
    pub when_busy: WhenBusy,
    /// How much of the session is read for the run. By default it is everything, or the events after the last summary
    /// if [events are summarized](crate::runner::RunnerBuilder::events_compaction) by tokens.
    pub get_session_config: GetSessionConfig,
    /// Whether instruction templates may insert values of secret keys; they may not by default.
    pub secrets_in_templates: bool,
    /// Metadata stored with every event of the run, the user's included. If an event has a key itself, its own value
    /// stays.
    pub custom_metadata: Map<String, Value>,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            streaming: false,
            max_llm_calls: 500,
            when_busy: WhenBusy::default(),
            get_session_config: GetSessionConfig::default(),
            secrets_in_templates: false,
            custom_metadata: Map::new(),
        }
    }
}

impl RunConfig {
    /// Lets answers arrive in pieces before the whole.
    #[must_use]
    pub fn with_streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    /// Sets the maximum number of model calls.
    #[must_use]
    pub fn with_max_llm_calls(mut self, max_llm_calls: usize) -> Self {
        self.max_llm_calls = max_llm_calls;
        self
    }

    /// Sets how much of the session is read for the run, such as the last 50 events of a long one. The agents see no
    /// other events.
    #[must_use]
    pub fn with_get_session_config(mut self, config: GetSessionConfig) -> Self {
        self.get_session_config = config;
        self
    }

    /// Lets instruction templates insert values of secret keys, so that the model sees them.
    #[must_use]
    pub fn with_secrets_in_templates(mut self) -> Self {
        self.secrets_in_templates = true;
        self
    }

    /// Sets metadata stored with every event of the run, in its
    /// [`custom_metadata`](scratchbook_core::event::Event::custom_metadata).
    #[must_use]
    pub fn with_custom_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.custom_metadata = metadata;
        self
    }

    /// Sets what happens if another run of the session is active.
    #[must_use]
    pub fn with_when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }
}

/// What happens if another run of the session is active in this runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// Waits for it to end; runs follow each other in order.
    #[default]
    Queue,
    /// Refuses the run, with `Conflict`.
    Refuse,
}
