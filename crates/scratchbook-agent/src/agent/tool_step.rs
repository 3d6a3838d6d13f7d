//! Runs the calls of a model's answer concurrently and answers them in one event.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tracing::Instrument;

use super::agent_turn::catch_panic;
use super::callback::{ToolCall, unshared};
use super::confirmation::{self, ConfirmationCheck};
use super::context::InvocationContext;
use super::invocation_state::Visibility;
use super::llm_agent::LlmAgentDefinition;
use super::pending_event::{EventLayer, PendingEvent};
use super::write_context::ToolContext;
use crate::model::call_refusal;
use crate::tool::{Tool, ToolConfirmation};
use crate::trace::OpenSpan;
use scratchbook_core::content::{Content, FunctionCall, Part};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::{Event, EventActions};

/// Calls to run.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    pub(super) calls: Vec<FunctionCall>,
    /// The user's answers to the calls' requests for confirmation, by call id.
    pub(super) confirmations: BTreeMap<String, ToolConfirmation>,
    /// The calls that must not be run, each with the reason.
    refused: Vec<(FunctionCall, String)>,
}

impl ToolCalls {
    /// Returns those calls of an event that are wanted.
    pub(super) fn of(event: &Event, is_wanted: impl Fn(&&FunctionCall) -> bool) -> Self {
        let calls = event.function_calls().filter(is_wanted).cloned().collect();
        let parts = event.content.iter().flat_map(Content::parts);
        let refused = parts.filter_map(|part| {
            let call = part.function_call.as_deref()?.clone();
            Some((call, call_refusal(part)?.to_owned()))
        });
        Self { calls, refused: refused.collect(), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

/// The events that answer calls, in the order in which they are yielded. Each pending event is kept until its event has
/// been taken.
pub(super) struct ToolAnswers {
    pub(super) events: Vec<(Option<PendingEvent>, Event)>,
    /// Whether the agent's turn ends with these events.
    pub(super) is_final: bool,
}

/// Runs calls concurrently and builds the events that answer them.
pub(super) async fn tool_step(
    agent: &LlmAgentDefinition,
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
    calls: &ToolCalls,
) -> Result<ToolAnswers> {
    let pending = context.pending_event();
    let results = run_calls(agent, tools, context, calls, &pending).await;
    let responses = Responses::of(results, calls);
    let later = changes_without_response(&responses, &pending, context)?;
    let mut waits = responses.waits;
    let mut events = response_events(agent, responses, pending, &calls.calls, context)?;
    waits |= events.len() > 1;
    // Without any response, the agent's turn ends and continues when a response comes. A resumable turn waits for all
    // responses.
    let ends = events.last().is_none_or(|(_, event)| event.is_final_response());
    let is_final = ends || (waits && context.is_resumable());
    let has_responses = !events.is_empty();
    events.extend(later);
    if !has_responses {
        // Records that the tools have started. Without the record, a resumed run would start them again.
        events.extend(context.checkpoint_event(Map::new()).map(|event| (None, event)));
    }
    Ok(ToolAnswers { events, is_final })
}

/// The result of one call.
struct CallResult<'a> {
    call: &'a FunctionCall,
    is_long_running: bool,
    runs_agent: bool,
    layer: Arc<EventLayer>,
    answer: Result<Value>,
    span: OpenSpan,
}

/// Runs calls concurrently, each with its own layer.
async fn run_calls<'a>(
    agent: &LlmAgentDefinition,
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
    calls: &'a ToolCalls,
    pending: &PendingEvent,
) -> Vec<CallResult<'a>> {
    let running = calls.calls.iter().map(|call| {
        let tool = tools.iter().find(|tool| Some(tool.declaration().name.as_str()) == call.name.as_deref());
        // Layers are in the order of the calls, so if two calls change one key, the later call's change counts.
        let layer = pending.layer(Visibility::OwnLayer);
        let id = call.id.as_deref().unwrap_or_default();
        let name = call.name.as_deref().unwrap_or_default();
        let description = tool.map(|tool| tool.declaration().description.clone());
        async move {
            let mut span = OpenSpan::of_tool(context, name, description.as_deref(), id);
            let within = context.within(&span);
            let refusal = calls.refused.iter().find(|(refused, _)| refused == call).map(|(_, why)| why.as_str());
            let mut run = CallRun { agent, tool, tools, pending, layer, context: &within, call, refusal };
            let confirmation = calls.confirmations.get(id).cloned();
            let work = run.run(confirmation).instrument(span.span());
            let (answer, is_kept) = match catch_panic(&format!("the tool '{name}'"), work.boxed()).await {
                Ok(answer) => (answer, true),
                Err(error) => (Err(error), false),
            };
            if let Err(error) = &answer {
                span.failed(error);
            }
            span.end();
            let layer = run.layer;
            match is_kept {
                // The changes of a successful call become visible; those of a failed call are dropped.
                true => context.invocation_state().publish(layer.id),
                false => pending.drop_layer(&layer),
            }
            let is_long_running = tool.is_some_and(|tool| tool.is_long_running());
            let runs_agent = tool.is_some_and(|tool| tool.runs_agent());
            CallResult { call, is_long_running, runs_agent, layer, answer, span }
        }
    });
    join_all(running).await
}

/// The responses of calls, and the calls without one.
#[derive(Default)]
struct Responses {
    parts: Vec<Part>,
    /// Empty responses for confirmed calls that have started and will answer later.
    started: Vec<Part>,
    /// For each unconfirmed call that will answer later, the layer with its changes.
    unanswered: Vec<Arc<EventLayer>>,
    /// Whether any call will answer later.
    waits: bool,
    /// The spans of the calls. They stay open until they have got the id of the event with the responses.
    spans: Vec<OpenSpan>,
}

impl Responses {
    fn of(results: Vec<CallResult<'_>>, calls: &ToolCalls) -> Self {
        let mut responses = Self::default();
        for CallResult { call, is_long_running, runs_agent, layer, answer, span } in results {
            responses.spans.push(span);
            // To the model, a request for the user's consent is a response.
            let has_answered = !is_long_running
                || !matches!(answer, Ok(Value::Null))
                || !layer.actions().requested_tool_confirmations.is_empty();
            let is_confirmed = || call.id.as_ref().is_some_and(|id| calls.confirmations.contains_key(id));
            responses.waits |= !has_answered;
            if has_answered {
                let is_shown = runs_agent && layer.actions().skip_summarization == Some(true);
                let text = answer.as_ref().ok().filter(|_| is_shown).and_then(shown_text);
                responses.parts.push(response_part(call, answer));
                responses.parts.extend(text.map(Part::text));
            } else if is_confirmed() {
                // Each confirmation runs its call once, so the start of the call has to be recorded.
                responses.started.push(response_part(call, Ok(Value::Null)));
            } else {
                responses.unanswered.push(layer);
            }
        }
        responses
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.started.is_empty()
    }
}

/// Returns the events with changes of calls that have no response yet.
fn changes_without_response(
    responses: &Responses,
    pending: &PendingEvent,
    context: &InvocationContext,
) -> Result<Vec<(Option<PendingEvent>, Event)>> {
    let mut events = Vec::new();
    for layer in &responses.unanswered {
        // Changes that concern only `temp:` keys need no separate event. If there is an event with responses, it
        // carries these changes, in the order of the calls.
        if *layer.actions() == EventActions::default() && context.invocation_state().is_temp_alone(layer.id) {
            if responses.is_empty() {
                context.invocation_state().keep_temp(layer.id)?;
            }
            continue;
        }
        let own = context.pending_event();
        own.move_layer_from(pending, layer);
        events.extend(own.finish_changes()?.map(|event| (Some(own), event)));
    }
    Ok(events)
}

/// Returns the event with the responses, and the event that requests the confirmations that the calls need. Without
/// responses, there are no events.
fn response_events(
    agent: &LlmAgentDefinition,
    responses: Responses,
    pending: PendingEvent,
    calls: &[FunctionCall],
    context: &InvocationContext,
) -> Result<Vec<(Option<PendingEvent>, Event)>> {
    if responses.is_empty() {
        return Ok(Vec::new());
    }
    let Responses { mut parts, started, spans, .. } = responses;
    let has_answers = !parts.is_empty();
    parts.extend(started);
    let shows_text = parts.iter().any(|part| part.text.is_some());
    let content = Some(Content::new("user", parts));
    let mut event = pending.finish(Event { content: content.clone(), ..Event::default() })?;
    if shows_text {
        // The answer of the tool, which is an agent, then counts as this agent's own answer.
        agent.save_output(&event, &pending, context)?;
        event = pending.finish(Event { content, ..Event::default() })?;
    }
    for mut span in spans {
        span.told_by(&event);
    }
    if !has_answers {
        // The model has no result to summarize yet.
        event.actions.skip_summarization = Some(true);
    }
    let events = confirmation::requested(calls, event, context);
    let mut events: Vec<_> = events.into_iter().map(|event| (None, event)).collect();
    // The pending event owns the layers of the event with the responses, so they are kept together.
    if let Some((kept, _)) = events.iter_mut().find(|(_, event)| event.function_responses().next().is_some()) {
        *kept = Some(pending);
    }
    Ok(events)
}

/// A call that is running.
struct CallRun<'a> {
    agent: &'a LlmAgentDefinition,
    tool: Option<&'a Arc<dyn Tool>>,
    tools: &'a [Arc<dyn Tool>],
    pending: &'a PendingEvent,
    /// The layer that the call writes to. If the tool fails, callbacks get another one.
    layer: Arc<EventLayer>,
    context: &'a InvocationContext,
    call: &'a FunctionCall,
    /// Why the call must not be run.
    refusal: Option<&'a str>,
}

impl CallRun<'_> {
    /// Runs the call: the callbacks before it, the check for the user's consent, the tool, and the callbacks after it.
    /// If a callback before the tool answers, the callbacks after it receive that answer like the tool's own. Returns
    /// the tool's error if callbacks have received the error and no callback has answered.
    ///
    /// # Errors
    ///
    /// The error of a callback, or of a tool without callbacks for errors. All changes of the call are then dropped.
    async fn run(&mut self, confirmation: Option<ToolConfirmation>) -> Result<Result<Value>> {
        let own = &self.agent.callbacks;
        let plugins = &self.context.plugins().model;
        let mut context = self.tool_context(&confirmation);
        let name = self.call.name.clone().unwrap_or_default();
        let mut call = ToolCall { name, args: self.call.args.clone().unwrap_or_default() };
        let mut answered = None;
        for callback in plugins.before_tool.iter().chain(&own.before_tool) {
            match callback((context.clone(), call.clone())).await? {
                ControlFlow::Continue(next) => call = next,
                ControlFlow::Break(answer) => {
                    answered = Some(answer);
                    break;
                }
            }
        }
        let mut answer = match answered {
            Some(answer) => answer,
            None => match self.ask_tool(&call, &context).await {
                Ok(ToolAnswer::Answered(answer)) => answer,
                Ok(ToolAnswer::Held(answer)) => return Ok(Ok(answer)),
                Err(error) if plugins.on_tool_error.is_empty() && own.on_tool_error.is_empty() => return Err(error),
                Err(error) => {
                    self.layer = self.pending.replace_layer(&self.layer);
                    context = self.tool_context(&confirmation);
                    match self.recover(&call, &context, error).await? {
                        Ok(answer) if self.tool.is_some() => answer,
                        // The callbacks after a tool do not concern a tool that does not exist.
                        recovered => return Ok(recovered),
                    }
                }
            },
        };
        for callback in plugins.after_tool.iter().chain(&own.after_tool) {
            match callback((context.clone(), call.clone(), answer)).await? {
                ControlFlow::Continue(next) => answer = next,
                ControlFlow::Break(last) => return Ok(Ok(last)),
            }
        }
        Ok(Ok(answer))
    }

    /// Returns the answer of the first callback that answers in place of a failed tool, or else the tool's error.
    async fn recover(&self, call: &ToolCall, context: &ToolContext, error: Error) -> Result<Result<Value>> {
        let error = Arc::new(error);
        let plugins = &self.context.plugins().model.on_tool_error;
        for callback in plugins.iter().chain(&self.agent.callbacks.on_tool_error) {
            if let Some(answer) = callback((context.clone(), call.clone(), Arc::clone(&error))).await? {
                return Ok(Ok(answer));
            }
        }
        Ok(Err(unshared(error)))
    }

    fn tool_context(&self, confirmation: &Option<ToolConfirmation>) -> ToolContext {
        let id = self.call.id.as_deref().unwrap_or_default();
        ToolContext::new(Arc::clone(&self.layer), self.context, id).with_confirmation(confirmation.clone())
    }

    /// Runs the tool, unless the user has to agree first.
    async fn ask_tool(&self, call: &ToolCall, context: &ToolContext) -> Result<ToolAnswer> {
        let Some(tool) = self.tool else {
            return Err(unknown_tool(self.call, self.tools));
        };
        if let Some(why) = self.refusal {
            return Err(Error::invalid(format!("the call of '{}' was not run: {why}", call.name)));
        }
        let work = async {
            Ok(match confirmation::check(tool.as_ref(), &call.args, context).await? {
                ConfirmationCheck::Held(answer) => ToolAnswer::Held(answer),
                ConfirmationCheck::Passed => ToolAnswer::Answered(tool.run(call.args.clone(), context.clone()).await?),
            })
        };
        catch_panic(&format!("the tool '{}'", call.name), work).await
    }
}

/// The answer of a tool, or the answer in its place while the user has not agreed.
enum ToolAnswer {
    Answered(Value),
    Held(Value),
}

/// Returns the error for a call of an unknown tool, in ADK's words.
fn unknown_tool(call: &FunctionCall, tools: &[Arc<dyn Tool>]) -> Error {
    let name = call.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("<unnamed>");
    let known: Vec<_> = tools.iter().map(|tool| tool.declaration().name.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::not_found(format!(
        "Invoking `{name}()` failed as no tool with that name is available. The tools you can call are: {known}. You could \
         retry, but it is IMPORTANT that you only call a tool from that list."
    ))
}

/// Returns an answer as text for readers that do not show function responses; `None` if there is nothing to show.
fn shown_text(answer: &Value) -> Option<String> {
    match answer {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Object(members) if members.contains_key("error") || *answer == json!({"result": null}) => None,
        other => Some(other.to_string()),
    }
}

fn response_part(call: &FunctionCall, answer: Result<Value>) -> Part {
    let answer = answer.unwrap_or_else(|error| {
        if error.is_for_operator() {
            tracing::warn!(kind = error.kind().as_str(), %error, tool = call.name.as_deref(), "a tool failed");
        }
        json!({"error": error.public_message()})
    });
    Part::function_response(call.id.clone().unwrap_or_default(), call.name.clone().unwrap_or_default(), answer)
}
