//! An agent made from a function.

use std::fmt;
use std::sync::Arc;

use futures_util::Stream;

use super::agent_turn::{AgentTurn, drive};
use super::callback::AgentCallbacks;
use super::{Agent, EventStream, InvocationContext};
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;

/// An agent whose turn is a function from its context to a stream of events.
///
/// ```
/// use futures_util::stream;
/// use scratchbook::agent::{FunctionAgent, InvocationContext};
/// use scratchbook::StateDelta;
///
/// let agent = FunctionAgent::new("counter", |context: InvocationContext| {
///     let delta = StateDelta::new().with_increment("count", 1);
///     stream::iter([delta.map(|delta| context.event().with_state_delta(delta))])
/// });
/// ```
#[derive(Clone)]
pub struct FunctionAgent {
    name: String,
    description: String,
    function: Arc<dyn Fn(InvocationContext) -> EventStream + Send + Sync>,
}

impl FunctionAgent {
    /// Creates an agent with this name that runs the function.
    #[must_use]
    pub fn new<F, S>(name: impl Into<String>, function: F) -> Self
    where
        F: Fn(InvocationContext) -> S + Send + Sync + 'static,
        S: Stream<Item = Result<Event>> + Send + 'static,
    {
        let function = Arc::new(move |context| -> EventStream { Box::pin(function(context)) });
        Self { name: name.into(), description: String::new(), function }
    }

    /// Sets the description that other agents are shown if they may hand over to this one.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }
}

impl Agent for FunctionAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn calls_plugins(&self) -> bool {
        true
    }

    fn run(&self, context: InvocationContext) -> EventStream {
        let context = context.for_turn(&self.name);
        let events = (self.function)(context.clone());
        let callbacks = context.plugins().around(&AgentCallbacks::default());
        drive(AgentTurn { callbacks, context, events, span: None })
    }
}

impl fmt::Debug for FunctionAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionAgent").field("name", &self.name).finish_non_exhaustive()
    }
}
