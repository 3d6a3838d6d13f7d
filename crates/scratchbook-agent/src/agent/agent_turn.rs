//! Runs an agent's turn: callbacks around it, the report of a failure, and the agent that it hands over to.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt, Stream, StreamExt, stream};

use super::callback::AgentCallbacks;
use super::resume::{AwaitedCalls, TurnStatus};
use super::{EventStream, InvocationContext, failure_event};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

/// An agent's turn, ready to run.
pub(super) struct AgentTurn {
    pub(super) callbacks: AgentCallbacks,
    /// The run, for this agent.
    pub(super) context: InvocationContext,
    pub(super) events: EventStream,
}

/// Runs a turn. If the agent hands over, the next agent's turn follows in the same loop and not inside the first, so
/// that agents that hand over for ever do not exhaust the stack. The callbacks after a turn run when the turns that
/// follow it are over. A resumed turn continues with the agent that had the conversation.
pub(super) fn drive(first: AgentTurn) -> EventStream {
    Box::pin(async_stream::stream! {
        let mut over = Vec::new();
        let mut next = resume_turn(first, &mut over);
        while let Some(AgentTurn { callbacks, context, mut events }) = next.take() {
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
            let mut awaited = AwaitedCalls::of(context.past().map(Arc::as_ref));
            let mut ended = false;
            let mut handed_to = None;
            while !answered && let Some(item) = events.next().await {
                match item {
                    Ok(mut event) => {
                        context.set_node_path(&mut event);
                        if event.author == context.agent_name() && !event.is_partial() {
                            handed_to = event.actions.transfer_to_agent.clone().or(handed_to);
                            ended |= event.actions.end_of_agent == Some(true);
                        }
                        awaited.update(&event);
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
            // A turn that waits for an answer has not ended.
            if !ended && awaited.is_empty() && let Some(event) = context.end_event() {
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

/// The turn from which a resumed run continues: that of the agent that had the conversation last, with the turns that
/// led to it in `finished`. `None` if there is nothing to do now.
fn resume_turn(first: AgentTurn, over: &mut Vec<(AgentCallbacks, InvocationContext)>) -> Option<AgentTurn> {
    let Some(past) = first.context.past().cloned() else {
        return Some(first);
    };
    let mut turn = first;
    for (name, past) in past.handovers(turn.context.agent_name(), turn.context.branch()).into_iter().skip(1) {
        // A handover to an agent that no longer exists did not take place.
        let Some(agent) = turn.context.tree().find(&name) else {
            break;
        };
        let next = turn_of(agent.as_ref(), &turn.context.for_next_agent(&name).with_past(Some(past)));
        over.push((turn.callbacks, turn.context));
        turn = next;
    }
    let AgentTurn { callbacks, context, events } = turn;
    let asks_model = context.tree().find(context.agent_name()).is_some_and(|agent| agent.as_llm_agent().is_some());
    let past = context.past().cloned().unwrap_or_default();
    match past.status(context.agent_name(), context.branch(), asks_model) {
        TurnStatus::Continues => Some(AgentTurn { callbacks, context, events }),
        TurnStatus::Answered => {
            Some(AgentTurn { callbacks: callbacks.after_only(), context, events: Box::pin(stream::empty()) })
        }
        TurnStatus::Waiting | TurnStatus::Ended => {
            over.clear();
            None
        }
    }
}

/// The turn of an agent that receives the conversation.
fn turn_of(agent: &dyn super::Agent, context: &InvocationContext) -> AgentTurn {
    match agent.as_llm_agent() {
        Some(agent) => agent.turn(context),
        None => AgentTurn {
            callbacks: AgentCallbacks::default(),
            events: agent.run(context.clone()),
            context: context.clone(),
        },
    }
}

/// The same events, with a panic turned into an error.
pub(crate) fn catch_panics(events: EventStream) -> impl Stream<Item = Result<Event>> + Send {
    AssertUnwindSafe(events)
        .catch_unwind()
        .map(|item| item.unwrap_or_else(|_| Err(Error::internal("an agent or one of its callbacks panicked"))))
}

/// The same outcome, with a panic turned into an error.
pub(super) async fn catch_panic<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.unwrap_or_else(|_| Err(Error::internal(format!("{what} panicked"))))
}
