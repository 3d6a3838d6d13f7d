//! A turn of an [`LlmAgent`](super::LlmAgent), step by step: a model call, then the calls it asks for.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::board::Seen;
use super::confirmation;
use super::context::InvocationContext;
use super::draft::EventDraft;
use super::llm_agent::Inner;
use super::look_ahead::look_ahead;
use super::tool_step::{Calls, tool_step};
use super::write_context::CallbackContext;
use super::{EventStream, failure_event, history};
use crate::content::Part;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::json;
use crate::model::{GenerateContentConfig, LlmRequest, LlmResponse, LlmStream};
use crate::tool::{Tool, TransferTool};

/// A turn: steps until an event is the final one, or another agent takes over. It begins with the calls that are to be run
/// before the model is asked: what the user has agreed to, and what was not run when the run was cut off.
pub(super) fn turn(agent: Arc<Inner>, context: InvocationContext) -> EventStream {
    Box::pin(async_stream::try_stream! {
        let tools = agent.all_tools(&context);
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
                // What the model says. A stream may hold several whole answers; each one's calls are answered.
                is_final = true;
                let mut said = look_ahead(model_step(Arc::clone(&agent), &tools, context.clone()));
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
            for calls in calls.drain(..).filter(|calls| !calls.is_empty()) {
                let answers = tool_step(&agent, &tools, &context, &calls).await?;
                is_final = answers.is_final;
                for (draft, event) in answers.events {
                    hands_over |= event.actions.transfer_to_agent.is_some();
                    yield event;
                    drop(draft);
                }
            }
            if is_final || hands_over {
                break;
            }
        }
    })
}

impl Inner {
    /// The agent's tools, and the one that hands over where there is whom to hand over to.
    fn all_tools(&self, context: &InvocationContext) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.tools.clone();
        let targets: Vec<_> = context.tree().transfer_targets(&self.name).iter().map(|a| a.name().to_owned()).collect();
        if !targets.is_empty() {
            tools.push(Arc::new(TransferTool::new(targets)));
        }
        tools
    }

    async fn request(&self, tools: &[Arc<dyn Tool>], context: &InvocationContext) -> Result<LlmRequest> {
        let mut instruction = match &self.instruction {
            Some(instruction) => Some(instruction.render(context.readonly()).await?),
            None => None,
        };
        let targets = context.tree().transfer_targets(&self.name);
        if !targets.is_empty() {
            let known: Vec<_> =
                targets.iter().map(|agent| format!("- {}: {}", agent.name(), agent.description())).collect();
            let name = TransferTool::NAME;
            let hint = format!(
                "If another agent is better suited to answer, call `{name}` with its name. The agents are:\n{}",
                known.join("\n")
            );
            instruction = Some(instruction.map_or(hint.clone(), |own| format!("{own}\n\n{hint}")));
        }
        Ok(LlmRequest {
            model: self.model.name().to_owned(),
            system_instruction: instruction,
            contents: history::contents(context),
            tools: tools.iter().map(|tool| tool.declaration().clone()).collect(),
            output_schema: self.output_schema.as_ref().map(|output| output.schema.clone()),
            config: GenerateContentConfig::default(),
            stream: context.run_config().streaming,
        })
    }

    /// Asks the model, or the callback that answers in its place.
    async fn ask(&self, mut request: LlmRequest, draft: &EventDraft, context: &InvocationContext) -> Result<LlmStream> {
        for callback in &self.callbacks.before_model {
            let page = draft.page(Seen::ByAll);
            let called = callback(CallbackContext::with_page(Arc::clone(&page), context), request);
            match called.await.inspect_err(|_| draft.tear_out(&page))? {
                ControlFlow::Continue(next) => request = next,
                ControlFlow::Break(response) => return Ok(Box::pin(stream::iter([Ok(response)]))),
            }
        }
        context.count_llm_call()?;
        tracing::debug!(agent = self.name, model = request.model, contents = request.contents.len(), "model call");
        let model = self.model.name().to_owned();
        let blame = move |error: Error| error.context(format!("the model '{model}'"));
        Ok(Box::pin(self.model.generate(request).map(move |response| response.map_err(&blame))))
    }

    /// The event of a model's response, with what callbacks and `output_key` add.
    async fn event(&self, mut response: LlmResponse, draft: &EventDraft, context: &InvocationContext) -> Result<Event> {
        for (place, callback) in self.callbacks.after_model.iter().enumerate() {
            response = callback(CallbackContext::with_page(draft.slot(place), context), response).await?;
        }
        let mut event = response.into_event();
        if event.is_partial() {
            return draft.finish(event);
        }
        for part in event.content.iter_mut().filter_map(|content| content.parts.as_mut()).flatten() {
            if let Some(call) = part.function_call.as_mut().filter(|call| call.id.as_deref().is_none_or(str::is_empty))
            {
                call.id = Some(format!("adk-{}", context.environment().new_id()));
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
                let value = json::from_str(&text).map_err(|e| e.context("the model's answer"))?;
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

/// One model call: pieces as they come, then the whole.
fn model_step(agent: Arc<Inner>, tools: &[Arc<dyn Tool>], context: InvocationContext) -> EventStream {
    let tools = tools.to_vec();
    Box::pin(async_stream::try_stream! {
        // An instruction that lacks a key fails here, before any model is asked.
        let request = agent.request(&tools, &context).await?;
        let mut draft = context.draft();
        let mut responses = match agent.ask(request, &draft, &context).await {
            Ok(responses) => responses,
            Err(error) => Box::pin(stream::iter([Err(error)])),
        };
        let mut answered = false;
        while let Some(response) = responses.next().await {
            let event = match response {
                Ok(response) => agent.event(response, &draft, &context).await,
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
                    Err(error.told())?;
                }
            }
        }
        if !answered {
            Err(Error::internal(format!("the model '{}' ended its stream without a whole answer", agent.model.name())))?;
        }
    })
}
