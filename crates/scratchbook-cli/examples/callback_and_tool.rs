//! The recommended way to update state inside a run: callbacks and tools write to the state of their context.
//!
//! `scratchbook demo callback-and-tool` plays it too, and shows every event.

use std::sync::Arc;

use futures_util::TryStreamExt;
use schemars::JsonSchema;
use scratchbook::agent::{CallbackContext, FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{CreateSessionConfig, Event, LlmAgent, Result, Runner, SessionService, SessionServiceExt};
use serde::Deserialize;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let events = play(&sessions, &mut |what, found, expected| assert_eq!(found, expected, "{what}")).await?;
    for event in events {
        println!("{} {}", event.author, json!(event.actions.state_delta));
    }
    sessions.close().await
}

/// Counts an action, for the callback and for the tool: a tool's context is a callback's context as well.
fn count_action(context: &CallbackContext) -> Result<()> {
    context.state().increment("user_action_count", 1)?;
    context.state().set("temp:last_operation_status", "success")
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Vec<Event>> {
    let tool = FunctionTool::new("act", "Does what the user wants.", |_: Nothing, context: ToolContext| async move {
        // The callback's write is visible, although a `temp:` value is never stored.
        let before = context.state().get("temp:last_operation_status");
        count_action(&context)?;
        Ok(json!({"status_before": before}))
    });
    let turns = [
        LlmResponse::call("act", json!({})),
        "Done.".into(),
        LlmResponse::call("act", json!({})),
        "Done again.".into(),
    ];
    let agent = LlmAgent::builder("assistant")
        .model(ScriptedLlm::new(turns))
        .tool(tool)
        .before_agent(|context: CallbackContext| async move {
            count_action(&context)?;
            // Content would be the agent's whole answer. With `None`, the agent goes on.
            Ok(None)
        })
        .build()?;
    let runner = Runner::builder("callback_app", agent, Arc::clone(sessions)).build()?;

    let mut session = sessions.create_session("callback_app", "user1", CreateSessionConfig::default()).await?;
    let mut all = Vec::new();
    for (message, actions) in [("Do it", 2), ("Once more", 4)] {
        let events: Vec<_> = runner.run("user1", session.id(), message).try_collect().await?;
        let response = events.iter().flat_map(Event::function_responses).find_map(|answer| answer.response.as_ref());
        let status = response.and_then(|response| response.get("status_before"));
        check("the tool sees what the callback wrote", status, Some(&json!("success")));
        sessions.refresh(&mut session).await?;
        let count = session.state().get("user_action_count");
        check("user_action_count, one by the callback, one by the tool", count, Some(&json!(actions)));
        check("the temporary key is gone", session.state().get("temp:last_operation_status"), None);
        all.extend(events);
    }
    Ok(all)
}
