//! Agents that run other agents: one after another, at the same time, or again and again.
//!
//! All of them share one invocation: its id, its session and its `temp:` state.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::callback::{AgentCallbacks, agent_callback_methods};
use super::drive::{Turn, catch_panics, drive};
use super::{Agent, CallbackContext, EventStream, InvocationContext};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::runner::inherit_run;

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
                let context = context.for_agent(&self.name);
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
    /// A sub-agent goes on when its event has been committed and taken by whoever reads the run. Needs a Tokio
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
            for agent in agents {
                let mut events = agent.run(context.clone());
                while let Some(event) = events.next().await {
                    yield event?;
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
            'rounds: for _ in 0..rounds {
                // Agents that never wait would keep everybody else from running, and this loop from being dropped.
                tokio::task::yield_now().await;
                for agent in &agents {
                    let mut escalated = false;
                    let mut events = agent.run(context.clone());
                    while let Some(event) = events.next().await {
                        let event = event?;
                        escalated |= event.actions.escalate == Some(true);
                        yield event;
                    }
                    if escalated {
                        break 'rounds;
                    }
                }
            }
        })
    }
}

/// An event of a parallel child, and where to say that it has been taken.
type Handed = (Result<Event>, oneshot::Sender<()>);

impl ParallelAgent {
    fn turn(&self, context: InvocationContext) -> EventStream {
        let agents = self.sub_agents.clone();
        let names: Vec<_> = agents.iter().map(|agent| agent.name().to_owned()).collect();
        Box::pin(async_stream::try_stream! {
            // One slot: a child that is ahead waits. Dropping the set ends the children.
            let (sender, mut receiver) = mpsc::channel::<Handed>(1);
            let mut children = JoinSet::new();
            for agent in agents {
                let events = agent.run(context.for_branch(agent.name()));
                children.spawn(inherit_run(hand_over(events, sender.clone())));
            }
            drop(sender);
            while let Some((event, taken)) = receiver.recv().await {
                let event = event?;
                // A child that escalates ends its siblings; one of its own children does not.
                let ends = !event.is_partial() && event.actions.escalate == Some(true) && names.contains(&event.author);
                yield event;
                if ends {
                    return;
                }
                // A child that has ended meanwhile waits for nothing.
                let _ = taken.send(());
            }
            while let Some(joined) = children.join_next().await {
                joined.map_err(|e| Error::internal("an agent that ran in parallel panicked").with_source(e))?;
            }
        })
    }
}

/// Gives a child's events to its parent, one at a time.
async fn hand_over(events: EventStream, sender: mpsc::Sender<Handed>) {
    let mut events = pin!(catch_panics(events));
    while let Some(event) = events.next().await {
        let (taken, wait) = oneshot::channel();
        if sender.send((event, taken)).await.is_err() || wait.await.is_err() {
            return;
        }
    }
}
