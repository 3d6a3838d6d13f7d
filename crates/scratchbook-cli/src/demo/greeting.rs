//! The easy way: `output_key` saves an agent's final answer in the state.

use scratchbook::{LlmAgent, ScriptedLlm};
use serde_json::json;

use super::stage::Stage;
use crate::failure::Failure;

const GREETING: &str = "Hello there! How can I help you today?";

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let agent = LlmAgent::builder("Greeter")
        .model(ScriptedLlm::new([GREETING]))
        .instruction("Generate a short, friendly greeting.")
        .output_key("last_greeting")
        .build()?;
    let runner = stage.runner("state_app", agent)?;
    stage.before("state_app", "user1").await?;
    let mut scene = stage.begin("state_app", "user1", json!({})).await?;
    let before = stage.stored(&scene).await?;
    stage.check_none("no greeting yet", before.state().get("last_greeting"))?;

    let events = stage.say(&mut scene, &runner, "Hello", json!({})).await?;
    let is_final = events.last().is_some_and(|event| event.is_final_response());
    stage.check("the agent has answered", Some(&json!(is_final)), true)?;
    let after = stage.stored(&scene).await?;
    stage.check("last_greeting", after.state().get("last_greeting"), GREETING)
}
