//! Tool calls that need the user's consent. Such a call is held back, the user is asked, and the call runs after the
//! user's answer. The texts and shapes are ADK's.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::context::InvocationContext;
use super::history::{CLIENT_ID_PREFIX, live_backward};
use super::invocation_state::Visibility;
use super::tool_step::ToolCalls;
use super::write_context::ToolContext;
use crate::tool::{Tool, ToolConfirmation};
use scratchbook_core::content::{Content, FunctionCall, FunctionResponse, Part};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;

const NEEDED: &str = "This tool call requires confirmation, please approve or reject.";
const REJECTED: &str = "This tool call is rejected.";

/// Whether a call may run now.
pub(super) enum ConfirmationCheck {
    Passed,
    /// The call may not run, and this is its response.
    Held(Value),
}

/// Holds back a call that the user has not confirmed.
pub(super) async fn check(
    tool: &dyn Tool,
    args: &Map<String, Value>,
    context: &ToolContext,
) -> Result<ConfirmationCheck> {
    if !tool.requires_confirmation(args, context).await? {
        return Ok(ConfirmationCheck::Passed);
    }
    let answer = match context.tool_confirmation() {
        Some(ToolConfirmation { confirmed: true, .. }) => return Ok(ConfirmationCheck::Passed),
        Some(_) => REJECTED,
        None => {
            let name = &tool.declaration().name;
            let hint = format!(
                "Please approve or reject the tool call {name}() by responding with a FunctionResponse with an expected \
                 ToolConfirmation payload."
            );
            context.request_confirmation(hint, None)?;
            // The model has no result to summarize yet.
            context.skip_summarization()?;
            NEEDED
        }
    };
    Ok(ConfirmationCheck::Held(json!({"error": answer})))
}

/// Builds two events: one with the responses of calls, and one that requests the confirmations they need. The event
/// with finished responses comes first.
pub(super) fn requested(calls: &[FunctionCall], mut answer: Event, context: &InvocationContext) -> Vec<Event> {
    let requests = &answer.actions.requested_tool_confirmations;
    let asked = |call: &&FunctionCall| call.id.as_deref().is_some_and(|id| requests.contains_key(id));
    let parts: Vec<_> = calls.iter().filter(asked).map(|call| request_part(call, requests, context)).collect();
    if parts.is_empty() {
        return vec![answer];
    }
    let is_settled = |response: &FunctionResponse| !requests.contains_key(response.id.as_deref().unwrap_or_default());
    let is_settled = answer.function_responses().any(is_settled);
    let ids = parts.iter().filter_map(|part| part.function_call.as_ref()?.id.clone()).collect();
    let mut event = context.event();
    event.content = Some(Content::new("model", parts));
    event.long_running_tool_ids = Some(ids);
    if is_settled {
        answer.actions.skip_summarization = None;
        vec![answer, event]
    } else {
        vec![event, answer]
    }
}

fn request_part(call: &FunctionCall, requests: &Map<String, Value>, context: &InvocationContext) -> Part {
    let request = requests.get(call.id.as_deref().unwrap_or_default());
    let args = [("originalFunctionCall", json!(call)), ("toolConfirmation", json!(request))];
    let args = args.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let mut part = Part::function_call(ToolConfirmation::CALL_NAME, args);
    if let Some(call) = &mut part.function_call {
        call.id = Some(format!("{CLIENT_ID_PREFIX}{}", context.environment().new_id()));
    }
    part
}

/// Returns whether a call requests a confirmation.
pub(crate) fn is_request(call: &FunctionCall) -> bool {
    call.name.as_deref() == Some(ToolConfirmation::CALL_NAME)
}

/// Returns the call that a request asks to confirm, as the request states it.
pub(crate) fn original_call(request: &FunctionCall) -> Option<FunctionCall> {
    serde_json::from_value(request.args.as_ref()?.get("originalFunctionCall")?.clone()).ok()
}

/// The progress of a request for a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmationProgress {
    /// The user has not answered.
    Open,
    /// The user has answered, and the call to be confirmed has no response yet.
    Answered,
    /// The confirmed call has its response, from the tool or later from the user.
    Consumed,
}

/// Returns the progress of a request, from events that all come after it.
pub(crate) fn progress<'a>(request: &FunctionCall, later: impl Iterator<Item = &'a Event>) -> ConfirmationProgress {
    let original = original_call(request).and_then(|call| call.id);
    let mut progress = ConfirmationProgress::Open;
    for event in later {
        let mut answers = event.function_responses().filter_map(|response| response.id.as_deref());
        match progress {
            ConfirmationProgress::Open
                if event.author == "user" && answers.any(|id| Some(id) == request.id.as_deref()) =>
            {
                progress = ConfirmationProgress::Answered;
            }
            ConfirmationProgress::Answered if answers.any(|id| Some(id) == original.as_deref()) => {
                return ConfirmationProgress::Consumed;
            }
            _ => {}
        }
    }
    progress
}

/// Returns an agent's calls that the user has confirmed or rejected and that have no response yet. Only answers since
/// the user's last message without answers count.
///
/// # Errors
///
/// `FailedPrecondition` if the confirmed call differs from the call that was made, or needs no confirmation;
/// `InvalidArgument` if an answer is not a valid confirmation.
pub(super) async fn answered(tools: &[Arc<dyn Tool>], context: &InvocationContext) -> Result<ToolCalls> {
    let session = context.session();
    let answers = latest_answers(session.events().iter().rev().map(Arc::as_ref));
    if answers.is_empty() {
        return Ok(ToolCalls::default());
    }
    let mut events: Vec<_> = live_backward(session.events()).collect();
    events.reverse();
    let mut found = ToolCalls::default();
    let is_own = |event: &Event| event.author == context.agent_name() && !event.is_restored();
    for (at, event) in events.iter().enumerate().filter(|(_, event)| is_own(event)) {
        for request in event.function_calls().filter(|call| is_request(call)) {
            let Some(answer) = request.id.as_deref().and_then(|id| answers.get(id)) else {
                continue;
            };
            if progress(request, events[at + 1..].iter().map(|event| event.as_ref())) != ConfirmationProgress::Answered
            {
                continue;
            }
            // A request that names no call permits nothing.
            let Some(original) = original_call(request) else {
                continue;
            };
            let call = confirmed_call(request, original, &events, tools, context).await?;
            let confirmation = ToolConfirmation::from_response(answer)?;
            // If one call was requested twice, it runs once and the later answer counts.
            if found.confirmations.insert(call.id.clone().unwrap_or_default(), confirmation).is_none() {
                found.calls.push(call);
            }
        }
    }
    Ok(found)
}

/// Returns the user's last answer to each call, by call id. The events come latest first.
fn latest_answers<'a>(latest_first: impl Iterator<Item = &'a Event>) -> BTreeMap<String, Map<String, Value>> {
    let mut answers = BTreeMap::new();
    for event in latest_first.filter(|event| event.author == "user" && event.content.is_some()) {
        if event.function_responses().next().is_none() {
            break;
        }
        for FunctionResponse { id, response, .. } in event.function_responses() {
            if let Some(id) = id {
                answers.entry(id.clone()).or_insert_with(|| response.clone().unwrap_or_default());
            }
        }
    }
    answers
}

/// Returns the call that a request names, from the agent's own events. It has to match the request and to need a
/// confirmation.
async fn confirmed_call(
    request: &FunctionCall,
    original: FunctionCall,
    events: &[&Arc<Event>],
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
) -> Result<FunctionCall> {
    let refused = |why: &str| {
        let id = request.id.as_deref().unwrap_or_default();
        Error::new(ErrorKind::FailedPrecondition, format!("the confirmation '{id}' cannot be carried out: {why}"))
    };
    let id = original.id.as_deref().filter(|id| !id.is_empty()).ok_or_else(|| refused("its call has no id"))?;
    let name = original.name.as_deref().unwrap_or_default();
    let own = events.iter().rev().filter(|event| event.author == context.agent_name());
    let call =
        own.flat_map(|event| event.function_calls()).find(|call| call.id.as_deref() == Some(id) && !is_request(call));
    let call = call.ok_or_else(|| refused(&format!("the agent made no call '{id}'")))?;
    if call.name != original.name {
        return Err(refused(&format!("the call '{id}' is not one of '{name}'")));
    }
    if call.args.clone().unwrap_or_default() != original.args.clone().unwrap_or_default() {
        return Err(refused(&format!("the call '{id}' of '{name}' has other arguments")));
    }
    let tool = tools.iter().find(|tool| tool.declaration().name == name);
    let tool = tool.ok_or_else(|| refused(&format!("the agent has no tool '{name}'")))?;
    let was_requested = events.iter().any(|event| {
        event.actions.requested_tool_confirmations.contains_key(id)
            && event.function_responses().any(|response| response.id.as_deref() == Some(id))
    });
    if !was_requested {
        let pending = context.pending_event();
        let tool_context = ToolContext::new(pending.layer(Visibility::OwnLayer), context, id);
        if !tool.requires_confirmation(&call.args.clone().unwrap_or_default(), &tool_context).await? {
            return Err(refused(&format!("the tool '{name}' needs none")));
        }
    }
    Ok(call.clone())
}
