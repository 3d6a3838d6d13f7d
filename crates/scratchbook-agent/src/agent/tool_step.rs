//! The calls of a model's answer: run at the same time, answered in one event.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{join_all, ready};
use serde_json::{Map, Value, json};

use super::board::Seen;
use super::callback::ToolCall;
use super::confirmation::{self, Gate};
use super::context::InvocationContext;
use super::draft::EventDraft;
use super::drive::catch_panic;
use super::llm_agent::Inner;
use super::write_context::ToolContext;
use crate::tool::{Tool, ToolConfirmation};
use scratchbook_core::content::{Content, FunctionCall, Part};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::{Event, EventActions};

/// Calls to be run.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) calls: Vec<FunctionCall>,
    /// What the user has said to them, by their ids.
    pub(super) confirmations: BTreeMap<String, ToolConfirmation>,
}

impl Calls {
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
pub(super) struct Answers {
    pub(super) events: Vec<(Option<EventDraft>, Event)>,
    /// Whether the agent has said its last word for now.
    pub(super) is_final: bool,
}

/// Runs calls at the same time.
pub(super) async fn tool_step(
    agent: &Inner,
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
    calls: &Calls,
) -> Result<Answers> {
    let shared = context.draft();
    let draft = &shared;
    let running = calls.calls.iter().map(|call| {
        let tool = tools.iter().find(|tool| Some(tool.declaration().name.as_str()) == call.name.as_deref());
        // Pages in the order of the calls: of two that change the same, the later call wins.
        let page = draft.page(Seen::ByItself);
        let id = call.id.as_deref().unwrap_or_default();
        let tool_context =
            ToolContext::new(Arc::clone(&page), context, id).with_confirmation(calls.confirmations.get(id).cloned());
        async move {
            let work = match tool {
                Some(tool) => run_call(agent, tool.as_ref(), tool_context, call).boxed(),
                None => ready(Err(unknown_tool(call, tools))).boxed(),
            };
            let answer = catch_panic(&format!("the tool '{}'", call.name.as_deref().unwrap_or_default()), work).await;
            match &answer {
                // What a tool wrote that returned well is seen by all; what one wrote that failed vanishes.
                Ok(_) => context.board().publish(page.layer),
                Err(_) => draft.tear_out(&page),
            }
            (call, tool.is_some_and(|tool| tool.is_long_running()), page, answer)
        }
    });
    let mut parts = Vec::new();
    let mut begun = Vec::new();
    let mut unanswered = Vec::new();
    let mut waits = false;
    for (call, answers_later, page, answer) in join_all(running).await {
        // Who asks the user for consent has answered the model.
        let has_answered = !answers_later
            || !matches!(answer, Ok(Value::Null))
            || !page.actions().requested_tool_confirmations.is_empty();
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
        unanswered.push(page);
    }
    let mut later = Vec::new();
    for page in unanswered {
        // What no event shows needs none: it goes with the answers, in the order of the calls, if there are any.
        if *page.actions() == EventActions::default() && context.board().is_temp_alone(page.layer) {
            if parts.is_empty() && begun.is_empty() {
                context.board().keep_temp(page.layer)?;
            }
            continue;
        }
        // Other writes of a call without an answer go into an event of their own.
        let own = context.draft();
        own.adopt(draft, &page);
        later.extend(own.finish_changes()?.map(|event| (Some(own), event)));
    }
    let mut events = Vec::new();
    if !parts.is_empty() || !begun.is_empty() {
        let has_answers = !parts.is_empty();
        parts.extend(begun);
        let mut event = draft.finish(Event { content: Some(Content::new("user", parts)), ..Event::default() })?;
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
        later.extend(context.stands(Map::new()).map(|event| (None, event)));
    }
    events.extend(later);
    Ok(Answers { events, is_final })
}

/// One call: callbacks, the user's consent, the tool, callbacks. An answer of a callback before the tool goes to those after
/// it, like the tool's own.
async fn run_call(agent: &Inner, tool: &dyn Tool, context: ToolContext, call: &FunctionCall) -> Result<Value> {
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
        None => match confirmation::gate(tool, &call.args, &context).await? {
            Gate::Closed(answer) => return Ok(answer),
            Gate::Open => tool.run(call.args.clone(), context.clone()).await?,
        },
    };
    for callback in &agent.callbacks.after_tool {
        answer = callback(context.clone(), call.clone(), answer).await?;
    }
    Ok(answer)
}

/// The error for a call of a tool that is not there, in ADK's words.
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
