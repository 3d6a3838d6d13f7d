//! Plugins: callbacks for all agents of a [`Runner`](crate::runner::Runner).

mod chain;
mod logging;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::agent::{CallbackContext, InvocationContext, ToolCall, ToolContext};
use crate::model::{LlmRequest, LlmResponse};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

pub use logging::LoggingPlugin;

pub(crate) use chain::Plugins;

/// Callbacks around the runs of an app, and around each agent, model call and tool call in them.
///
/// A runner calls its plugins in the order in which they were added, before the agents' own callbacks. A method can let
/// the run continue or give an answer. If it returns an `Option`, `None` means continue, and `Some` is an answer. If it
/// returns a [`ControlFlow`], `Continue` has the value to continue with, changed or not, and `Break` has an answer. An
/// answer skips the plugins that follow, and the agent's own callbacks of the same kind. By default every method
/// continues.
///
/// Callbacks around agents, models and tools write to the state through their context, and what they write is committed
/// with the step, as for an agent's own callbacks. The callbacks around a whole run can only read the state.
///
/// An error of a plugin names the plugin. The error ends the run, except in a callback around a tool call: then the
/// tool has failed.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use async_trait::async_trait;
/// use futures_util::TryStreamExt;
/// use scratchbook::agent::Plugin;
/// use scratchbook::model::LlmRequest;
/// use scratchbook::prelude::*;
/// use serde_json::json;
///
/// #[derive(Debug)]
/// struct CountModelCalls;
///
/// #[async_trait]
/// impl Plugin for CountModelCalls {
///     fn name(&self) -> &str {
///         "count_model_calls"
///     }
///
///     async fn before_model(
///         &self,
///         context: CallbackContext,
///         request: LlmRequest,
///     ) -> Result<ControlFlow<LlmResponse, LlmRequest>> {
///         context.state().increment("user:model_calls", 1)?;
///         Ok(ControlFlow::Continue(request))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let agent = LlmAgent::builder("assistant").model(ScriptedLlm::new(["Hello."])).build()?;
/// let runner = Runner::builder("app", agent, InMemorySessionService::new())
///     .plugin(CountModelCalls)
///     .auto_create_session()
///     .build()?;
/// let events: Vec<_> = runner.run("alice", "s1", "Hi").try_collect().await?;
/// assert_eq!(json!(events[0].actions.state_delta), json!({"user:model_calls": 1}));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Plugin: fmt::Debug + Send + Sync + 'static {
    /// Returns the plugin's name, unique within its runner.
    fn name(&self) -> &str;

    /// Receives the user's message before it is stored, and returns the message to store.
    ///
    /// # Errors
    ///
    /// Any error; the run ends before anything is stored.
    async fn on_user_message(
        &self,
        _context: InvocationContext,
        message: Content,
    ) -> Result<ControlFlow<Content, Content>> {
        Ok(ControlFlow::Continue(message))
    }

    /// Is called after the user's message is stored and before the first agent. Returned content becomes the only event
    /// of the run, with the author `model`.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn before_run(&self, _context: InvocationContext) -> Result<Option<Content>> {
        Ok(None)
    }

    /// Receives each event of the run before it is stored and shown to the caller, also the partial ones, and returns
    /// the event to store. The user's message is not among them. The event keeps its id, its run and its time.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn on_event(&self, _context: InvocationContext, event: Event) -> Result<ControlFlow<Event, Event>> {
        Ok(ControlFlow::Continue(event))
    }

    /// Is called after the last event of a run that has not failed. If the caller drops the stream of the run before
    /// its end, this is not called.
    ///
    /// # Errors
    ///
    /// Any error; the run then ends with it.
    async fn after_run(&self, _context: InvocationContext) -> Result<()> {
        Ok(())
    }

    /// Is called before an agent's turn. Returned content is the agent's whole answer.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn before_agent(&self, _context: CallbackContext) -> Result<Option<Content>> {
        Ok(None)
    }

    /// Is called after an agent's turn. Returned content becomes another event.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn after_agent(&self, _context: CallbackContext) -> Result<Option<Content>> {
        Ok(None)
    }

    /// Receives the request of each model call. An answer replaces the model's.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn before_model(
        &self,
        _context: CallbackContext,
        request: LlmRequest,
    ) -> Result<ControlFlow<LlmResponse, LlmRequest>> {
        Ok(ControlFlow::Continue(request))
    }

    /// Receives each response of a model, also the partial ones.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run.
    async fn after_model(
        &self,
        _context: CallbackContext,
        response: LlmResponse,
    ) -> Result<ControlFlow<LlmResponse, LlmResponse>> {
        Ok(ControlFlow::Continue(response))
    }

    /// Receives the error of a failed model call. A returned response replaces the model's.
    ///
    /// # Errors
    ///
    /// Any error; it ends the run in place of the model's error.
    async fn on_model_error(
        &self,
        _context: CallbackContext,
        _request: &LlmRequest,
        _error: &Error,
    ) -> Result<Option<LlmResponse>> {
        Ok(None)
    }

    /// Receives each tool call, also a call of a tool that does not exist. An answer replaces the tool's.
    ///
    /// # Errors
    ///
    /// Any error; the tool has then failed.
    async fn before_tool(&self, _context: ToolContext, call: ToolCall) -> Result<ControlFlow<Value, ToolCall>> {
        Ok(ControlFlow::Continue(call))
    }

    /// Receives the answer of each tool call.
    ///
    /// # Errors
    ///
    /// Any error; the tool has then failed.
    async fn after_tool(
        &self,
        _context: ToolContext,
        _call: &ToolCall,
        answer: Value,
    ) -> Result<ControlFlow<Value, Value>> {
        Ok(ControlFlow::Continue(answer))
    }

    /// Receives the error of a failed tool call. A returned value replaces the tool's answer. The writes of the failed
    /// tool are dropped.
    ///
    /// # Errors
    ///
    /// Any error; the model receives it in place of the tool's error.
    async fn on_tool_error(&self, _context: ToolContext, _call: &ToolCall, _error: &Error) -> Result<Option<Value>> {
        Ok(None)
    }

    /// Receives the error with which an agent's turn ends. The agents around it end with the same error.
    async fn on_agent_error(&self, _context: InvocationContext, _error: &Error) {}

    /// Receives the error with which a run ends.
    async fn on_run_error(&self, _context: InvocationContext, _error: &Error) {}
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<P: Plugin + ?Sized> Plugin for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn on_user_message(
        &self,
        context: InvocationContext,
        message: Content,
    ) -> Result<ControlFlow<Content, Content>> {
        (**self).on_user_message(context, message).await
    }

    async fn before_run(&self, context: InvocationContext) -> Result<Option<Content>> {
        (**self).before_run(context).await
    }

    async fn on_event(&self, context: InvocationContext, event: Event) -> Result<ControlFlow<Event, Event>> {
        (**self).on_event(context, event).await
    }

    async fn after_run(&self, context: InvocationContext) -> Result<()> {
        (**self).after_run(context).await
    }

    async fn before_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        (**self).before_agent(context).await
    }

    async fn after_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        (**self).after_agent(context).await
    }

    async fn before_model(
        &self,
        context: CallbackContext,
        request: LlmRequest,
    ) -> Result<ControlFlow<LlmResponse, LlmRequest>> {
        (**self).before_model(context, request).await
    }

    async fn after_model(
        &self,
        context: CallbackContext,
        response: LlmResponse,
    ) -> Result<ControlFlow<LlmResponse, LlmResponse>> {
        (**self).after_model(context, response).await
    }

    async fn on_model_error(
        &self,
        context: CallbackContext,
        request: &LlmRequest,
        error: &Error,
    ) -> Result<Option<LlmResponse>> {
        (**self).on_model_error(context, request, error).await
    }

    async fn before_tool(&self, context: ToolContext, call: ToolCall) -> Result<ControlFlow<Value, ToolCall>> {
        (**self).before_tool(context, call).await
    }

    async fn after_tool(
        &self,
        context: ToolContext,
        call: &ToolCall,
        answer: Value,
    ) -> Result<ControlFlow<Value, Value>> {
        (**self).after_tool(context, call, answer).await
    }

    async fn on_tool_error(&self, context: ToolContext, call: &ToolCall, error: &Error) -> Result<Option<Value>> {
        (**self).on_tool_error(context, call, error).await
    }

    async fn on_agent_error(&self, context: InvocationContext, error: &Error) {
        (**self).on_agent_error(context, error).await;
    }

    async fn on_run_error(&self, context: InvocationContext, error: &Error) {
        (**self).on_run_error(context, error).await;
    }
}
