//! The recommended way to update state inside a run: callbacks and tools write to the state of their context.

use futures_util::TryStreamExt;
use schemars::JsonSchema;
use scratchbook::agent::{CallbackContext, FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{CreateSessionConfig, LlmAgent, Runner, SessionServiceExt};
use serde::Deserialize;
use serde_json::json;

/// What callback and tool both do; a tool's context is a callback's as well.
fn count_action(context: &CallbackContext) -> scratchbook::Result<()> {
    let count = context.state().get_as::<u64>("user_action_count")?.unwrap_or(0);
    context.state().set("user_action_count", count + 1)?;
    context.state().set("temp:last_operation_status", "success")
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let tool = FunctionTool::new("act", "Does what the user wants.", |_: Nothing, context: ToolContext| async move {
        // The callback's write is there, though nothing of it will be stored.
        assert_eq!(context.state().get("temp:last_operation_status"), Some(json!("success")));
        count_action(&context)?;
        Ok("done")
    });
    let agent = LlmAgent::builder("assistant")
        .model(ScriptedLlm::new([LlmResponse::call("act", json!({})), "Done.".into()]))
        .tool(tool)
        .before_agent(|context| async move {
            count_action(&context)?;
            // Content would be the whole answer; `None` lets the agent go on.
            Ok(None)
        })
        .build()?;
    let runner = Runner::builder("callback_app", agent, sessions.clone()).build()?;

    let mut session = sessions.create_session("callback_app", "user1", CreateSessionConfig::default()).await?;
    let mut events = runner.run("user1", session.id(), "Do it");
    while let Some(event) = events.try_next().await? {
        println!("{} {}", event.author, json!(event.actions.state_delta));
    }

    sessions.refresh(&mut session).await?;
    assert_eq!(session.state().get("user_action_count"), Some(&json!(2)));
    assert_eq!(session.state().get("temp:last_operation_status"), None);
    sessions.close().await
}
