//! The app `story`: one agent writes an outline into the state, the next one tells the story from there.

use std::sync::Arc;

use scratchbook::{Llm, LlmAgent, LlmRequest, LlmResponse, Result, SequentialAgent};

use super::model::Script;

pub(super) fn agent(model_or: impl Fn(Script) -> Arc<dyn Llm>) -> Result<SequentialAgent> {
    let outliner = LlmAgent::builder("outliner")
        .description("Makes an outline of what the user wants to hear of.")
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
    Ok(agent.with_description("Two agents in a row, who tell a story of whatever you name."))
}

fn outline(request: &LlmRequest) -> LlmResponse {
    let said = request.contents.iter().rev().find(|content| content.role.as_deref() == Some("user"));
    let hero = hero(&said.map(|content| content.text()).unwrap_or_default());
    format!("Hero: {hero}\nTrouble: a storm takes the only light\nEnd: the light is found where nobody looked").into()
}

/// What a story is to be of: what comes after `a story about` and the like, or all that was said.
fn hero(said: &str) -> String {
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = said.trim_end_matches(['.', '!', '?']);
    let said = said.strip_suffix("please").unwrap_or(said).trim_end_matches([',', ' ']);
    // Not each `about` or `of`: a dragon may be afraid of heights.
    let asks = |before: &str| {
        let last = before.rsplit(' ').next().unwrap_or_default().to_lowercase();
        matches!(last.as_str(), "" | "story" | "stories" | "tale" | "one" | "something" | "me" | "hear" | "write")
    };
    let words = ["about ", "About ", "of "].into_iter();
    let after = words.filter_map(|word| said.split_once(word)).find(|(before, _)| asks(before.trim_end()));
    let hero = after.map_or(said, |(_, hero)| hero.trim());
    let last = hero.rsplit(' ').next().unwrap_or_default().to_lowercase();
    if matches!(last.as_str(), "" | "story" | "tale" | "hello" | "hi" | "help") {
        return "a lighthouse keeper".to_owned();
    }
    match hero.split_once(' ') {
        Some((article @ ("A" | "An" | "The"), rest)) => format!("{} {rest}", article.to_lowercase()),
        _ => hero.to_owned(),
    }
}

fn tell(request: &LlmRequest) -> LlmResponse {
    let instruction = request.system_instruction.as_deref().unwrap_or_default();
    let line = |begin: &str| instruction.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default();
    let (hero, trouble, end) = (line("Hero: "), line("Trouble: "), line("End: "));
    format!("Once there was {hero}. One night {trouble}. All seemed lost, until {end}. And that was that.").into()
}

#[cfg(test)]
mod tests {
    use super::hero;

    #[test]
    fn the_hero_is_what_was_named() {
        for (said, named) in [
            ("a dragon who is afraid of heights", "a dragon who is afraid of heights"),
            ("A dragon who thinks about rain.", "a dragon who thinks about rain"),
            ("Tell me a story about a dragon who is afraid of heights, please", "a dragon who is afraid of heights"),
            ("Tell me a story of a man who dreams about fish!", "a man who dreams about fish"),
            ("tell me about Bob", "Bob"),
            ("About the king of Spain", "the king of Spain"),
            ("the king of Spain", "the king of Spain"),
            ("tell me a story", "a lighthouse keeper"),
            ("Hello!", "a lighthouse keeper"),
            (" ", "a lighthouse keeper"),
        ] {
            assert_eq!(hero(said), named, "{said}");
        }
    }
}
