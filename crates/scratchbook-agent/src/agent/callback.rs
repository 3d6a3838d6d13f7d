//! Callbacks around agents, model calls and tool calls.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::board::Seen;
use super::context::InvocationContext;
use super::draft::EventDraft;
use super::failure_event;
use super::write_context::{CallbackContext, ToolContext};
use crate::model::{LlmRequest, LlmResponse};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

type AgentCallback = Arc<dyn Fn(CallbackContext) -> BoxFuture<'static, Result<Option<Content>>> + Send + Sync>;
type BeforeModel = Arc<
    dyn Fn(CallbackContext, LlmRequest) -> BoxFuture<'static, Result<ControlFlow<LlmResponse, LlmRequest>>>
        + Send
        + Sync,
>;
pub(super) type AfterModel =
    Arc<dyn Fn(CallbackContext, LlmResponse) -> BoxFuture<'static, Result<LlmResponse>> + Send + Sync>;
type BeforeTool =
    Arc<dyn Fn(ToolContext, ToolCall) -> BoxFuture<'static, Result<ControlFlow<Value, ToolCall>>> + Send + Sync>;
type AfterTool = Arc<dyn Fn(ToolContext, ToolCall, Value) -> BoxFuture<'static, Result<Value>> + Send + Sync>;

/// A tool call as the callbacks around it see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub args: Map<String, Value>,
}

/// Callbacks around an agent's whole turn, in the order they were added; the first that gives content ends it.
#[derive(Clone, Default)]
pub(crate) struct AgentCallbacks {
    before: Vec<AgentCallback>,
    after: Vec<AgentCallback>,
}

/// The methods by which a builder takes callbacks around an agent's turn into one of its fields.
macro_rules! agent_callback_methods {
    ($($field:ident).+) => {
        /// Adds a callback that runs before the agent's turn; content from it is the whole answer.
        #[must_use]
        pub fn before_agent<F, Fut>(mut self, callback: F) -> Self
        where
            F: Fn(CallbackContext) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<Option<Content>>> + Send + 'static,
        {
            self.$($field).+.before(callback);
            self
        }

        /// Adds a callback that runs after the agent's turn; content from it is one more event.
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
        self.before.push(Arc::new(move |context| Box::pin(callback(context))));
    }

    pub(crate) fn after<F, Fut>(&mut self, callback: F)
    where
        F: Fn(CallbackContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Content>>> + Send + 'static,
    {
        self.after.push(Arc::new(move |context| Box::pin(callback(context))));
    }

    /// Those after the turn alone.
    pub(super) fn after_only(self) -> Self {
        Self { before: Vec::new(), ..self }
    }

    pub(super) async fn run_before(&self, context: &InvocationContext) -> Called {
        run(&self.before, context).await
    }

    pub(super) async fn run_after(&self, context: &InvocationContext) -> Called {
        run(&self.after, context).await
    }
}

/// What callbacks have done.
#[derive(Debug, Default)]
pub(super) struct Called {
    /// The event that carries it.
    pub(super) event: Option<Event>,
    /// Whether it is the agent's answer.
    pub(super) answered: bool,
    /// What one of them failed with; the event tells of it, and carries what those before it wrote.
    pub(super) failure: Option<Error>,
    /// Kept until the event is taken, for what it holds until then.
    _draft: Option<EventDraft>,
}

/// Runs callbacks until one gives content or fails.
async fn run(callbacks: &[AgentCallback], context: &InvocationContext) -> Called {
    if callbacks.is_empty() {
        return Called::default();
    }
    let draft = context.draft();
    let mut called = Called::default();
    for callback in callbacks {
        let page = draft.page(Seen::ByAll);
        match callback(CallbackContext::with_page(Arc::clone(&page), context)).await {
            Ok(None) => {}
            Ok(content) => {
                called.answered = true;
                called.event = Some(Event { content, ..Event::default() });
                break;
            }
            Err(error) => {
                draft.tear_out(&page);
                called.event = Some(failure_event(context, &error));
                called.failure = Some(error.reported());
                break;
            }
        }
    }
    let finished = match called.event.take() {
        Some(event) => draft.finish(event).map(Some),
        None => draft.finish_changes(),
    };
    match finished {
        Ok(event) => Called { event, _draft: Some(draft), ..called },
        Err(error) => Called { failure: Some(error), ..Called::default() },
    }
}

/// Callbacks around model calls and tool calls, in the order they were added.
#[derive(Clone, Default)]
pub(crate) struct ModelCallbacks {
    pub(crate) before_model: Vec<BeforeModel>,
    pub(crate) after_model: Vec<AfterModel>,
    pub(crate) before_tool: Vec<BeforeTool>,
    pub(crate) after_tool: Vec<AfterTool>,
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
            .field("before_tool", &self.before_tool.len())
            .field("after_tool", &self.after_tool.len())
            .finish()
    }
}
