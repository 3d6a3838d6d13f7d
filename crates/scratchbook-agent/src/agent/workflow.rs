//! Agents that run other agents: one after another, at the same time, or again and again.
//!
//! All of them share one invocation: its id, its session and its `temp:` state.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::callback::{AgentCallbacks, agent_callback_methods};
use super::drive::{Turn, catch_panics, drive};
use super::layers::{GroupGuard, Running};
use super::resume::{Past, Pending};
use super::{Agent, CallbackContext, EventStream, InvocationContext};
use crate::runner::inherit_run;
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

macro_rules! workflow_agent {
    ($(#[$doc:meta])* $agent:ident { $($field:ident: $type:ty = $default:expr),* }) => {
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
            /// An agent of this name over others.
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

            /// The same agent with a description, for agents that may hand over to it.
            #[must_use]
            pub fn with_description(mut self, description: impl Into<String>) -> Self {
                self.description = description.into();
                self
            }

            agent_callback_methods!(callbacks);
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

            fn run(&self, context: InvocationContext) -> EventStream {
                let context = context.for_turn(&self.name);
                let events = self.turn(context.clone());
                drive(Turn { callbacks: self.callbacks.clone(), context, events })
            }
        }
    };
}

workflow_agent! {
    /// Runs its sub-agents one after another, in order.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use scratchbook::{LlmAgent, ScriptedLlm, SequentialAgent};
    ///
    /// let writer = LlmAgent::builder("writer").model(ScriptedLlm::new(["A draft."])).output_key("draft").build()?;
    /// let editor = LlmAgent::builder("editor").model(ScriptedLlm::new(["Better."])).instruction("Edit: {draft}").build()?;
    /// let both = SequentialAgent::new("both", vec![Arc::new(writer), Arc::new(editor)]);
    /// # Ok::<(), scratchbook::Error>(())
    /// ```
    SequentialAgent {}
}

workflow_agent! {
    /// Runs its sub-agents at the same time, each on a branch of its own, `[outer.]PARALLEL.CHILD`.
    ///
    /// A sub-agent goes on when its event has been committed and taken by whoever reads the run. One that escalates ends the
    /// others: what they wrote and did not commit is gone, and their `after_agent` callbacks are not called. Needs a Tokio
    /// runtime.
    ParallelAgent {}
}

workflow_agent! {
    /// Runs its sub-agents in order, again and again, until one escalates or the rounds are over.
    LoopAgent { max_iterations: Option<usize> = None }
}

impl SequentialAgent {
    fn turn(&self, context: InvocationContext) -> EventStream {
        let agents = self.sub_agents.clone();
        Box::pin(async_stream::try_stream! {
            let mut left = Stood::of(&context, &agents);
            for agent in agents.iter().skip(left.place) {
                if !left.told && let Some(event) = context.stands(standing([(CURRENT, json!(agent.name()))])) {
                    yield event;
                }
                let past = left.go_on();
                let mut pending = Pending::of(past.as_deref());
                let mut events = agent.run(context.with_past(past));
                while let Some(event) = events.next().await {
                    let event = event?;
                    pending.see(&event);
                    yield event;
                }
                // What comes next may need the answer that this one waits for.
                if !pending.is_empty() {
                    return;
                }
            }
        })
    }
}

impl LoopAgent {
    /// The same agent with a bound on its rounds.
    #[must_use]
    pub fn with_max_iterations(mut self, max_iterations: usize) -> Self {
        self.max_iterations = Some(max_iterations);
        self
    }

    fn turn(&self, context: InvocationContext) -> EventStream {
        let agents = self.sub_agents.clone();
        // Nothing to repeat would repeat forever.
        let rounds = if agents.is_empty() { 0 } else { self.max_iterations.unwrap_or(usize::MAX) };
        Box::pin(async_stream::try_stream! {
            let mut left = Stood::of(&context, &agents);
            for round in left.round..rounds {
                // Agents that never wait would keep everybody else from running, and this loop from being dropped.
                tokio::task::yield_now().await;
                for agent in agents.iter().skip(std::mem::take(&mut left.place)) {
                    let state = standing([(CURRENT, json!(agent.name())), (ROUND, json!(round))]);
                    if !left.told && let Some(event) = context.stands(state) {
                        yield event;
                    }
                    let past = left.go_on();
                    let mut pending = Pending::of(past.as_deref());
                    let mut escalated = past.as_ref().is_some_and(|past| past.escalated(|_| true));
                    let mut events = agent.run(context.with_past(past));
                    while let Some(event) = events.next().await {
                        let event = event?;
                        escalated |= event.actions.escalate == Some(true);
                        pending.see(&event);
                        yield event;
                    }
                    if escalated || !pending.is_empty() {
                        return;
                    }
                }
            }
        })
    }
}

/// ADK's words for where a workflow agent stands.
const CURRENT: &str = "current_sub_agent";
const ROUND: &str = "times_looped";

fn standing<const N: usize>(state: [(&str, Value); N]) -> Map<String, Value> {
    state.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Where an agent that runs others one after another was left; otherwise, its beginning.
struct Stood {
    place: usize,
    round: usize,
    /// Whether it has told so.
    told: bool,
    past: Option<Arc<Past>>,
}

impl Stood {
    fn of(context: &InvocationContext, agents: &[Arc<dyn Agent>]) -> Self {
        let past = context.past();
        let Some((state, since)) = past.and_then(|past| past.state(context.agent_name(), context.branch())) else {
            return Self { place: 0, round: 0, told: false, past: past.cloned() };
        };
        let round =
            state.get(ROUND).and_then(Value::as_u64).and_then(|round| round.try_into().ok()).unwrap_or_default();
        let current = state.get(CURRENT).and_then(Value::as_str).unwrap_or_default();
        match agents.iter().position(|agent| agent.name() == current) {
            Some(place) => Self { place, round, told: true, past: Some(since) },
            None => {
                let agent = context.agent_name();
                tracing::warn!(agent, current, "the agent that was under way is no more; beginning with the first");
                Self { place: 0, round, told: false, past: None }
            }
        }
    }

    /// What the next agent goes on from; those after it begin anew.
    fn go_on(&mut self) -> Option<Arc<Past>> {
        self.told = false;
        self.past.take()
    }
}

/// An event of a parallel child, and where to say that it has been taken.
type Handed = (Result<Event>, oneshot::Sender<()>);

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
            if past.is_none() && let Some(event) = context.stands(Map::new()) {
                yield event;
            }
            // One slot: a child that is ahead waits.
            let (sender, mut receiver) = mpsc::channel::<Handed>(1);
            let mut children = Children::of(&context);
            for agent in agents {
                let child = context.for_branch(agent.name()).with_layer_group(children.pending.group());
                let past = past.as_ref().map(|past| past.on_branch(child.branch().unwrap_or_default()));
                if past.as_ref().is_some_and(|past| past.has_ended(agent.name(), child.branch())) {
                    continue;
                }
                let events = agent.run(child.with_past(past));
                children.tasks.spawn(inherit_run(hand_over(children.pending.group().begin(), events, sender.clone())));
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
                // A child that escalates ends its siblings; one of its own children does not.
                let ends = !event.is_partial() && event.actions.escalate == Some(true) && names.contains(&event.author);
                yield event;
                if ends {
                    cut = Some(Ok(()));
                    break;
                }
                // A child that has ended meanwhile waits for nothing.
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

/// The tasks of agents that run in parallel, and what they have written and not committed. Dropping it ends both, the tasks
/// as soon as they wait for something.
struct Children {
    tasks: JoinSet<()>,
    pending: GroupGuard,
}

impl Children {
    fn of(context: &InvocationContext) -> Self {
        Self { tasks: JoinSet::new(), pending: GroupGuard::new(context) }
    }

    /// Ends them, and is done when none of their code runs any more, nor that of agents which they run in parallel, and
    /// nothing that they wrote is seen.
    async fn shut_down(mut self) {
        self.tasks.shutdown().await;
        self.pending.group().ended().await;
    }
}

/// Gives a child's events to its parent, one at a time.
async fn hand_over(_running: Running, events: EventStream, sender: mpsc::Sender<Handed>) {
    let mut events = pin!(catch_panics(events));
    while let Some(event) = events.next().await {
        let (taken, wait) = oneshot::channel();
        if sender.send((event, taken)).await.is_err() || wait.await.is_err() {
            return;
        }
    }
}
