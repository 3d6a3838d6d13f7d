//! What a run is asked to do, and how.

use serde_json::{Map, Value};

use scratchbook_core::content::Content;
use scratchbook_core::session::GetSessionConfig;
use scratchbook_core::state::StateDelta;

/// A run's input: a message, state changes, or both. Without either the run goes on from what the session holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunRequest {
    /// What the user says.
    pub message: Option<Content>,
    /// State changes that are committed with the message; its `temp:` keys are seen all through the run.
    pub state_delta: StateDelta,
    /// The run's id; absent or empty, one is made. A message that answers calls goes on with the run that made them, under
    /// its id, whatever is said here; the rule is ADK's. Without a message, and where runs can be
    /// [taken up again](crate::runner::RunnerBuilder::resumable), this is the run that is.
    pub invocation_id: Option<String>,
    /// Whether the id is of a run that is new, so that none is looked for.
    pub is_new: bool,
    /// How it is done.
    pub config: RunConfig,
}

impl RunRequest {
    /// A message.
    #[must_use]
    pub fn message(message: impl Into<Content>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }

    /// State changes without a message: an event without content.
    #[must_use]
    pub fn state_delta(delta: StateDelta) -> Self {
        Self::default().with_state_delta(delta)
    }

    /// With state changes.
    #[must_use]
    pub fn with_state_delta(mut self, delta: StateDelta) -> Self {
        self.state_delta = delta;
        self
    }

    /// With an id for the run.
    #[must_use]
    pub fn with_invocation_id(mut self, invocation_id: impl Into<String>) -> Self {
        self.invocation_id = Some(invocation_id.into());
        self
    }

    /// With an id that no run of the session has yet: made by who starts the run, who wants to know it beforehand.
    #[must_use]
    pub fn with_new_invocation_id(mut self, invocation_id: impl Into<String>) -> Self {
        self.is_new = true;
        self.with_invocation_id(invocation_id)
    }

    /// Done this way.
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
    /// Whether answers come in pieces, as partial events, before the whole.
    pub streaming: bool,
    /// How many model calls the run may make; 500 by default, as in ADK. With 0 it may make none.
    pub max_llm_calls: usize,
    /// What to do while another run of the session is going on.
    pub when_busy: WhenBusy,
    /// How much of the session is read for the run; everything by default, or what the last summary leaves over where
    /// [events are summed up](crate::runner::RunnerBuilder::events_compaction) by tokens.
    pub get_session_config: GetSessionConfig,
    /// Whether instruction templates may insert values of keys that are marked as secret; not by default.
    pub secrets_in_templates: bool,
    /// What is kept beside every event of the run, the user's too; where an event has a key itself, its own value stays.
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
    /// Answers come in pieces before the whole.
    #[must_use]
    pub fn with_streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    /// How many model calls the run may make.
    #[must_use]
    pub fn with_max_llm_calls(mut self, max_llm_calls: usize) -> Self {
        self.max_llm_calls = max_llm_calls;
        self
    }

    /// How much of the session is read for the run, such as the last 50 events of a long one: the agents see no
    /// more of it.
    #[must_use]
    pub fn with_get_session_config(mut self, config: GetSessionConfig) -> Self {
        self.get_session_config = config;
        self
    }

    /// Instruction templates may insert values of keys that are marked as secret: the model gets to know them.
    #[must_use]
    pub fn with_secrets_in_templates(mut self) -> Self {
        self.secrets_in_templates = true;
        self
    }

    /// What is kept beside every event of the run, in its [`custom_metadata`](scratchbook_core::event::Event::custom_metadata).
    #[must_use]
    pub fn with_custom_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.custom_metadata = metadata;
        self
    }

    /// What to do while another run of the session is going on.
    #[must_use]
    pub fn with_when_busy(mut self, when_busy: WhenBusy) -> Self {
        self.when_busy = when_busy;
        self
    }
}

/// What to do while another run of the session is going on in this runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenBusy {
    /// Wait for it to end; runs take their turns in order.
    #[default]
    Queue,
    /// Refuse, with `Conflict`.
    Refuse,
}
