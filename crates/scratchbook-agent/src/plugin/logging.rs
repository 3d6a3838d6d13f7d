//! A plugin that logs what happens in a run.

use std::ops::ControlFlow;

use async_trait::async_trait;
use serde_json::Value;
use tracing::info;

use super::Plugin;
use crate::agent::{CallbackContext, InvocationContext, ToolCall, ToolContext};
use crate::model::{LlmRequest, LlmResponse};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

/// Logs each step of each run through `tracing`, at the level `info`, with the target [`LoggingPlugin::TARGET`].
///
/// A line contains names, ids, numbers, and the names of the keys that an event changes. It never contains values of the
/// state, texts of users and models, arguments and answers of tools, or messages of errors, since all of these may
/// contain secrets.
///
/// ```
/// use scratchbook::agent::LoggingPlugin;
/// use scratchbook::prelude::*;
///
/// # fn example(agent: LlmAgent, sessions: InMemorySessionService) -> Result<Runner> {
/// Runner::builder("app", agent, sessions).plugin(LoggingPlugin).build()
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LoggingPlugin;

impl LoggingPlugin {
    /// The target of the lines.
    pub const TARGET: &str = "scratchbook_agent::plugin";
}

/// Logs a line about a run.
macro_rules! log {
    ($context:ident, $message:literal $(, $($field:tt)*)?) => {
        info!(target: LoggingPlugin::TARGET, invocation_id = $context.invocation_id(), agent = $context.agent_name(),
            $($($field)*,)? $message)
    };
}

#[async_trait]
impl Plugin for LoggingPlugin {
    fn name(&self) -> &str {
        "logging_plugin"
    }

    async fn on_user_message(
        &self,
        context: InvocationContext,
        message: Content,
    ) -> Result<ControlFlow<Content, Content>> {
        let parts = message.parts().len();
        log!(context, "user message", session = context.session_key().session_id(), parts);
        Ok(ControlFlow::Continue(message))
    }

    async fn before_run(&self, context: InvocationContext) -> Result<Option<Content>> {
        log!(context, "run begins");
        Ok(None)
    }

    async fn on_event(&self, context: InvocationContext, event: Event) -> Result<ControlFlow<Event, Event>> {
        let keys: Vec<_> = event.actions.state_delta.iter().map(|(key, _)| key).collect();
        let (author, is_final, is_partial) = (&event.author, event.is_final_response(), event.is_partial());
        log!(context, "event", event_id = event.id, author, is_final, is_partial, state_keys = ?keys);
        Ok(ControlFlow::Continue(event))
    }

    async fn after_run(&self, context: InvocationContext) -> Result<()> {
        log!(context, "run ends");
        Ok(())
    }

    async fn before_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        log!(context, "agent begins");
        Ok(None)
    }

    async fn after_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        log!(context, "agent ends");
        Ok(None)
    }

    async fn before_model(
        &self,
        context: CallbackContext,
        request: LlmRequest,
    ) -> Result<ControlFlow<LlmResponse, LlmRequest>> {
        let (contents, tools) = (request.contents.len(), request.tools.len());
        log!(context, "model request", model = request.model, contents, tools);
        Ok(ControlFlow::Continue(request))
    }

    async fn after_model(
        &self,
        context: CallbackContext,
        response: LlmResponse,
    ) -> Result<ControlFlow<LlmResponse, LlmResponse>> {
        let tokens = |name: &str| response.usage_metadata.as_ref()?.get(name)?.as_u64();
        let (input_tokens, output_tokens) = (tokens("promptTokenCount"), tokens("candidatesTokenCount"));
        let (finish_reason, error_code) = (response.finish_reason.as_deref(), response.error_code.as_deref());
        log!(context, "model response", finish_reason, error_code, input_tokens, output_tokens);
        Ok(ControlFlow::Continue(response))
    }

    async fn on_model_error(
        &self,
        context: CallbackContext,
        request: &LlmRequest,
        error: &Error,
    ) -> Result<Option<LlmResponse>> {
        log!(context, "model failed", model = request.model, error = error.kind().as_str());
        Ok(None)
    }

    async fn before_tool(&self, context: ToolContext, call: ToolCall) -> Result<ControlFlow<Value, ToolCall>> {
        log!(context, "tool begins", tool = call.name, call_id = context.function_call_id());
        Ok(ControlFlow::Continue(call))
    }

    async fn after_tool(
        &self,
        context: ToolContext,
        call: &ToolCall,
        answer: Value,
    ) -> Result<ControlFlow<Value, Value>> {
        log!(context, "tool ends", tool = call.name, call_id = context.function_call_id());
        Ok(ControlFlow::Continue(answer))
    }

    async fn on_tool_error(&self, context: ToolContext, call: &ToolCall, error: &Error) -> Result<Option<Value>> {
        let call_id = context.function_call_id();
        log!(context, "tool failed", tool = call.name, call_id, error = error.kind().as_str());
        Ok(None)
    }

    async fn on_agent_error(&self, context: InvocationContext, error: &Error) {
        log!(context, "agent failed", error = error.kind().as_str());
    }

    async fn on_run_error(&self, context: InvocationContext, error: &Error) {
        log!(context, "run failed", error = error.kind().as_str());
    }
}
