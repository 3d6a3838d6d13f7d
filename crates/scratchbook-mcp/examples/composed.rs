//! An agent with the tools of an MCP server and another agent as a tool, and a plugin that counts the calls of both.

use std::ops::ControlFlow;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use scratchbook::agent::ToolCall;
use scratchbook::mcp::{McpToolset, StdioConnectionParams};
use scratchbook::prelude::*;
use serde_json::{Value, json};

/// Counts the calls of every tool, by name, for all of a user's sessions.
#[derive(Debug)]
struct CountCalls;

#[async_trait]
impl Plugin for CountCalls {
    fn name(&self) -> &str {
        "count_calls"
    }

    async fn after_tool(
        &self,
        context: ToolContext,
        call: &ToolCall,
        answer: Value,
    ) -> Result<ControlFlow<Value, Value>> {
        context.state().increment(format!("user:calls_of_{}", call.name), 1)?;
        Ok(ControlFlow::Continue(answer))
    }
}

/// Runs the agent once and returns the user's state.
pub(crate) async fn run(server: StdioConnectionParams, database: &str) -> Result<Value> {
    let tools = McpToolset::builder(server).tool_filter(["get-sum"]).tool_name_prefix("math").build()?;
    let add = LlmResponse::call("math_get-sum", json!({"a": 2, "b": 3}));
    let adder = LlmAgent::builder("adder")
        .description("Adds two numbers.")
        .model(ScriptedLlm::new([add, "2 + 3 = 5".into()])) // or RemoteLlm::new("gemini-2.5-flash")
        .toolset(tools.clone())
        .output_key("user:last_sum")
        .build()?;
    let ask = LlmResponse::call("adder", json!({"request": "What is 2 + 3?"}));
    let teacher = LlmAgent::builder("teacher")
        .model(ScriptedLlm::new([ask, "It is five.".into()]))
        .tool(AgentTool::new(adder)?)
        .build()?;
    let store = connect(database).await?;
    let runner = Runner::builder("school", teacher, store.sessions).plugin(CountCalls).auto_create_session().build()?;
    runner.run("alice", "session1", "2 + 3?").try_collect::<Vec<_>>().await?;
    tools.close().await;
    Ok(json!(runner.session_service().get_user_state("school", "alice").await?))
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = StdioConnectionParams::new("npx", ["-y", "@modelcontextprotocol/server-everything"]);
    println!("{}", run(server, "sqlite://school.db").await?);
    Ok(())
}
