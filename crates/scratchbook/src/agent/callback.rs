//! Callbacks around agents, model calls and tool calls.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::context::InvocationContext;
use super::write_context::{CallbackContext, ToolContext};
use super::{EventStream, failure_event};
use crate::content::Content;
use crate::error::Result;
use crate::event::Event;
use crate::model::{LlmRequest, LlmResponse};

type AgentCallback = Arc<dyn Fn(CallbackContext) -> BoxFuture<'static, Result<Option<Content>>> + Send + Sync>;
type BeforeModel = Arc<
    dyn Fn(CallbackContext, LlmRequest) -> BoxFuture<'static, Result<ControlFlow<LlmResponse, LlmRequest>>>
        + Send
        + Sync,
>;
type AfterModel = Arc<dyn Fn(CallbackContext, LlmResponse) -> BoxFuture<'static, Result<LlmResponse>> + Send + Sync>;
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

    /// An agent's turn with its callbacks around it. A failure is told by an event of the agent where it
    /// arose, before it ends the stream.
    pub(crate) fn around(&self, context: InvocationContext, turn: EventStream) -> EventStream {
        let turn = self.clone().guarded(context.clone(), turn);
        Box::pin(async_stream::try_stream! {
            let mut turn = turn;
            while let Some(item) = turn.next().await {
                match item {
                    Ok(event) => yield event,
                    Err(error) => {
                        if context.tell_failure() {
                            yield failure_event(&context, &error);
                        }
                        Err(error)?;
                    }
                }
            }
        })
    }

    fn guarded(self, context: InvocationContext, mut turn: EventStream) -> EventStream {
        Box::pin(async_stream::try_stream! {
            let (event, ends) = run(&self.before, &context).await?;
            if let Some(event) = event {
                yield event;
            }
            if !ends {
                while let Some(event) = turn.next().await {
                    yield event?;
                }
                let (event, _) = run(&self.after, &context).await?;
                if let Some(event) = event {
                    yield event;
                }
            }
        })
    }
}

/// Runs callbacks until one gives content. The event that carries what they did, and whether one did.
async fn run(callbacks: &[AgentCallback], context: &InvocationContext) -> Result<(Option<Event>, bool)> {
    if callbacks.is_empty() {
        return Ok((None, false));
    }
    let draft = context.draft();
    for callback in callbacks {
        if let Some(content) = callback(CallbackContext::new(&draft, context)).await? {
            let event = Event { content: Some(content), ..Event::default() };
            return Ok((Some(draft.finish(event)?), true));
        }
    }
    Ok((draft.finish_changes()?, false))
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
