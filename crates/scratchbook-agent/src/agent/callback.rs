//! Callbacks around agents, model calls and tool calls.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::context::InvocationContext;
use super::failure_event;
use super::invocation_state::Visibility;
use super::pending_event::PendingEvent;
use super::write_context::{CallbackContext, ToolContext};
use crate::model::{LlmRequest, LlmResponse};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

/// A function that starts a callback.
type Callback<Args, T> = Arc<dyn Fn(Args) -> BoxFuture<'static, T> + Send + Sync>;

type AgentCallback = Callback<(CallbackContext,), Result<Option<Content>>>;
type AgentErrorCallback = Callback<(InvocationContext, Arc<Error>), ()>;
type BeforeModel = Callback<(CallbackContext, LlmRequest), Result<ControlFlow<LlmResponse, LlmRequest>>>;
type AfterModel = Callback<(CallbackContext, LlmResponse), Result<ControlFlow<LlmResponse, LlmResponse>>>;
pub(super) type OnModelError = Callback<(CallbackContext, LlmRequest, Arc<Error>), Result<Option<LlmResponse>>>;
type BeforeTool = Callback<(ToolContext, ToolCall), Result<ControlFlow<Value, ToolCall>>>;
type AfterTool = Callback<(ToolContext, ToolCall, Value), Result<ControlFlow<Value, Value>>>;
type OnToolError = Callback<(ToolContext, ToolCall, Arc<Error>), Result<Option<Value>>>;

/// A tool call, as its callbacks receive it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments of the call.
    pub args: Map<String, Value>,
}

/// Callbacks before and after an agent's whole turn, in the order in which they were added. The first one that returns
/// content ends the sequence.
#[derive(Clone, Default)]
pub(crate) struct AgentCallbacks {
    pub(crate) before: Vec<AgentCallback>,
    pub(crate) after: Vec<AgentCallback>,
    /// Called if the turn fails. Only plugins have such callbacks.
    pub(crate) on_error: Vec<AgentErrorCallback>,
}

/// Generates the builder methods that add callbacks before and after an agent's turn; they store the callbacks in a
/// field of the builder.
macro_rules! agent_callback_methods {
    ($($field:ident).+) => {
        /// Adds a callback that runs before the agent's turn. If the callback returns content, this is the agent's
        /// whole answer.
        #[must_use]
        pub fn before_agent<F, Fut>(mut self, callback: F) -> Self
        where
            F: Fn(CallbackContext) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<Option<Content>>> + Send + 'static,
        {
            self.$($field).+.before(callback);
            self
        }

        /// Adds a callback that runs after the agent's turn. If the callback returns content, the content becomes
        /// another event.
        #[must_use]
        pub fn after_agent<F, Fut>(mut self, callback: F) -> Self
        where
            F: Fn(CallbackContext) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<Option<Content>>> + Send + 'static,
        {
            self.$($field).+.after(callback);
            self
        }
    };
}

pub(super) use agent_callback_methods;

impl AgentCallbacks {
    pub(crate) fn before<F, Fut>(&mut self, callback: F)
    where
        F: Fn(CallbackContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Content>>> + Send + 'static,
    {
        self.before.push(Arc::new(move |(context,)| Box::pin(callback(context))));
    }

    pub(crate) fn after<F, Fut>(&mut self, callback: F)
    where
        F: Fn(CallbackContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Content>>> + Send + 'static,
    {
        self.after.push(Arc::new(move |(context,)| Box::pin(callback(context))));
    }

    /// Returns these callbacks followed by others.
    pub(crate) fn and(mut self, others: &Self) -> Self {
        self.before.extend_from_slice(&others.before);
        self.after.extend_from_slice(&others.after);
        self.on_error.extend_from_slice(&others.on_error);
        self
    }

    /// Returns only the callbacks after the turn.
    pub(super) fn after_only(self) -> Self {
        Self { before: Vec::new(), ..self }
    }

    /// Reports the error with which the turn ends.
    pub(super) async fn report(&self, error: Error, context: &InvocationContext) -> Error {
        if self.on_error.is_empty() {
            return error;
        }
        let error = Arc::new(error);
        for callback in &self.on_error {
            callback((context.clone(), Arc::clone(&error))).await;
        }
        unshared(error)
    }

    pub(super) async fn run_before(&self, context: &InvocationContext) -> CallbackOutcome {
        run(&self.before, context).await
    }

    pub(super) async fn run_after(&self, context: &InvocationContext) -> CallbackOutcome {
        run(&self.after, context).await
    }
}

/// The outcome of running callbacks.
#[derive(Debug, Default)]
pub(super) struct CallbackOutcome {
    /// The event that carries the callbacks' changes and content.
    pub(super) event: Option<Event>,
    /// Whether the event is the agent's answer.
    pub(super) answered: bool,
    /// The error of a callback. The event reports the error and carries the changes of the callbacks before the failed
    /// one.
    pub(super) failure: Option<Error>,
    /// Keeps the pending event alive until `event` is taken: dropping the pending event discards its uncommitted
    /// changes.
    _pending: Option<PendingEvent>,
}

impl CallbackOutcome {
    /// Returns whether a callback has given the agent's answer. Call this after the event has been taken.
    ///
    /// # Errors
    ///
    /// The error of a callback.
    pub(super) fn finish(self) -> Result<bool> {
        self.failure.map_or(Ok(self.answered), Err)
    }
}

/// Runs callbacks until one returns content or fails.
async fn run(callbacks: &[AgentCallback], context: &InvocationContext) -> CallbackOutcome {
    if callbacks.is_empty() {
        return CallbackOutcome::default();
    }
    let pending = context.pending_event();
    let mut outcome = CallbackOutcome::default();
    for callback in callbacks {
        let layer = pending.layer(Visibility::Everyone);
        match callback((CallbackContext::with_layer(Arc::clone(&layer), context),)).await {
            Ok(None) => {}
            Ok(content) => {
                outcome.answered = true;
                outcome.event = Some(Event { content, ..Event::default() });
                break;
            }
            Err(error) => {
                pending.drop_layer(&layer);
                outcome.event = Some(failure_event(context, &error));
                outcome.failure = Some(error.reported());
                break;
            }
        }
    }
    let finished = match outcome.event.take() {
        Some(event) => pending.finish(event).map(Some),
        None => pending.finish_changes(),
    };
    match finished {
        Ok(event) => CallbackOutcome { event, _pending: Some(pending), ..outcome },
        Err(error) => CallbackOutcome { failure: Some(error), ..CallbackOutcome::default() },
    }
}

/// Callbacks around model calls and tool calls, in the order in which they were added. Callbacks of plugins and of
/// agents have the same form, so that a call has one sequence of callbacks: the plugins', then the agent's own.
#[derive(Clone, Default)]
pub(crate) struct ModelCallbacks {
    pub(crate) before_model: Vec<BeforeModel>,
    pub(crate) after_model: Vec<AfterModel>,
    pub(crate) on_model_error: Vec<OnModelError>,
    pub(crate) before_tool: Vec<BeforeTool>,
    pub(crate) after_tool: Vec<AfterTool>,
    pub(crate) on_tool_error: Vec<OnToolError>,
}

/// Returns an error that was shared with callbacks, or a copy of the error if a callback has kept it.
pub(super) fn unshared(error: Arc<Error>) -> Error {
    Arc::try_unwrap(error).unwrap_or_else(|kept| kept.again())
}

impl fmt::Debug for AgentCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentCallbacks").field("before", &self.before.len()).field("after", &self.after.len()).finish()
    }
}

impl fmt::Debug for ModelCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelCallbacks")
            .field("before_model", &self.before_model.len())
            .field("after_model", &self.after_model.len())
            .field("on_model_error", &self.on_model_error.len())
            .field("before_tool", &self.before_tool.len())
            .field("after_tool", &self.after_tool.len())
            .field("on_tool_error", &self.on_tool_error.len())
            .finish()
    }
}
