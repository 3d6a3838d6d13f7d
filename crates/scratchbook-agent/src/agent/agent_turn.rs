//! Runs an agent's turn: calls its callbacks, reports a failure, and continues with the agent that takes over.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt, Stream, StreamExt, stream};

use super::callback::AgentCallbacks;
use super::resume::{AwaitedCalls, TurnStatus};
use super::{EventStream, InvocationContext, failure_event};
use crate::trace::OpenSpan;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

/// An agent's turn, ready to run.
pub(super) struct AgentTurn {
    pub(super) callbacks: AgentCallbacks,
    /// The context of the run, for this agent.
    pub(super) context: InvocationContext,
    pub(super) events: EventStream,
    /// The span of a turn to which another agent has handed over. The span of a run's first turn is kept elsewhere.
    pub(super) span: Option<OpenSpan>,
}

/// Runs a turn. If the agent hands over the conversation, the same loop runs the next agent's turn. The turns are not
/// nested, so endless handovers do not exhaust the stack. The callbacks after a turn run when all turns that follow it
/// have ended. A resumed run continues with the agent that had the conversation.
pub(super) fn drive(first: AgentTurn) -> EventStream {
    Box::pin(async_stream::try_stream! {
        let mut finished = Vec::new();
        let mut next = resume_turn(first, &mut finished);
        loop {
            while let Some(AgentTurn { callbacks, context, mut events, span: _span }) = next.take() {
                let mut before = callbacks.run_before(&context).await;
                let mut progress = TurnProgress::of(&context);
                if let Some(event) = before.event.take() {
                    yield progress.add(event, &context);
                }
                let answered = match before.finish() {
                    Ok(answered) => answered,
                    Err(error) => Err(callbacks.report(error, &context).await)?,
                };
                // If a callback hands over, the next agent's turn takes the place of this turn.
                let is_over = answered || progress.handed_to.is_some();
                while !is_over && let Some(item) = events.next().await {
                    match item {
                        Ok(event) => {
                            yield progress.add(event, &context);
                        }
                        Err(error) => {
                            if !error.is_reported() {
                                yield failure_event(&context, &error);
                            }
                            Err(callbacks.report(error.reported(), &context).await)?;
                        }
                    }
                }
                if let Some(event) = progress.end_event(&context) {
                    yield event;
                }
                match progress.next_turn(&context) {
                    Ok(turn) => next = turn,
                    Err(error) => {
                        yield failure_event(&context, &error);
                        Err(callbacks.report(error.reported(), &context).await)?;
                    }
                }
                if !answered {
                    finished.push((callbacks, context));
                }
            }
            let Some((callbacks, context)) = finished.pop() else {
                break;
            };
            let mut after = callbacks.run_after(&context).await;
            let mut progress = TurnProgress::of(&context);
            if let Some(event) = after.event.take() {
                yield progress.add(event, &context);
            }
            let next_turn = after.finish().and_then(|_| progress.next_turn(&context));
            match next_turn {
                Ok(turn) => next = turn,
                Err(error) => {
                    if !error.is_reported() {
                        yield failure_event(&context, &error);
                    }
                    Err(callbacks.report(error.reported(), &context).await)?;
                }
            }
        }
    })
}

/// The progress of a turn, derived from its events so far.
struct TurnProgress {
    awaited: AwaitedCalls,
    /// Whether the agent itself has recorded the end of its turn.
    has_ended: bool,
    handed_to: Option<String>,
}

impl TurnProgress {
    fn of(context: &InvocationContext) -> Self {
        let awaited = AwaitedCalls::of(context.past().map(Arc::as_ref));
        Self { awaited, has_ended: false, handed_to: None }
    }

    /// Updates the progress with an event of the turn, and returns the event with its node path.
    fn add(&mut self, mut event: Event, context: &InvocationContext) -> Event {
        context.set_node_path(&mut event);
        if event.author == context.agent_name() && !event.is_partial() {
            if let Some(agent) = &event.actions.transfer_to_agent {
                self.handed_to = Some(agent.clone());
            }
            self.has_ended |= event.actions.end_of_agent == Some(true);
        }
        self.awaited.update(&event);
        event
    }

    /// Returns the event that records the end of the turn. A turn that waits for an answer has not ended.
    fn end_event(&self, context: &InvocationContext) -> Option<Event> {
        if self.has_ended || !self.awaited.is_empty() {
            return None;
        }
        context.end_event()
    }

    /// Returns the turn of the agent that received the conversation; `None` if the agent did not hand over.
    fn next_turn(self, context: &InvocationContext) -> Result<Option<AgentTurn>> {
        let Some(name) = self.handed_to else {
            return Ok(None);
        };
        let agent = context.tree().find(&name);
        let agent = agent.ok_or_else(|| Error::not_found(format!("there is no agent '{name}' to hand over to")))?;
        Ok(Some(turn_of(agent.as_ref(), &context.for_next_agent(agent.name()))))
    }
}

/// Returns the turn from which a resumed run continues: the turn of the agent that had the conversation last. Adds the
/// turns before it to `finished`. Returns `None` if there is nothing to do now.
fn resume_turn(first: AgentTurn, finished: &mut Vec<(AgentCallbacks, InvocationContext)>) -> Option<AgentTurn> {
    let Some(past) = first.context.past().cloned() else {
        return Some(first);
    };
    let mut turn = first;
    for (name, past) in past.handovers(turn.context.agent_name(), turn.context.branch()).into_iter().skip(1) {
        // A handover to an agent that no longer exists is ignored.
        let Some(agent) = turn.context.tree().find(&name) else {
            break;
        };
        let next = turn_of(agent.as_ref(), &turn.context.for_next_agent(&name).with_past(Some(past)));
        finished.push((turn.callbacks, turn.context));
        turn = next;
    }
    let AgentTurn { callbacks, context, events, span } = turn;
    let asks_model = context.tree().find(context.agent_name()).is_some_and(|agent| agent.as_llm_agent().is_some());
    let past = context.past().cloned().unwrap_or_default();
    match past.status(context.agent_name(), context.branch(), asks_model) {
        TurnStatus::Continues => Some(AgentTurn { callbacks, context, events, span }),
        TurnStatus::Answered => {
            Some(AgentTurn { callbacks: callbacks.after_only(), context, events: Box::pin(stream::empty()), span })
        }
        TurnStatus::Waiting | TurnStatus::Ended => {
            finished.clear();
            None
        }
    }
}

/// Returns the turn of an agent that receives the conversation.
fn turn_of(agent: &dyn super::Agent, context: &InvocationContext) -> AgentTurn {
    let span = OpenSpan::of_agent(agent, context);
    let context = context.within(&span);
    let turn = match agent.as_llm_agent() {
        Some(agent) => agent.turn(&context),
        None => {
            let events = agent.run(context.clone());
            AgentTurn { callbacks: callbacks_around(agent, &context), events, context, span: None }
        }
    };
    AgentTurn { span: Some(span), ..turn }
}

/// Runs an agent's turn, with the callbacks of plugins around it.
pub(crate) fn run_agent(agent: &Arc<dyn super::Agent>, context: InvocationContext) -> EventStream {
    let events = agent.run(context.clone());
    if agent.calls_plugins() || context.plugins().is_empty() {
        return events;
    }
    let context = context.for_agent(agent.name());
    drive(AgentTurn { callbacks: callbacks_around(agent.as_ref(), &context), context, events, span: None })
}

/// Returns the plugins' callbacks, unless the agent calls them itself.
fn callbacks_around(agent: &dyn super::Agent, context: &InvocationContext) -> AgentCallbacks {
    match agent.calls_plugins() {
        true => AgentCallbacks::default(),
        false => context.plugins().around(&AgentCallbacks::default()),
    }
}

/// Returns the events unchanged, but turns a panic into an error.
pub(crate) fn catch_panics(events: EventStream) -> impl Stream<Item = Result<Event>> + Send {
    AssertUnwindSafe(events)
        .catch_unwind()
        .map(|item| item.unwrap_or_else(|_| Err(Error::internal("an agent or one of its callbacks panicked"))))
}

/// Returns the outcome unchanged, but turns a panic into an error.
pub(crate) async fn catch_panic<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.unwrap_or_else(|_| Err(Error::internal(format!("{what} panicked"))))
}
