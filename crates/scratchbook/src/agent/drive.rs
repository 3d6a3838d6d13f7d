//! How an agent's turn is run: its callbacks around it, its failure told, and the agent it hands over to after it.

use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt, Stream, StreamExt};

use super::callback::AgentCallbacks;
use super::{EventStream, InvocationContext, failure_event};
use crate::error::{Error, Result};
use crate::event::Event;

/// An agent's turn, ready to be run.
pub(super) struct Turn {
    pub(super) callbacks: AgentCallbacks,
    /// The run, for this agent.
    pub(super) context: InvocationContext,
    pub(super) events: EventStream,
}

/// Runs a turn. Where the agent hands over, the next agent's turn follows in the same loop, not inside the
/// first: models that hand over to each other for ever take no stack. The callbacks after a turn run when the
/// turns it has led to are over.
pub(super) fn drive(first: Turn) -> EventStream {
    Box::pin(async_stream::stream! {
        let mut next = Some(first);
        let mut over = Vec::new();
        while let Some(Turn { callbacks, context, mut events }) = next.take() {
            let mut called = callbacks.run_before(&context).await;
            if let Some(event) = called.event.take() {
                yield Ok(event);
            }
            if let Some(error) = called.failure.take() {
                yield Err(error);
                return;
            }
            if called.answered {
                continue;
            }
            drop(called);
            let mut handed_to = None;
            while let Some(item) = events.next().await {
                match item {
                    Ok(mut event) => {
                        context.place(&mut event);
                        if event.author == context.agent_name() && !event.is_partial() {
                            handed_to.clone_from(&event.actions.transfer_to_agent);
                        }
                        yield Ok(event);
                    }
                    Err(error) => {
                        if !error.is_told() {
                            yield Ok(failure_event(&context, &error));
                        }
                        yield Err(error.told());
                        return;
                    }
                }
            }
            over.push((callbacks, context.clone()));
            if let Some(name) = handed_to {
                match context.tree().find(&name) {
                    Some(agent) => next = Some(turn_of(agent.as_ref(), &context)),
                    None => {
                        let error = Error::not_found(format!("there is no agent '{name}' to hand over to"));
                        yield Ok(failure_event(&context, &error));
                        yield Err(error.told());
                        return;
                    }
                }
            }
        }
        while let Some((callbacks, context)) = over.pop() {
            let mut called = callbacks.run_after(&context).await;
            if let Some(event) = called.event.take() {
                yield Ok(event);
            }
            if let Some(error) = called.failure.take() {
                yield Err(error);
                return;
            }
        }
    })
}

/// The turn of an agent that is handed the conversation.
fn turn_of(agent: &dyn super::Agent, context: &InvocationContext) -> Turn {
    let context = context.for_next_agent(agent.name());
    match agent.as_llm_agent() {
        Some(agent) => agent.turn(&context),
        None => Turn { callbacks: AgentCallbacks::default(), events: agent.run(context.clone()), context },
    }
}

/// The same events, a panic among them an error.
pub(crate) fn catch_panics(events: EventStream) -> impl Stream<Item = Result<Event>> + Send {
    AssertUnwindSafe(events)
        .catch_unwind()
        .map(|item| item.unwrap_or_else(|_| Err(Error::internal("an agent or one of its callbacks panicked"))))
}

/// The same outcome, a panic an error.
pub(super) async fn catch_panic<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.unwrap_or_else(|_| Err(Error::internal(format!("{what} panicked"))))
}
