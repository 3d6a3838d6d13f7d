//! Agents: who acts in a run, and what they are given of it.

mod board;
mod callback;
mod compaction;
mod confirmation;
mod context;
mod draft;
mod drive;
mod empty_answer;
mod fence;
mod function_agent;
mod history;
mod layers;
mod llm_agent;
mod look_ahead;
mod node;
mod request;
mod resume;
mod standing;
mod state;
mod step;
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
pub use workflow::{LoopAgent, ParallelAgent, SequentialAgent};
pub use write_context::{CallbackContext, ToolContext};

pub(crate) use board::Board;
pub(crate) use compaction::{Compacting, Compactor};
pub(crate) use confirmation::{Progress, is_request, progress};
pub(crate) use context::Invocation;
pub(crate) use drive::catch_panics;
pub(crate) use history::{covered_from_the_beginning, ends_at_time_of, live_backward};
pub(crate) use node::Turns as NodeTurns;
pub(crate) use resume::Past;
pub(crate) use tree::AgentTree;

/// The events of an agent's turn or of a whole run, as they arise.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event>> + Send>>;

/// Something that acts in a run: it yields events, each of which is committed before it goes on.
///
/// An agent of your own is usually a [`FunctionAgent`]; implement this for one with sub-agents.
pub trait Agent: fmt::Debug + Send + Sync + 'static {
    /// The name, unique among the agents of a tree; the author of the agent's events.
    fn name(&self) -> &str;

    /// What the agent is good at, for agents that may hand over to it.
    fn description(&self) -> &str {
        ""
    }

    /// The agents below it.
    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    /// This agent as an [`LlmAgent`], if it is one: conversations are handed to and from those by
    /// `transfer_to_agent`.
    fn as_llm_agent(&self) -> Option<&LlmAgent> {
        None
    }

    /// The agent's turn. Code after a yield sees the state with the event committed. An error ends the run.
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

    fn run(&self, context: InvocationContext) -> EventStream {
        (**self).run(context)
    }
}

/// The event that reports a failure. Everybody who may read the session may read it.
pub(crate) fn failure_event(context: &InvocationContext, error: &Error) -> Event {
    let mut event = context.event();
    if error.is_for_operator() {
        tracing::warn!(kind = error.kind().as_str(), %error, "an agent has failed");
    }
    event.error_code = Some(error.public_kind().as_str().to_uppercase());
    event.error_message = Some(error.public_message().to_owned());
    event
}
