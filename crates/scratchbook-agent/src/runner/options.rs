//! The request and the configuration of a run.

use serde_json::{Map, Value};

use scratchbook_core::content::Content;
use scratchbook_core::session::GetSessionConfig;
use scratchbook_core::state::StateDelta;

/// The input of a run: a message, state changes, or both. Without either, the run continues from the session as it is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunRequest {
    /// The user's message.
    pub message: Option<Content>,
    /// State changes that are committed with the message. `temp:` keys among them are visible during the whole run.
    pub state_delta: StateDelta,
    /// The run's id. If it is absent or empty, an id is generated. A message that answers calls continues the run that
    /// made them, under that run's id, and this field is ignored; the rule is ADK's. If there is no message and runs
    /// are [resumable](crate::runner::RunnerBuilder::resumable), the run with this id is resumed.
    pub invocation_id: Option<String>,
    /// Whether the id belongs to a new run. If so, no run is resumed.
    pub is_new: bool,
    /// The configuration of the run.
    pub config: RunConfig,
}

impl RunRequest {
    /// Creates a request with a message.
    #[must_use]
    pub fn message(message: impl Into<Content>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }

    /// Creates a request with state changes and no message. They are stored in an event without content.
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

    /// Sets the id of a new run, for callers that need to know the id in advance. No earlier run of the session may
    /// have this id.
    #[must_use]
    pub fn with_new_invocation_id(mut self, invocation_id: impl Into<String>) -> Self {
        self.is_new = true;
        self.with_invocation_id(invocation_id)
    }

    /// Sets the configuration of the run.
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

/// The configuration of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunConfig {
    /// Whether answers arrive in pieces, as partial events, before the whole answer.
    pub streaming: bool,
    /// The maximum number of model calls; 500 by default, as in ADK. With 0 the run may not call a model.
    pub max_llm_calls: usize,
    /// What happens if another run of the session is active.
    pub when_busy: WhenBusy,
    /// How much of the session the run reads. The default is the whole session. If [events are
    /// summarized](crate::runner::RunnerBuilder::events_compaction) by tokens, the default is the events after the last
    /// summary.
    pub get_session_config: GetSessionConfig,
    /// Whether instruction templates may insert values of secret keys. By default they may not.
    pub secrets_in_templates: bool,
    /// Metadata that is stored with every event of the run, including the user's. If an event already has a key, it
    /// keeps its own value.
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
    /// Makes answers arrive in pieces before the whole answer.
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

    /// Sets how much of the session the run reads, such as the last 50 events of a long session. The agents see no
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
    /// Waits until the other run has ended. Waiting runs start in the order in which they came.
    #[default]
    Queue,
    /// Refuses the run, with `Conflict`.
    Refuse,
}
