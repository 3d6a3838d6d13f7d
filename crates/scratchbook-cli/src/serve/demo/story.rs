//! The app `story`: one agent writes an outline into the state, the next one tells the story from there.

use std::sync::Arc;

use scratchbook::{LlmAgent, LlmRequest, LlmResponse, Result, SequentialAgent};

use super::model::DemoModel;

pub(super) fn agent() -> Result<SequentialAgent> {
    let outliner = LlmAgent::builder("outliner")
        .description("Makes an outline of what the user wants to hear of.")
        .model(DemoModel(outline))
        .instruction("Write an outline in three lines.")
        .output_key("outline")
        .build()?;
    let teller = LlmAgent::builder("teller")
        .description("Tells the story of the outline.")
        .model(DemoModel(tell))
        .instruction("Tell the story of this outline.\n{outline}")
        .output_key("story")
        .build()?;
    let agent = SequentialAgent::new("storyteller", vec![Arc::new(outliner), Arc::new(teller)]);
    Ok(agent.with_description("Two agents in a row, who tell a story of whatever you name."))
}

fn outline(request: &LlmRequest) -> LlmResponse {
    let said = request.contents.iter().rev().find(|content| content.role.as_deref() == Some("user"));
    let hero = hero(&said.map(|content| content.text()).unwrap_or_default());
    format!("Hero: {hero}\nTrouble: a storm takes the only light\nEnd: the light is found where nobody looked").into()
}

/// What a story is to be of: what comes after `about` or `of`, or all that was said.
fn hero(said: &str) -> String {
    let said = said.trim().trim_end_matches(['.', '!', '?']);
    let after = [" about ", " of "].iter().find_map(|word| said.split_once(word)).map(|(_, hero)| hero.trim());
    let hero = after.unwrap_or(said);
    if hero.is_empty() { "a lighthouse keeper".to_owned() } else { hero.to_owned() }
}

fn tell(request: &LlmRequest) -> LlmResponse {
    let instruction = request.system_instruction.as_deref().unwrap_or_default();
    let line = |begin: &str| instruction.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default();
    let (hero, trouble, end) = (line("Hero: "), line("Trouble: "), line("End: "));
    format!("Once there was {hero}. One night {trouble}. All seemed lost, until {end}. And that was that.").into()
}
