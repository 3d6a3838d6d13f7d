//! The easy way to update state: `output_key` saves an agent's final answer in the state.

use scratchbook::LlmAgent;
use scratchbook::model::ScriptedLlm;
use serde_json::json;

use super::scenario_run::ScenarioRun;
use crate::failure::Failure;

const GREETING: &str = "Hello there! How can I help you today?";

pub(super) async fn play(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    let agent = LlmAgent::builder("Greeter")
        .model(ScriptedLlm::new([GREETING]))
        .instruction("Generate a short, friendly greeting.")
        .output_key("last_greeting")
        .build()?;
    let runner = run.runner("state_app", agent)?;
    run.before("state_app", "user1").await?;
    let mut session = run.begin("state_app", "user1", json!({})).await?;
    let before = run.stored(&session).await?;
    run.check_none("no greeting yet", before.state().get("last_greeting"))?;

    let events = run.say(&mut session, &runner, "Hello", json!({})).await?;
    let is_final = events.last().is_some_and(|event| event.is_final_response());
    run.check("the agent has answered", Some(&json!(is_final)), true)?;
    let after = run.stored(&session).await?;
    run.check("last_greeting", after.state().get("last_greeting"), GREETING)
}
