//! Agents, and the contexts of a run that agents receive.

mod agent_turn;
mod callback;
mod compaction;
mod confirmation;
mod context;
mod empty_answer;
mod function_agent;
mod history;
mod invocation_state;
mod layer_group;
mod llm_agent;
mod node;
mod pending_event;
mod piece_changes;
mod request;
mod resume;
mod resume_checkpoint;
mod state;
mod step;
mod text_markers;
mod tool_step;
mod tree;
mod workflow;
mod write_context;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;

use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

pub use callback::ToolCall;
pub use compaction::{EventsCompactionConfig, EventsSummarizer, EventsSummary, LlmEventsSummarizer};
pub use context::{InvocationContext, ReadonlyContext};
pub use function_agent::FunctionAgent;
pub use llm_agent::{
    IncludeContents, Instruction, InstructionProvider, LlmAgent, LlmAgentBuilder, inject_session_state,
};
pub use state::ContextState;
pub use workflow::{
    LoopAgent, LoopAgentBuilder, ParallelAgent, ParallelAgentBuilder, SequentialAgent, SequentialAgentBuilder,
};
pub use write_context::{CallbackContext, ToolContext};

pub(crate) use agent_turn::{catch_panic, catch_panics, run_agent};
pub(crate) use callback::{AgentCallbacks, ModelCallbacks};
pub(crate) use compaction::{Compactor, RunCompaction};
pub(crate) use confirmation::{ConfirmationProgress, is_request, progress};
pub(crate) use context::Invocation;
pub(crate) use history::{covered_from_the_beginning, ends_at_time_of, live_backward};
pub(crate) use invocation_state::InvocationState;
pub(crate) use node::TurnCounts;
pub(crate) use resume::PastEvents;
pub(crate) use tree::AgentTree;

/// The events of an agent's turn or of a whole run, as they are produced.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event>> + Send>>;

/// An agent, which acts in a run. It yields events, and each event is committed before the agent continues.
///
/// Your own agent is usually a [`FunctionAgent`]. Implement this trait for an agent with sub-agents.
pub trait Agent: fmt::Debug + Send + Sync + 'static {
    /// Returns the agent's name: unique within the tree of agents, and the author of the agent's events.
    fn name(&self) -> &str;

    /// Describes what the agent is good at, for agents that may hand over to it.
    fn description(&self) -> &str {
        ""
    }

    /// Returns the agents directly below this one.
    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    /// Returns this agent as an [`LlmAgent`], if it is one. Only such agents hand over the conversation with
    /// `transfer_to_agent`.
    fn as_llm_agent(&self) -> Option<&LlmAgent> {
        None
    }

    /// Returns whether [`run`](Self::run) itself calls the callbacks of plugins around the agent's turn, as the agents of
    /// this crate do. Around every other agent they are called from outside.
    #[doc(hidden)]
    fn calls_plugins(&self) -> bool {
        false
    }

    /// Runs the agent's turn. Code after a yield sees the state in which the yielded event is committed. If the stream
    /// yields an error, the run ends.
    fn run(&self, context: InvocationContext) -> EventStream;
}

#[deny(clippy::missing_trait_methods)]
impl<A: Agent + ?Sized> Agent for Arc<A> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn description(&self) -> &str {
        (**self).description()
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        (**self).sub_agents()
    }

    fn as_llm_agent(&self) -> Option<&LlmAgent> {
        (**self).as_llm_agent()
    }

    fn calls_plugins(&self) -> bool {
        (**self).calls_plugins()
    }

    fn run(&self, context: InvocationContext) -> EventStream {
        (**self).run(context)
    }
}

/// Returns the event that reports a failure. Every reader of the session may see its text.
pub(crate) fn failure_event(context: &InvocationContext, error: &Error) -> Event {
    let mut event = context.event();
    if error.is_for_operator() {
        tracing::warn!(kind = error.kind().as_str(), %error, "an agent failed");
    }
    event.error_code = Some(error.public_kind().as_str().to_uppercase());
    event.error_message = Some(error.public_message().to_owned());
    event
}
