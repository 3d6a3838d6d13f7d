//! The recommended way to update state: callbacks and tools write to the state of their context.

use schemars::JsonSchema;
use scratchbook::agent::{CallbackContext, FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{LlmAgent, Result};
use serde::Deserialize;
use serde_json::json;

use super::scenario_run::ScenarioRun;
use crate::failure::Failure;

pub(super) async fn play(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    #[derive(Deserialize, JsonSchema)]
    struct ActArguments {}
    let tool =
        FunctionTool::new("act", "Does what the user wants.", |_: ActArguments, context: ToolContext| async move {
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
            Ok(None)
        })
        .build()?;
    let runner = run.runner("callback_app", agent)?;
    run.before("callback_app", "user1").await?;
    let mut session = run.begin("callback_app", "user1", json!({})).await?;

    for (n, message) in ["Do it", "Once more"].into_iter().enumerate() {
        let events = run.say(&mut session, &runner, message, json!({})).await?;
        let answer = events.iter().flat_map(|event| event.function_responses()).next();
        let status = answer.and_then(|answer| answer.response.as_ref()).and_then(|answer| answer.get("status_before"));
        run.check("the tool sees what the callback wrote", status, "success")?;
        let stored = run.stored(&session).await?;
        let actions = 2 * (n + 1);
        run.check(
            "user_action_count, one by the callback, one by the tool",
            stored.state().get("user_action_count"),
            actions,
        )?;
        let temporary = stored.state().get("temp:last_operation_status");
        run.check_none("the temporary key is gone", temporary)?;
    }
    Ok(())
}

/// Called by the callback and the tool. A tool's context dereferences to a callback's.
fn count_action(context: &CallbackContext) -> Result<()> {
    let count = context.state().get_as::<u64>("user_action_count")?.unwrap_or(0);
    context.state().set("user_action_count", count + 1)?;
    context.state().set("temp:last_operation_status", "success")
}
