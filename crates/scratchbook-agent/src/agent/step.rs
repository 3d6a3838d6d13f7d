//! A turn of an [`LlmAgent`](super::LlmAgent), step by step: a model call, then the calls it asks for.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::board::Seen;
use super::callback::AfterModel;
use super::confirmation;
use super::context::InvocationContext;
use super::draft::EventDraft;
use super::empty_answer::mark_empty;
use super::history::CLIENT_ID_PREFIX;
use super::llm_agent::{Inner, without_code_fence};
use super::look_ahead::look_ahead;
use super::tool_step::{Calls, tool_step};
use super::write_context::CallbackContext;
use super::{EventStream, failure_event, request};
use crate::model::{Llm, LlmRequest, LlmResponse, LlmStream};
use crate::tool::Tool;
use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::json;

/// A turn: steps until an event is the final one, or another agent takes over. It begins with the calls that are to be run
/// before the model is asked: what the user has agreed to, and what was not run when the run was cut off.
pub(super) fn turn(agent: Arc<Inner>, context: InvocationContext) -> EventStream {
    Box::pin(async_stream::try_stream! {
        let model = agent.model_in(&context)?;
        let tools = request::tools(&agent, model.as_ref(), &context);
        let agreed = confirmation::answered(&tools, &context).await?;
        let mut calls = vec![agreed];
        let mut waits = false;
        if let Some(past) = context.past() {
            calls.extend(past.owed(&agent.name, context.branch()));
            waits = past.awaits(&agent.name, context.branch());
        }
        loop {
            calls.retain(|calls| !calls.is_empty());
            let mut is_final = false;
            if calls.is_empty() {
                // Earlier calls may have no answer yet.
                if waits {
                    break;
                }
                if let Some(compacting) = context.compacting() {
                    let estimate = || request::estimated_tokens(&agent, model.as_ref(), &context);
                    if let Some((summary, busy)) = compacting.before_model(&context, estimate).await {
                        yield summary;
                        drop(busy);
                    }
                }
                // What the model says. A stream may hold several whole answers; each one's calls are answered.
                is_final = true;
                let mut said = look_ahead(model_step(&agent, &model, &tools, &context));
                while let Some(event) = said.next().await {
                    let event = event?;
                    if !event.is_partial() {
                        is_final = event.is_final_response();
                        calls.push(Calls::of(&event));
                    }
                    yield event;
                }
                drop(said);
            }
            // What the tools answer.
            let mut hands_over = false;
            let mut set_answer = None;
            for calls in calls.drain(..).filter(|calls| !calls.is_empty()) {
                let answers = tool_step(&agent, &tools, &context, &calls).await?;
                is_final = answers.is_final;
                for (draft, event) in answers.events {
                    hands_over |= event.actions.transfer_to_agent.is_some();
                    set_answer = event.actions.set_model_response.clone().or(set_answer);
                    yield event;
                    drop(draft);
                }
            }
            if let Some(answer) = set_answer {
                let draft = context.draft();
                yield agent.structured_answer(&answer, &draft, &context)?;
                break;
            }
            if is_final || hands_over {
                break;
            }
        }
    })
}

impl Inner {
    /// The agent's model, or that of the agent above it.
    fn model_in(&self, context: &InvocationContext) -> Result<Arc<dyn Llm>> {
        self.model.clone().or_else(|| context.tree().model_above(&self.name)).ok_or_else(|| {
            let message = format!("the agent '{}' has no model, nor has an agent above it; give it one", self.name);
            Error::new(ErrorKind::FailedPrecondition, message)
        })
    }

    /// Asks the model, or the callback that answers in its place.
    async fn ask(
        &self,
        model: &dyn Llm,
        mut request: LlmRequest,
        draft: &EventDraft,
        context: &InvocationContext,
    ) -> Result<Said<'_>> {
        for callback in &self.callbacks.before_model {
            let page = draft.page(Seen::ByAll);
            let called = callback(CallbackContext::with_page(Arc::clone(&page), context), request);
            match called.await.inspect_err(|_| draft.tear_out(&page))? {
                ControlFlow::Continue(next) => request = next,
                ControlFlow::Break(response) => {
                    let responses = Box::pin(stream::iter([Ok(response)]));
                    return Ok(Said { responses, after_model: &[] });
                }
            }
        }
        context.count_llm_call()?;
        tracing::debug!(agent = self.name, model = request.model, contents = request.contents.len(), "model call");
        let name = model.name().to_owned();
        let blame = move |error: Error| error.context(format!("the model '{name}'"));
        let responses = Box::pin(model.generate(request).map(move |response| response.map_err(&blame)));
        Ok(Said { responses, after_model: &self.callbacks.after_model })
    }

    /// The event of a model's response, with what callbacks and `output_key` add.
    async fn event(
        &self,
        mut response: LlmResponse,
        after_model: &[AfterModel],
        draft: &EventDraft,
        context: &InvocationContext,
    ) -> Result<Event> {
        for (place, callback) in after_model.iter().enumerate() {
            response = callback(CallbackContext::with_page(draft.slot(place), context), response).await?;
        }
        mark_empty(&mut response, context.run_config());
        let mut event = response.into_event();
        if event.is_partial() {
            return draft.finish(event);
        }
        for part in event.content.iter_mut().filter_map(|content| content.parts.as_mut()).flatten() {
            if let Some(call) = part.function_call.as_mut().filter(|call| call.id.as_deref().is_none_or(str::is_empty))
            {
                call.id = Some(format!("{CLIENT_ID_PREFIX}{}", context.environment().new_id()));
            }
        }
        let ids: BTreeSet<_> = event
            .function_calls()
            .filter(|call| self.is_long_running(call.name.as_deref().unwrap_or_default()))
            .filter_map(|call| call.id.clone())
            .collect();
        if event.function_calls().next().is_some() {
            event.long_running_tool_ids = Some(ids);
        }
        self.save_output(&event, draft, context)?;
        draft.finish(event)
    }

    /// The final event of an answer that a tool has taken: it looks as if the model had said it.
    fn structured_answer(&self, answer: &Value, draft: &EventDraft, context: &InvocationContext) -> Result<Event> {
        let event = Event { content: Some(Content::model(answer.to_string())), ..Event::default() };
        self.save_output(&event, draft, context)?;
        draft.finish(event)
    }

    fn is_long_running(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.is_long_running() && tool.declaration().name == name)
    }

    /// Puts the agent's final text, or what it parses to, under the output key. What is said beside a call, or
    /// cut short by an error, is no answer.
    fn save_output(&self, event: &Event, draft: &EventDraft, context: &InvocationContext) -> Result<()> {
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
            Some(output) => {
                let value = json::from_str(without_code_fence(&text)).map_err(|e| e.context("the model's answer"))?;
                (output.check)(&value)?;
                value
            }
        };
        match &self.output_key {
            Some(key) => CallbackContext::new(draft, context).state().set(key, value),
            None => Ok(()),
        }
    }
}

/// What a model says, or a callback in its place.
struct Said<'a> {
    responses: LlmStream,
    /// The callbacks that see it: none sees the answer of another callback.
    after_model: &'a [AfterModel],
}

impl Said<'_> {
    fn failed(error: Error) -> Self {
        Self { responses: Box::pin(stream::iter([Err(error)])), after_model: &[] }
    }
}

/// One model call: pieces as they come, then the whole.
fn model_step(
    agent: &Arc<Inner>,
    model: &Arc<dyn Llm>,
    tools: &[Arc<dyn Tool>],
    context: &InvocationContext,
) -> EventStream {
    let (agent, model, tools, context) = (Arc::clone(agent), Arc::clone(model), tools.to_vec(), context.clone());
    Box::pin(async_stream::try_stream! {
        // An instruction that lacks a key fails here, before any model is asked.
        let request = request::request(&agent, model.as_ref(), &tools, &context).await?;
        let mut draft = context.draft();
        let said = agent.ask(model.as_ref(), request, &draft, &context).await;
        let Said { mut responses, after_model } = said.unwrap_or_else(Said::failed);
        let mut answered = false;
        while let Some(response) = responses.next().await {
            let event = match response {
                Ok(response) => agent.event(response, after_model, &draft, &context).await,
                Err(error) => Err(error),
            };
            match event {
                Ok(event) if event.is_partial() => yield event,
                Ok(event) => {
                    answered = true;
                    yield event;
                    draft = context.draft();
                }
                Err(error) => {
                    // What callbacks wrote before the failure travels with the event that tells of it.
                    yield draft.finish(failure_event(&context, &error))?;
                    Err(error.reported())?;
                }
            }
        }
        if !answered {
            Err(Error::internal(format!("the model '{}' ended its stream without a whole answer", model.name())))?;
        }
    })
}
