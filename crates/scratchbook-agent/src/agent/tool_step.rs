//! The calls of a model's answer, which run concurrently and are answered in one event.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{join_all, ready};
use serde_json::{Map, Value, json};

use super::agent_turn::catch_panic;
use super::callback::ToolCall;
use super::confirmation::{self, ConfirmationCheck};
use super::context::InvocationContext;
use super::invocation_state::Visibility;
use super::llm_agent::LlmAgentDefinition;
use super::pending_event::PendingEvent;
use super::write_context::ToolContext;
use crate::tool::{Tool, ToolConfirmation};
use scratchbook_core::content::{Content, FunctionCall, Part};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::{Event, EventActions};

/// Calls to run.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    pub(super) calls: Vec<FunctionCall>,
    /// The user's answers to them, by call id.
    pub(super) confirmations: BTreeMap<String, ToolConfirmation>,
}

impl ToolCalls {
    /// The calls that an event makes.
    pub(super) fn of(event: &Event) -> Self {
        Self { calls: event.function_calls().cloned().collect(), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

/// What comes of calls: events in the order in which they are told, each with its draft, which is kept until the event is
/// taken.
pub(super) struct ToolAnswers {
    pub(super) events: Vec<(Option<PendingEvent>, Event)>,
    /// Whether the agent has said its last word for now.
    pub(super) is_final: bool,
}

/// Runs calls at the same time.
pub(super) async fn tool_step(
    agent: &LlmAgentDefinition,
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
    calls: &ToolCalls,
) -> Result<ToolAnswers> {
    let shared = context.pending_event();
    let pending = &shared;
    let running = calls.calls.iter().map(|call| {
        let tool = tools.iter().find(|tool| Some(tool.declaration().name.as_str()) == call.name.as_deref());
        // Pages in the order of the calls: of two that change the same, the later call wins.
        let layer = pending.layer(Visibility::OwnLayer);
        let id = call.id.as_deref().unwrap_or_default();
        let tool_context =
            ToolContext::new(Arc::clone(&layer), context, id).with_confirmation(calls.confirmations.get(id).cloned());
        async move {
            let work = match tool {
                Some(tool) => run_call(agent, tool.as_ref(), tool_context, call).boxed(),
                None => ready(Err(unknown_tool(call, tools))).boxed(),
            };
            let answer = catch_panic(&format!("the tool '{}'", call.name.as_deref().unwrap_or_default()), work).await;
            match &answer {
                // What a tool wrote that returned well is seen by all; what one wrote that failed vanishes.
                Ok(_) => context.invocation_state().publish(layer.id),
                Err(_) => pending.drop_layer(&layer),
            }
            (call, tool.is_some_and(|tool| tool.is_long_running()), layer, answer)
        }
    });
    let mut parts = Vec::new();
    let mut begun = Vec::new();
    let mut unanswered = Vec::new();
    let mut waits = false;
    for (call, answers_later, layer, answer) in join_all(running).await {
        // Who asks the user for consent has answered the model.
        let has_answered = !answers_later
            || !matches!(answer, Ok(Value::Null))
            || !layer.actions().requested_tool_confirmations.is_empty();
        if has_answered {
            parts.push(response_part(call, answer));
            continue;
        }
        waits = true;
        // What a consent allows is run once for it: that it was has to be told.
        if call.id.as_ref().is_some_and(|id| calls.confirmations.contains_key(id)) {
            begun.push(response_part(call, Ok(Value::Null)));
            continue;
        }
        unanswered.push(layer);
    }
    let mut later = Vec::new();
    for layer in unanswered {
        // What no event shows needs none: it goes with the answers, in the order of the calls, if there are any.
        if *layer.actions() == EventActions::default() && context.invocation_state().is_temp_alone(layer.id) {
            if parts.is_empty() && begun.is_empty() {
                context.invocation_state().keep_temp(layer.id)?;
            }
            continue;
        }
        // Other writes of a call without an answer go into an event of their own.
        let own = context.pending_event();
        own.move_layer_from(pending, &layer);
        later.extend(own.finish_changes()?.map(|event| (Some(own), event)));
    }
    let mut events = Vec::new();
    if !parts.is_empty() || !begun.is_empty() {
        let has_answers = !parts.is_empty();
        parts.extend(begun);
        let mut event = pending.finish(Event { content: Some(Content::new("user", parts)), ..Event::default() })?;
        if !has_answers {
            // There is nothing yet for the model to sum up.
            event.actions.skip_summarization = Some(true);
        }
        events = confirmation::requested(&calls.calls, event, context).into_iter().map(|event| (None, event)).collect();
        waits |= events.len() > 1;
        // The draft holds what the answers carry.
        if let Some((kept, _)) = events.iter_mut().find(|(_, event)| event.function_responses().next().is_some()) {
            *kept = Some(shared);
        }
    }
    // Where no tool has answered yet, the turn is over until one does; one that can be taken up again waits for all.
    let ends = events.last().is_none_or(|(_, event)| event.is_final_response());
    let is_final = ends || (waits && context.is_resumable());
    if events.is_empty() {
        // The tools are begun; without a word of that they would be begun again when the run is taken up again.
        later.extend(context.checkpoint_event(Map::new()).map(|event| (None, event)));
    }
    events.extend(later);
    Ok(ToolAnswers { events, is_final })
}

/// Runs one call: callbacks, the check for the user's consent, the tool, callbacks. If a callback before the tool
/// answers, that answer is passed to the callbacks after it, like the tool's own.
async fn run_call(
    agent: &LlmAgentDefinition,
    tool: &dyn Tool,
    context: ToolContext,
    call: &FunctionCall,
) -> Result<Value> {
    let name = call.name.clone().unwrap_or_default();
    let mut call = ToolCall { name, args: call.args.clone().unwrap_or_default() };
    let mut answered = None;
    for callback in &agent.callbacks.before_tool {
        match callback(context.clone(), call.clone()).await? {
            ControlFlow::Continue(next) => call = next,
            ControlFlow::Break(answer) => {
                answered = Some(answer);
                break;
            }
        }
    }
    let mut answer = match answered {
        Some(answer) => answer,
        None => match confirmation::check(tool, &call.args, &context).await? {
            ConfirmationCheck::Held(answer) => return Ok(answer),
            ConfirmationCheck::Passed => tool.run(call.args.clone(), context.clone()).await?,
        },
    };
    for callback in &agent.callbacks.after_tool {
        answer = callback(context.clone(), call.clone(), answer).await?;
    }
    Ok(answer)
}

/// The error for a call of an unknown tool, in ADK's words.
fn unknown_tool(call: &FunctionCall, tools: &[Arc<dyn Tool>]) -> Error {
    let name = call.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("<unnamed>");
    let known: Vec<_> = tools.iter().map(|tool| tool.declaration().name.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::not_found(format!(
        "Invoking `{name}()` failed as no tool with that name is available. The tools you can call are: {known}. You could \
         retry, but it is IMPORTANT that you only call a tool from that list."
    ))
}

fn response_part(call: &FunctionCall, answer: Result<Value>) -> Part {
    let answer = answer.unwrap_or_else(|error| {
        if error.is_for_operator() {
            tracing::warn!(kind = error.kind().as_str(), %error, tool = call.name.as_deref(), "a tool has failed");
        }
        json!({"error": error.public_message()})
    });
    Part::function_response(call.id.clone().unwrap_or_default(), call.name.clone().unwrap_or_default(), answer)
}
