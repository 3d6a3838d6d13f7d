//! A plugin that carries out its deeds.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use scratchbook::agent::{CallbackContext, InvocationContext, Plugin, ToolCall, ToolContext};
use scratchbook::model::{LlmRequest, LlmResponse};
use scratchbook::{Content, Error, Event, Result};
use serde_json::{Map, Value};

use super::play::{act, around_agent, callback_says};

/// Notes each call of a callback that has a deed, in a list that all plugins share.
#[derive(Debug)]
pub(super) struct Played {
    name: String,
    callbacks: Value,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Played {
    pub(super) fn new(spec: &Value, notes: &Arc<Mutex<Vec<String>>>) -> Self {
        let name = spec["name"].as_str().unwrap().to_owned();
        Self { name, callbacks: spec["callbacks"].clone(), notes: Arc::clone(notes) }
    }

    fn deed(&self, kind: &str, who: &str) -> Option<&Value> {
        let deed = self.callbacks[kind].get(0)?;
        self.notes.lock().unwrap().push(format!("{} {kind} {who}", self.name));
        Some(deed)
    }

    async fn act(&self, kind: &str, who: &str, context: &CallbackContext) -> Result<Option<Value>> {
        match self.deed(kind, who) {
            Some(deed) => act(deed, context).await,
            None => Ok(None),
        }
    }

    /// Returns the answer of a callback around a whole run, which applies to one message only.
    fn of_run(&self, kind: &str, context: &InvocationContext, said: Option<&str>) -> Option<String> {
        let deed = self.deed(kind, context.session_key().app_name())?;
        let is_meant = deed.get("if").is_none_or(|text| text.as_str() == said);
        deed["give"].as_str().filter(|_| is_meant).map(str::to_owned)
    }
}

fn text_of(content: &Content) -> Option<&str> {
    content.parts().first()?.text.as_deref()
}

#[async_trait]
impl Plugin for Played {
    fn name(&self) -> &str {
        &self.name
    }

    async fn on_user_message(
        &self,
        context: InvocationContext,
        message: Content,
    ) -> Result<ControlFlow<Content, Content>> {
        Ok(match self.of_run("on_user_message", &context, text_of(&message)) {
            Some(text) => ControlFlow::Break(Content::user(text)),
            None => ControlFlow::Continue(message),
        })
    }

    async fn before_run(&self, context: InvocationContext) -> Result<Option<Content>> {
        let said = context.user_content().and_then(text_of);
        Ok(self.of_run("before_run", &context, said).map(Content::model))
    }

    async fn on_event(&self, _: InvocationContext, mut event: Event) -> Result<ControlFlow<Event, Event>> {
        let Some(deed) = self.deed("on_event", &event.author) else {
            return Ok(ControlFlow::Continue(event));
        };
        for (key, value) in deed["set"].as_object().into_iter().flatten() {
            event.actions.state_delta.set(key, value)?;
        }
        Ok(match deed.get("mark") {
            Some(mark) => {
                event.custom_metadata = Some(Map::from_iter([("mark".to_owned(), mark.clone())]).into());
                ControlFlow::Break(event)
            }
            None => ControlFlow::Continue(event),
        })
    }

    async fn after_run(&self, context: InvocationContext) -> Result<()> {
        self.of_run("after_run", &context, None);
        Ok(())
    }

    async fn before_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        match self.deed("before_agent", context.agent_name()) {
            Some(deed) => around_agent(deed.clone(), context).await,
            None => Ok(None),
        }
    }

    async fn after_agent(&self, context: CallbackContext) -> Result<Option<Content>> {
        match self.deed("after_agent", context.agent_name()) {
            Some(deed) => around_agent(deed.clone(), context).await,
            None => Ok(None),
        }
    }

    async fn before_model(
        &self,
        context: CallbackContext,
        request: LlmRequest,
    ) -> Result<ControlFlow<LlmResponse, LlmRequest>> {
        Ok(match self.act("before_model", context.agent_name(), &context).await? {
            Some(said) => ControlFlow::Break(callback_says(&said)),
            None => ControlFlow::Continue(request),
        })
    }

    async fn after_model(
        &self,
        context: CallbackContext,
        response: LlmResponse,
    ) -> Result<ControlFlow<LlmResponse, LlmResponse>> {
        Ok(match self.act("after_model", context.agent_name(), &context).await? {
            Some(said) => ControlFlow::Break(LlmResponse { content: callback_says(&said).content, ..response }),
            None => ControlFlow::Continue(response),
        })
    }

    async fn on_model_error(&self, context: CallbackContext, _: &LlmRequest, _: &Error) -> Result<Option<LlmResponse>> {
        let said = self.act("on_model_error", context.agent_name(), &context).await?;
        Ok(said.map(|said| callback_says(&said)))
    }

    async fn before_tool(&self, context: ToolContext, call: ToolCall) -> Result<ControlFlow<Value, ToolCall>> {
        Ok(match self.act("before_tool", &call.name, &context).await? {
            Some(answer) => ControlFlow::Break(answer),
            None => ControlFlow::Continue(call),
        })
    }

    async fn after_tool(
        &self,
        context: ToolContext,
        call: &ToolCall,
        answer: Value,
    ) -> Result<ControlFlow<Value, Value>> {
        Ok(match self.act("after_tool", &call.name, &context).await? {
            Some(answer) => ControlFlow::Break(answer),
            None => ControlFlow::Continue(answer),
        })
    }

    async fn on_tool_error(&self, context: ToolContext, call: &ToolCall, _: &Error) -> Result<Option<Value>> {
        self.act("on_tool_error", &call.name, &context).await
    }
}
