//! How an agent's turn is run: its callbacks around it, its failure told, and the agent it hands over to after it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt, Stream, StreamExt, stream};

use super::callback::AgentCallbacks;
use super::resume::{Left, Pending};
use super::{EventStream, InvocationContext, failure_event};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

/// An agent's turn, ready to be run.
pub(super) struct Turn {
    pub(super) callbacks: AgentCallbacks,
    /// The run, for this agent.
    pub(super) context: InvocationContext,
    pub(super) events: EventStream,
}

/// Runs a turn. Where the agent hands over, the next agent's turn follows in the same loop, not inside the
/// first: models that hand over to each other for ever take no stack. The callbacks after a turn run when the
/// turns it has led to are over. A turn that was left earlier goes on with the agent that had the conversation.
pub(super) fn drive(first: Turn) -> EventStream {
    Box::pin(async_stream::stream! {
        let mut over = Vec::new();
        let mut next = take_up(first, &mut over);
        while let Some(Turn { callbacks, context, mut events }) = next.take() {
            let mut called = callbacks.run_before(&context).await;
            if let Some(event) = called.event.take() {
                yield Ok(event);
            }
            if let Some(error) = called.failure.take() {
                yield Err(error);
                return;
            }
            let answered = called.answered;
            drop(called);
            let mut pending = Pending::of(context.past().map(Arc::as_ref));
            let mut ended = false;
            let mut handed_to = None;
            while !answered && let Some(item) = events.next().await {
                match item {
                    Ok(mut event) => {
                        context.place(&mut event);
                        if event.author == context.agent_name() && !event.is_partial() {
                            handed_to = event.actions.transfer_to_agent.clone().or(handed_to);
                            ended |= event.actions.end_of_agent == Some(true);
                        }
                        pending.see(&event);
                        yield Ok(event);
                    }
                    Err(error) => {
                        if !error.is_reported() {
                            yield Ok(failure_event(&context, &error));
                        }
                        yield Err(error.reported());
                        return;
                    }
                }
            }
            // Who waits for an answer is not done.
            if !ended && pending.is_empty() && let Some(event) = context.ends() {
                yield Ok(event);
            }
            if answered {
                continue;
            }
            over.push((callbacks, context.clone()));
            if let Some(name) = handed_to {
                match context.tree().find(&name) {
                    Some(agent) => next = Some(turn_of(agent.as_ref(), &context.for_next_agent(agent.name()))),
                    None => {
                        let error = Error::not_found(format!("there is no agent '{name}' to hand over to"));
                        yield Ok(failure_event(&context, &error));
                        yield Err(error.reported());
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

/// Where a turn was left: the turn of the agent that had the conversation last, behind those that led to it. `None` where
/// nothing is to be done now.
fn take_up(first: Turn, over: &mut Vec<(AgentCallbacks, InvocationContext)>) -> Option<Turn> {
    let Some(past) = first.context.past().cloned() else {
        return Some(first);
    };
    let mut turn = first;
    for (name, past) in past.handovers(turn.context.agent_name(), turn.context.branch()).into_iter().skip(1) {
        // An agent that is no more is one that nothing was handed to.
        let Some(agent) = turn.context.tree().find(&name) else {
            break;
        };
        let next = turn_of(agent.as_ref(), &turn.context.for_next_agent(&name).with_past(Some(past)));
        over.push((turn.callbacks, turn.context));
        turn = next;
    }
    let Turn { callbacks, context, events } = turn;
    let asks_model = context.tree().find(context.agent_name()).is_some_and(|agent| agent.as_llm_agent().is_some());
    let past = context.past().cloned().unwrap_or_default();
    match past.left(context.agent_name(), context.branch(), asks_model) {
        Left::Going => Some(Turn { callbacks, context, events }),
        Left::Done => Some(Turn { callbacks: callbacks.after_only(), context, events: Box::pin(stream::empty()) }),
        Left::Waiting | Left::Ended => {
            over.clear();
            None
        }
    }
}

/// The turn of an agent that is handed the conversation.
fn turn_of(agent: &dyn super::Agent, context: &InvocationContext) -> Turn {
    match agent.as_llm_agent() {
        Some(agent) => agent.turn(context),
        None => {
            Turn { callbacks: AgentCallbacks::default(), events: agent.run(context.clone()), context: context.clone() }
        }
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
