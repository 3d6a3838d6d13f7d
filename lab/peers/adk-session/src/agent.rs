//! An agent whose model is scripted: it calls a tool that writes state, and then answers with text.

use std::sync::Arc;

use adk_agent::LlmAgentBuilder;
use adk_core::{Content, Llm, LlmRequest, LlmResponse, LlmResponseStream, Part, Tool, ToolContext};
use adk_runner::Runner;
use async_trait::async_trait;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::data::APP;
use crate::protocol::Result;
use crate::store::PooledService;

/// Returns a runner of the agent on a store.
pub(crate) fn runner(store: &PooledService) -> Result<Runner> {
    let agent =
        LlmAgentBuilder::new("agent").instruction("Book rooms.").model(Arc::new(ToolCaller)).tool(Arc::new(Book));
    let runner = Runner::builder().app_name(APP).agent(Arc::new(agent.build()?));
    Ok(runner.session_service(store.service.clone()).build()?)
}

/// Lets the agent answer a message, and returns the text of the answer.
pub(crate) async fn turn(runner: &Runner, user: &str, session: &str) -> Result<String> {
    let message = Content::new("user").with_text("A room by the lake, please.");
    let mut events = runner.run_str(user, session, message).await?;
    let mut text = String::new();
    while let Some(event) = events.next().await {
        let content = event?.llm_response.content;
        let last = content.and_then(|content| content.parts.last()?.text().map(str::to_owned));
        text = last.unwrap_or_default();
    }
    Ok(text)
}

/// Answers a result of the tool with text, and everything else with a call of the tool.
struct ToolCaller;

#[async_trait]
impl Llm for ToolCaller {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn generate_content(&self, request: LlmRequest, _stream: bool) -> adk_core::Result<LlmResponseStream> {
        let last = request.contents.last().and_then(|content| content.parts.last());
        let content = if matches!(last, Some(Part::FunctionResponse { .. })) {
            Content::new("model").with_text("It is done.")
        } else {
            let (name, args) = ("book".to_owned(), json!({"room": "lake"}));
            let call = Part::FunctionCall { name, args, id: Some("call".to_owned()), thought_signature: None };
            Content { role: "model".to_owned(), parts: vec![call] }
        };
        Ok(Box::pin(futures::stream::iter([Ok(LlmResponse::new(content))])))
    }
}

/// Books a room.
struct Book;

#[async_trait]
impl Tool for Book {
    fn name(&self) -> &str {
        "book"
    }

    fn description(&self) -> &str {
        "Books a room."
    }

    fn parameters_schema(&self) -> Option<Value> {
        Some(json!({"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}))
    }

    async fn execute(&self, context: Arc<dyn ToolContext>, args: Value) -> adk_core::Result<Value> {
        let mut actions = context.actions();
        actions.state_delta.insert("step".to_owned(), json!("booked lake"));
        actions.state_delta.insert("user:last".to_owned(), args["room"].clone());
        context.set_actions(actions);
        Ok(json!({"booked": args["room"]}))
    }
}
