//! The steps of an [`LlmAgent`](super::LlmAgent)'s turn. Each step is a model call, followed by the tool calls in the
//! answer.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::callback::{OnModelError, unshared};
use super::compaction::SummaryPermit;
use super::confirmation;
use super::context::InvocationContext;
use super::empty_answer::mark_empty;
use super::history::CLIENT_ID_PREFIX;
use super::invocation_state::Visibility;
use super::llm_agent::LlmAgentDefinition;
use super::pending_event::PendingEvent;
use super::piece_changes::with_changes_in_pieces;
use super::tool_step::{ToolCalls, tool_step};
use super::write_context::CallbackContext;
use super::{EventStream, failure_event, request};
use crate::model::{Llm, LlmRequest, LlmResponse, LlmStream};
use crate::runner::TurnParts;
use crate::tool::Tool;
use crate::trace::OpenSpan;
use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;

/// Runs steps until the final event, or until another agent takes over. Before the first model call, the turn runs
/// confirmed calls and calls that an interrupted run has left.
pub(super) fn turn(agent: Arc<LlmAgentDefinition>, context: InvocationContext) -> EventStream {
    Box::pin(async_stream::try_stream! {
        let turn = LlmTurn::new(agent, context).await?;
        let (mut calls, waits) = turn.calls_before_model().await?;
        loop {
            let mut step = StepResult::default();
            if calls.is_empty() {
                // Some earlier calls have no response yet.
                if waits {
                    break;
                }
                if let Some((summary, permit)) = turn.due_summary().await {
                    yield summary;
                    drop(permit);
                }
                step.is_final = true;
                // A stream may contain several whole answers. The calls of each of them are run.
                let mut answers = with_changes_in_pieces(turn.model_step());
                while let Some(event) = answers.next().await {
                    let event = event?;
                    calls.extend(step.add_answer(&event));
                    yield event;
                }
            }
            for calls in calls.drain(..) {
                let answers = tool_step(&turn.agent, &turn.tools, &turn.context, &calls).await?;
                step.is_final = answers.is_final;
                for (pending, event) in answers.events {
                    step.add_tool_event(&event);
                    yield event;
                    drop(pending);
                }
            }
            if let Some(answer) = &step.structured_answer {
                let pending = turn.context.pending_event();
                yield turn.agent.structured_answer(answer, &pending, &turn.context)?;
                break;
            }
            if step.is_final || step.hands_over {
                break;
            }
        }
    })
}

/// The result of one step: a model call, the calls of its answers, or both.
#[derive(Default)]
struct StepResult {
    /// Whether the agent's turn ends with this step.
    is_final: bool,
    hands_over: bool,
    /// The answer that the model has given by calling `set_model_response`.
    structured_answer: Option<Value>,
}

impl StepResult {
    /// Adds an event of the model, and returns the event's calls if it has any.
    fn add_answer(&mut self, event: &Event) -> Option<ToolCalls> {
        if event.is_partial() {
            return None;
        }
        self.is_final = event.is_final_response();
        // A callback around the model may hand over. The calls of the answer are run first.
        self.hands_over |= event.actions.transfer_to_agent.is_some();
        Some(ToolCalls::of(event, |_| true)).filter(|calls| !calls.is_empty())
    }

    /// Adds an event with responses of tools.
    fn add_tool_event(&mut self, event: &Event) {
        self.hands_over |= event.actions.transfer_to_agent.is_some();
        if let Some(answer) = &event.actions.set_model_response {
            self.structured_answer = Some(Value::clone(answer));
        }
    }
}

/// The data that all steps of a turn share.
struct LlmTurn {
    agent: Arc<LlmAgentDefinition>,
    model: Arc<dyn Llm>,
    tools: Vec<Arc<dyn Tool>>,
    context: InvocationContext,
}

impl LlmTurn {
    async fn new(agent: Arc<LlmAgentDefinition>, context: InvocationContext) -> Result<Self> {
        let model = agent.model_in(&context)?;
        let tools = request::tools(&agent, model.as_ref(), &context).await?;
        let parts = TurnParts { model, tools };
        let TurnParts { model, tools } = match context.run_override() {
            Some(replacing) => replacing.turn(&agent.name, parts),
            None => parts,
        };
        Ok(Self { agent, model, tools, context })
    }

    /// Returns the calls that have to run before the model is called, and whether earlier calls have no response yet.
    async fn calls_before_model(&self) -> Result<(Vec<ToolCalls>, bool)> {
        let mut calls = vec![confirmation::answered(&self.tools, &self.context).await?];
        let mut waits = false;
        if let Some(past) = self.context.past() {
            calls.extend(past.unanswered_calls(&self.agent.name, self.context.branch()));
            waits = past.awaits(&self.agent.name, self.context.branch());
        }
        calls.retain(|calls| !calls.is_empty());
        Ok((calls, waits))
    }

    /// Returns the event of the summary that is due before the model is called, and the permit to make the summary.
    async fn due_summary(&self) -> Option<(Event, SummaryPermit<'_>)> {
        let estimate = || request::estimated_tokens(&self.agent, self.model.as_ref(), &self.context);
        self.context.compacting()?.before_model(&self.context, estimate).await
    }

    fn model_step(&self) -> EventStream {
        model_step(&self.agent, &self.model, &self.tools, &self.context)
    }
}

impl LlmAgentDefinition {
    /// Returns the agent's model, or the model of the nearest agent above it.
    fn model_in(&self, context: &InvocationContext) -> Result<Arc<dyn Llm>> {
        self.model.clone().or_else(|| context.tree().model_above(&self.name)).ok_or_else(|| {
            let message = format!("the agent '{}' has no model, nor has an agent above it; give it one", self.name);
            Error::new(ErrorKind::FailedPrecondition, message)
        })
    }

    /// Calls the model, unless a callback answers in its place.
    async fn ask(
        &self,
        model: &dyn Llm,
        mut request: LlmRequest,
        pending: &PendingEvent,
        context: &InvocationContext,
    ) -> Result<ModelOutput> {
        for callback in context.plugins().model.before_model.iter().chain(&self.callbacks.before_model) {
            let layer = pending.layer(Visibility::Everyone);
            let called = callback((CallbackContext::with_layer(Arc::clone(&layer), context), request));
            match called.await.inspect_err(|_| pending.drop_layer(&layer))? {
                ControlFlow::Continue(next) => request = next,
                ControlFlow::Break(response) => return Ok(ModelOutput::of_callback(Ok(response))),
            }
        }
        context.count_llm_call()?;
        tracing::debug!(agent = self.name, model = request.model, contents = request.contents.len(), "model call");
        let span = Some(OpenSpan::of_model(context, &request));
        let name = model.name().to_owned();
        let blame = move |error: Error| error.context(format!("the model '{name}'"));
        let is_recoverable = self.error_callbacks(context).next().is_some();
        let recoverable = is_recoverable.then(|| request.clone());
        let responses = Box::pin(model.generate(request).map(move |response| response.map_err(&blame)));
        Ok(ModelOutput { responses, is_model: true, recoverable, span })
    }

    fn error_callbacks<'a>(&'a self, context: &'a InvocationContext) -> impl Iterator<Item = &'a OnModelError> {
        context.plugins().model.on_model_error.iter().chain(&self.callbacks.on_model_error)
    }

    /// Returns the response of the first callback that answers in place of a failed model call, or else the error.
    async fn recover(
        &self,
        request: Option<&LlmRequest>,
        error: Error,
        pending: &PendingEvent,
        context: &InvocationContext,
    ) -> Result<LlmResponse> {
        let Some(request) = request else {
            return Err(error);
        };
        let error = Arc::new(error);
        for callback in self.error_callbacks(context) {
            let layer = pending.layer(Visibility::Everyone);
            let own = CallbackContext::with_layer(Arc::clone(&layer), context);
            let called = callback((own, request.clone(), Arc::clone(&error))).await;
            if let Some(response) = called.inspect_err(|_| pending.drop_layer(&layer))? {
                return Ok(response);
            }
        }
        Err(unshared(error))
    }

    /// Builds the event of a model's response. Each callback after the model receives the response of the previous
    /// callback. A plugin may end the sequence.
    async fn model_event(
        &self,
        mut response: LlmResponse,
        tools: &[Arc<dyn Tool>],
        pending: &PendingEvent,
        context: &InvocationContext,
    ) -> Result<Event> {
        let original = (response.partial, response.turn_complete, response.usage_metadata.clone());
        let callbacks = context.plugins().model.after_model.iter().chain(&self.callbacks.after_model);
        for (place, callback) in callbacks.enumerate() {
            let layer = pending.piece_layer(place);
            let own = CallbackContext::with_layer(Arc::clone(&layer), context);
            let called = callback((own, response)).await;
            response = match called.inspect_err(|_| pending.drop_layer(&layer))? {
                ControlFlow::Continue(next) => next,
                ControlFlow::Break(last) => {
                    response = last;
                    break;
                }
            };
        }
        // If a replacement lacks these fields, those of the model's response are kept.
        response.partial = response.partial.or(original.0);
        response.turn_complete = response.turn_complete.or(original.1);
        response.usage_metadata = response.usage_metadata.or(original.2);
        self.event(response, tools, pending, context)
    }

    /// Builds the event of a response, with the changes by callbacks and by `output_key`.
    fn event(
        &self,
        mut response: LlmResponse,
        tools: &[Arc<dyn Tool>],
        pending: &PendingEvent,
        context: &InvocationContext,
    ) -> Result<Event> {
        mark_empty(&mut response, context.run_config());
        let mut event = response.into_event();
        if event.is_partial() {
            return pending.finish(event);
        }
        for part in event.content.iter_mut().filter_map(|content| content.parts.as_mut()).flatten() {
            if let Some(call) = part.function_call.as_mut().filter(|call| call.id.as_deref().is_none_or(str::is_empty))
            {
                call.id = Some(format!("{CLIENT_ID_PREFIX}{}", context.environment().new_id()));
            }
        }
        let ids: BTreeSet<_> = event
            .function_calls()
            .filter(|call| is_long_running(tools, call.name.as_deref().unwrap_or_default()))
            .filter_map(|call| call.id.clone())
            .collect();
        if event.function_calls().next().is_some() {
            event.long_running_tool_ids = Some(ids);
        }
        self.save_output(&event, pending, context)?;
        pending.finish(event)
    }

    /// Returns the final event for an answer that was given by calling a tool. It looks like any answer of the model.
    fn structured_answer(&self, answer: &Value, pending: &PendingEvent, context: &InvocationContext) -> Result<Event> {
        let event = Event { content: Some(Content::model(answer.to_string())), ..Event::default() };
        self.save_output(&event, pending, context)?;
        pending.finish(event)
    }

    /// Stores the agent's final text, or its parsed value, under the output key. Text that comes with a call or was cut
    /// short by an error is not stored.
    pub(super) fn save_output(&self, event: &Event, pending: &PendingEvent, context: &InvocationContext) -> Result<()> {
        if !event.is_final_response() || event.function_calls().next().is_some() || event.error_code.is_some() {
            return Ok(());
        }
        let said = |part: &&Part| part.thought != Some(true) && part.text.is_some();
        let Some(content) = event.content.as_ref().filter(|content| content.parts().iter().any(|part| said(&part)))
        else {
            return Ok(());
        };
        let text = content.text();
        let value = match &self.output_schema {
            None => Value::String(text),
            Some(_) if text.trim().is_empty() => return Ok(()),
            Some(output) => output.parse(&text)?,
        };
        match &self.output_key {
            Some(key) => CallbackContext::new(pending, context).state().set(key, value),
            None => Ok(()),
        }
    }
}

fn is_long_running(tools: &[Arc<dyn Tool>], name: &str) -> bool {
    tools.iter().any(|tool| tool.is_long_running() && tool.declaration().name == name)
}

/// The responses of a model, or of a callback that answers in its place.
struct ModelOutput {
    responses: LlmStream,
    /// Whether the model gave these responses. Callbacks after the model are not called for a callback's answer.
    is_model: bool,
    /// The request, if there are callbacks that may answer in place of a failed call.
    recoverable: Option<LlmRequest>,
    /// The span of the call. It stays open until the event of the whole answer exists.
    span: Option<OpenSpan>,
}

impl ModelOutput {
    /// Returns the answer or the failure of a callback before the model.
    fn of_callback(outcome: Result<LlmResponse>) -> Self {
        Self { responses: Box::pin(stream::iter([outcome])), is_model: false, recoverable: None, span: None }
    }
}

/// Calls the model once: yields the pieces of the answer as they arrive, and then the whole answer.
fn model_step(
    agent: &Arc<LlmAgentDefinition>,
    model: &Arc<dyn Llm>,
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
) -> EventStream {
    let (agent, model, tools, context) = (Arc::clone(agent), Arc::clone(model), tools.to_vec(), context.clone());
    Box::pin(async_stream::try_stream! {
        // If an instruction needs a missing key, the step fails here, before the model is called.
        let mut pending = context.pending_event();
        let request = request::request(&agent, model.as_ref(), &tools, &pending, &context).await?;
        let said = agent.ask(model.as_ref(), request, &pending, &context).await;
        let said = said.unwrap_or_else(|error| ModelOutput::of_callback(Err(error)));
        let ModelOutput { mut responses, is_model, recoverable, mut span } = said;
        let (mut answered, mut failed) = (false, false);
        while !failed && let Some(response) = responses.next().await {
            failed = response.is_err();
            if let Some(span) = &mut span {
                match &response {
                    Ok(response) if response.partial != Some(true) => span.answered(response),
                    Ok(_) => {}
                    Err(error) => span.failed(error),
                }
            }
            let response = match response {
                Err(error) => agent.recover(recoverable.as_ref(), error, &pending, &context).await,
                response => response,
            };
            let event = match response {
                Ok(response) if is_model => agent.model_event(response, &tools, &pending, &context).await,
                Ok(response) => agent.event(response, &tools, &pending, &context),
                Err(error) => Err(error),
            };
            if let Some(mut span) = span.take_if(|_| !event.as_ref().is_ok_and(Event::is_partial)) {
                match &event {
                    Ok(event) => span.told_by(event),
                    Err(error) => span.failed(error),
                }
            }
            match event {
                Ok(event) if event.is_partial() => yield event,
                Ok(event) => {
                    answered = true;
                    yield event;
                    pending = context.pending_event();
                }
                Err(error) => {
                    // The event that reports the failure carries the changes of the callbacks before it.
                    yield pending.finish(failure_event(&context, &error))?;
                    Err(error.reported())?;
                }
            }
        }
        if !answered {
            Err(Error::internal(format!("the model '{}' ended its stream without a whole answer", model.name())))?;
        }
    })
}
