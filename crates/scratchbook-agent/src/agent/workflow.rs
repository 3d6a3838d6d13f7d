//! Agents that run other agents: in sequence, concurrently, or repeatedly.
//!
//! All agents of a workflow share one invocation: its id, its session and its `temp:` state.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::agent_turn::{AgentTurn, catch_panics, drive};
use super::callback::{AgentCallbacks, agent_callback_methods};
use super::layer_group::{GroupGuard, RunningTask};
use super::resume::{AwaitedCalls, PastEvents};
use super::tree::check_agent_name;
use super::{Agent, CallbackContext, EventStream, InvocationContext};
use crate::runner::inherit_run;
use crate::trace;
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

macro_rules! workflow_agent {
    ($(#[$doc:meta])* $agent:ident, $builder:ident { $($field:ident: $type:ty = $default:expr),* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $agent {
            name: String,
            description: String,
            sub_agents: Vec<Arc<dyn Agent>>,
            callbacks: AgentCallbacks,
            $($field: $type,)*
        }

        impl $agent {
            /// Creates a builder for an agent with this name.
            #[must_use]
            pub fn builder(name: impl Into<String>) -> $builder {
                $builder { agent: Self::new(name, Vec::new()) }
            }

            /// Creates an agent with this name that runs the given agents. A runner checks the name.
            #[must_use]
            pub fn new(name: impl Into<String>, sub_agents: Vec<Arc<dyn Agent>>) -> Self {
                Self {
                    name: name.into(),
                    description: String::new(),
                    sub_agents,
                    callbacks: AgentCallbacks::default(),
                    $($field: $default,)*
                }
            }

            /// Sets the description that other agents are shown if they may hand over to this one.
            #[must_use]
            pub fn with_description(mut self, description: impl Into<String>) -> Self {
                self.description = description.into();
                self
            }

            agent_callback_methods!(callbacks);
        }

        #[doc = concat!("Builds a [`", stringify!($agent), "`].")]
        #[derive(Clone, Debug)]
        pub struct $builder {
            agent: $agent,
        }

        impl $builder {
            /// Describes what the agent is good at, for agents that may hand over to it.
            #[must_use]
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.agent.description = description.into();
                self
            }

            /// Adds an agent that this one runs.
            #[must_use]
            pub fn sub_agent(mut self, agent: impl Agent) -> Self {
                self.agent.sub_agents.push(Arc::new(agent));
                self
            }

            agent_callback_methods!(agent.callbacks);

            /// Builds the agent.
            ///
            /// # Errors
            ///
            /// `InvalidArgument` if the name is not an identifier or is `user`.
            pub fn build(self) -> Result<$agent> {
                check_agent_name(&self.agent.name)?;
                Ok(self.agent)
            }
        }

        impl Agent for $agent {
            fn name(&self) -> &str {
                &self.name
            }

            fn description(&self) -> &str {
                &self.description
            }

            fn sub_agents(&self) -> &[Arc<dyn Agent>] {
                &self.sub_agents
            }

            fn calls_plugins(&self) -> bool {
                true
            }

            fn run(&self, context: InvocationContext) -> EventStream {
                let context = context.for_turn(&self.name);
                let events = self.turn(context.clone());
                drive(AgentTurn { callbacks: context.plugins().around(&self.callbacks), context, events, span: None })
            }
        }
    };
}

workflow_agent! {
    /// Runs its sub-agents in sequence.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    ///
    /// let writer = LlmAgent::builder("writer").model(ScriptedLlm::new(["A draft."])).output_key("draft").build()?;
    /// let editor = LlmAgent::builder("editor").model(ScriptedLlm::new(["Better."])).instruction("Edit: {draft}").build()?;
    /// let both = SequentialAgent::builder("both").sub_agent(writer).sub_agent(editor).build()?;
    /// # Ok::<(), scratchbook::Error>(())
    /// ```
    SequentialAgent, SequentialAgentBuilder {}
}

workflow_agent! {
    /// Runs its sub-agents concurrently, each on its own branch, `[outer.]PARALLEL.CHILD`.
    ///
    /// After each event, a sub-agent waits until the event is committed and the run's reader has taken it. If a
    /// sub-agent escalates, the others are stopped: their uncommitted changes are dropped, and their `after_agent`
    /// callbacks are not called. Needs a Tokio runtime.
    ParallelAgent, ParallelAgentBuilder {}
}

workflow_agent! {
    /// Runs its sub-agents in sequence again and again, until one escalates or the maximum number of iterations is
    /// reached.
    LoopAgent, LoopAgentBuilder { max_iterations: Option<usize> = None }
}

impl SequentialAgent {
    fn turn(&self, context: InvocationContext) -> EventStream {
        let agents = self.sub_agents.clone();
        Box::pin(async_stream::try_stream! {
            let mut checkpoint = WorkflowCheckpoint::of(&context, &agents);
            for agent in agents.iter().skip(checkpoint.place) {
                let state = agent_state([(CURRENT, json!(agent.name()))]);
                if !checkpoint.recorded && let Some(event) = context.checkpoint_event(state) {
                    yield event;
                }
                let past = checkpoint.take_past();
                let mut awaited = AwaitedCalls::of(past.as_deref());
                let mut events = trace::run(agent, &context.with_past(past));
                while let Some(event) = events.next().await {
                    let event = event?;
                    awaited.update(&event);
                    yield event;
                }
                // The next agent may need the response that this agent's call is waiting for.
                if !awaited.is_empty() {
                    return;
                }
            }
        })
    }
}

impl LoopAgent {
    /// Limits the number of iterations.
    #[must_use]
    pub fn with_max_iterations(mut self, max_iterations: usize) -> Self {
        self.max_iterations = Some(max_iterations);
        self
    }

    fn turn(&self, context: InvocationContext) -> EventStream {
        let agents = self.sub_agents.clone();
        // A loop without agents would run for ever.
        let rounds = if agents.is_empty() { 0 } else { self.max_iterations.unwrap_or(usize::MAX) };
        Box::pin(async_stream::try_stream! {
            let mut checkpoint = WorkflowCheckpoint::of(&context, &agents);
            for round in checkpoint.round..rounds {
                // If no agent ever waited, this loop would block other tasks and could not be dropped. So it yields
                // once in each round.
                tokio::task::yield_now().await;
                for agent in agents.iter().skip(std::mem::take(&mut checkpoint.place)) {
                    let state = agent_state([(CURRENT, json!(agent.name())), (ROUND, json!(round))]);
                    if !checkpoint.recorded && let Some(event) = context.checkpoint_event(state) {
                        yield event;
                    }
                    let past = checkpoint.take_past();
                    let mut awaited = AwaitedCalls::of(past.as_deref());
                    let mut escalated = past.as_ref().is_some_and(|past| past.escalated(|_| true));
                    let mut events = trace::run(agent, &context.with_past(past));
                    while let Some(event) = events.next().await {
                        let event = event?;
                        escalated |= event.actions.escalate == Some(true);
                        awaited.update(&event);
                        yield event;
                    }
                    if escalated || !awaited.is_empty() {
                        return;
                    }
                }
            }
        })
    }
}

impl LoopAgentBuilder {
    /// Limits the number of iterations.
    #[must_use]
    pub fn max_iterations(mut self, max_iterations: usize) -> Self {
        self.agent.max_iterations = Some(max_iterations);
        self
    }
}

/// ADK's key for the current sub-agent of a workflow agent.
const CURRENT: &str = "current_sub_agent";
/// ADK's key for the number of finished loops.
const ROUND: &str = "times_looped";

fn agent_state<const N: usize>(state: [(&str, Value); N]) -> Map<String, Value> {
    state.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The position from which a workflow agent that runs its agents in sequence continues.
struct WorkflowCheckpoint {
    place: usize,
    round: usize,
    /// Whether an event has already recorded this position.
    recorded: bool,
    past: Option<Arc<PastEvents>>,
}

impl WorkflowCheckpoint {
    fn of(context: &InvocationContext, agents: &[Arc<dyn Agent>]) -> Self {
        let past = context.past();
        let Some((state, since)) = past.and_then(|past| past.state(context.agent_name(), context.branch())) else {
            return Self { place: 0, round: 0, recorded: false, past: past.cloned() };
        };
        let round =
            state.get(ROUND).and_then(Value::as_u64).and_then(|round| round.try_into().ok()).unwrap_or_default();
        let current = state.get(CURRENT).and_then(Value::as_str).unwrap_or_default();
        match agents.iter().position(|agent| agent.name() == current) {
            Some(place) => Self { place, round, recorded: true, past: Some(since) },
            None => {
                let agent = context.agent_name();
                tracing::warn!(agent, current, "the agent that was running no longer exists; the first agent runs");
                Self { place: 0, round, recorded: false, past: None }
            }
        }
    }

    /// Returns the events from which the next agent continues. The agents after that agent start from their beginning.
    fn take_past(&mut self) -> Option<Arc<PastEvents>> {
        self.recorded = false;
        self.past.take()
    }
}

/// An event of a parallel child, and the channel that reports when the event was taken.
type ChildEvent = (Result<Event>, oneshot::Sender<()>);

impl ParallelAgent {
    fn turn(&self, context: InvocationContext) -> EventStream {
        let agents = self.sub_agents.clone();
        let names: Vec<_> = agents.iter().map(|agent| agent.name().to_owned()).collect();
        Box::pin(async_stream::try_stream! {
            let past = context.past().and_then(|past| past.state(context.agent_name(), context.branch()));
            let past = past.map(|(_, since)| since);
            if past.as_ref().is_some_and(|past| past.escalated(|author| names.iter().any(|name| name == author))) {
                return;
            }
            if past.is_none() && let Some(event) = context.checkpoint_event(Map::new()) {
                yield event;
            }
            // The channel has only one slot, so that children that are ahead of the reader wait.
            let (sender, mut receiver) = mpsc::channel::<ChildEvent>(1);
            let mut children = Children::of(&context);
            for agent in agents {
                let child = context.for_branch(agent.name()).with_layer_group(children.layers.group());
                let past = past.as_ref().map(|past| past.on_branch(child.branch().unwrap_or_default()));
                if past.as_ref().is_some_and(|past| past.has_ended(agent.name(), child.branch())) {
                    continue;
                }
                let events = trace::run(&agent, &child.with_past(past));
                children.tasks.spawn(inherit_run(hand_over(children.layers.group().begin(), events, sender.clone())));
            }
            drop(sender);
            let mut cut = None;
            while let Some((event, taken)) = receiver.recv().await {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => {
                        cut = Some(Err(error));
                        break;
                    }
                };
                // A child that escalates stops its siblings. If a child of a child escalates, the siblings go on.
                let ends = !event.is_partial() && event.actions.escalate == Some(true) && names.contains(&event.author);
                yield event;
                if ends {
                    cut = Some(Ok(()));
                    break;
                }
                // Sending fails if the child has ended in the meantime. Then nobody waits for this signal.
                let _ = taken.send(());
            }
            if let Some(outcome) = cut {
                children.shut_down().await;
                outcome?;
                return;
            }
            while let Some(joined) = children.tasks.join_next().await {
                joined.map_err(|e| Error::internal("an agent that ran in parallel panicked").with_source(e))?;
            }
        })
    }
}

/// The tasks of agents that run in parallel, and their uncommitted changes. Dropping this value drops the changes and
/// ends each task at its next await.
struct Children {
    tasks: JoinSet<()>,
    layers: GroupGuard,
}

impl Children {
    fn of(context: &InvocationContext) -> Self {
        Self { tasks: JoinSet::new(), layers: GroupGuard::new(context) }
    }

    /// Stops the tasks. Once this returns, their code and the code of agents that they run in parallel has ended, and
    /// none of their changes is visible.
    async fn shut_down(mut self) {
        self.tasks.shutdown().await;
        self.layers.group().ended().await;
    }
}

/// Passes a child's events to its parent, one at a time.
async fn hand_over(_running: RunningTask, events: EventStream, sender: mpsc::Sender<ChildEvent>) {
    let mut events = pin!(catch_panics(events));
    while let Some(event) = events.next().await {
        let (taken, wait) = oneshot::channel();
        if sender.send((event, taken)).await.is_err() || wait.await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflow_agents_are_built_as_llm_agents_are() {
        let inner = SequentialAgent::builder("inner").description("Does nothing.").build().unwrap();
        let outer = LoopAgent::builder("outer").sub_agent(inner).max_iterations(2).build().unwrap();
        assert_eq!(outer.max_iterations, Some(2));
        assert_eq!(outer.sub_agents()[0].description(), "Does nothing.");
        assert!(ParallelAgent::builder("no identifier").build().is_err());
    }
}
