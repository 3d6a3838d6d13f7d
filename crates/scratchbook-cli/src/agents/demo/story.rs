//! The app `story`: one agent writes an outline to the state, and the next one tells the story from it.

use std::sync::Arc;

use scratchbook::agent::SequentialAgent;
use scratchbook::model::{Llm, LlmRequest, LlmResponse};
use scratchbook::{LlmAgent, Result};

use super::model::DemoScript;

pub(super) fn agent(model_or: impl Fn(DemoScript) -> Arc<dyn Llm>) -> Result<SequentialAgent> {
    let outliner = LlmAgent::builder("outliner")
        .description("Outlines a story about what the user names.")
        .model(model_or(outline))
        .instruction("Write an outline in three lines.")
        .output_key("outline")
        .build()?;
    let teller = LlmAgent::builder("teller")
        .description("Tells the story of the outline.")
        .model(model_or(tell))
        .instruction("Tell the story of this outline.\n{outline}")
        .output_key("story")
        .build()?;
    let agent = SequentialAgent::new("storyteller", vec![Arc::new(outliner), Arc::new(teller)]);
    Ok(agent.with_description("Two agents in sequence that tell a story about what you name."))
}

fn outline(request: &LlmRequest) -> LlmResponse {
    let message = request.contents.iter().rev().find(|content| content.role.as_deref() == Some("user"));
    let message = message.map(|content| content.text()).unwrap_or_default();
    let hero = message.split_once("story about ").map_or(message.as_str(), |(_, hero)| hero);
    let hero = match hero.trim().trim_end_matches(['.', '!', '?']) {
        "" => "a lighthouse keeper",
        hero => hero,
    };
    format!("Hero: {hero}\nTrouble: a storm takes the only light\nEnd: the light is found where nobody looked").into()
}

fn tell(request: &LlmRequest) -> LlmResponse {
    let instruction = request.system_instruction.as_deref().unwrap_or_default();
    let line = |begin: &str| instruction.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default();
    let (hero, trouble, end) = (line("Hero: "), line("Trouble: "), line("End: "));
    format!("Once there was {hero}. One night {trouble}. All seemed lost, until {end}. And that was that.").into()
}
