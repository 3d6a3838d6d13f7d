//! `scratchbook demo`: the scenarios of the state guide as real agent runs, with the values that must come out.

mod before;
mod callback_and_tool;
mod delta_flow;
mod game;
mod greeting;
mod manual_delta;
mod shopping_cart;
mod stage;
mod support_chat;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use scratchbook::SessionService;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{BOLD, Format, GOOD, Output, styled, visible};
use stage::Stage;

/// What can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    ShoppingCart,
    SupportChat,
    Game,
    DeltaFlow,
    Greeting,
    ManualDelta,
    CallbackAndTool,
}

impl Scenario {
    const ALL: [Self; 7] = [
        Self::ShoppingCart,
        Self::SupportChat,
        Self::Game,
        Self::DeltaFlow,
        Self::Greeting,
        Self::ManualDelta,
        Self::CallbackAndTool,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ShoppingCart => "shopping-cart",
            Self::SupportChat => "support-chat",
            Self::Game => "game",
            Self::DeltaFlow => "delta-flow",
            Self::Greeting => "greeting",
            Self::ManualDelta => "manual-delta",
            Self::CallbackAndTool => "callback-and-tool",
        }
    }

    fn teaches(self) -> &'static str {
        match self {
            Self::ShoppingCart => "a cart for each session, points for each user, one tax rate for the app",
            Self::SupportChat => "a chat starts anew, the customer's tickets and score stay",
            Self::Game => "two players, their leaderboard, and a tournament that is another app",
            Self::DeltaFlow => "writes gather in a delta and are committed with its event",
            Self::Greeting => "an agent's answer goes into the state by output_key",
            Self::ManualDelta => "a program appends an event of its own that changes all scopes",
            Self::CallbackAndTool => "callbacks and tools write to the state of their context",
        }
    }

    async fn play(self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        match self {
            Self::ShoppingCart => shopping_cart::play(stage).await,
            Self::SupportChat => support_chat::play(stage).await,
            Self::Game => game::play(stage).await,
            Self::DeltaFlow => delta_flow::play(stage).await,
            Self::Greeting => greeting::play(stage).await,
            Self::ManualDelta => manual_delta::play(stage).await,
            Self::CallbackAndTool => callback_and_tool::play(stage).await,
        }
    }
}

impl ValueEnum for Scenario {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.teaches()))
    }
}

/// Names the scenarios.
pub(crate) fn list(out: &mut Output) -> Result<(), Failure> {
    if out.format() == Format::Json {
        let scenarios: Vec<_> = Scenario::ALL
            .iter()
            .map(|scenario| json!({"name": scenario.name(), "teaches": scenario.teaches()}))
            .collect();
        return Ok(out.json(&json!({"scenarios": scenarios}))?);
    }
    Ok(out.table(
        &["SCENARIO", "TEACHES"],
        Scenario::ALL.iter().map(|scenario| [scenario.name(), scenario.teaches()].into()),
    )?)
}

/// Plays scenarios, all of them where none is named, and fails where a value is different.
pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    place: &str,
    scenarios: &[Scenario],
    out: &mut Output,
) -> Result<(), Failure> {
    let scenarios = if scenarios.is_empty() { &Scenario::ALL } else { scenarios };
    let (mut checks, mut different) = (0, 0);
    let mut records: Vec<Value> = Vec::new();
    if out.format() == Format::Text && !place.starts_with("memory:") {
        out.line(format_args!("writing to {}\n", visible(place)))?;
    }
    for (n, scenario) in scenarios.iter().enumerate() {
        if out.format() == Format::Text {
            let gap = if n == 0 { "" } else { "\n" };
            out.line(format_args!("{gap}{}  {}", styled(BOLD, scenario.name()), scenario.teaches()))?;
        }
        let mut stage = Stage::new(sessions, out);
        scenario.play(&mut stage).await?;
        let record = stage.finish();
        checks += record.checks.len();
        different += record.different();
        records.push(json!({
            "name": scenario.name(),
            "carriedOn": record.carried_on,
            "events": record.events,
            "checks": record.checks,
        }));
    }
    if out.format() == Format::Json {
        out.json(&json!({"ok": different == 0, "database": place, "scenarios": records}))?;
    } else if different == 0 {
        out.line(format_args!("\n{}", styled(GOOD, format_args!("all {checks} values are as they must be"))))?;
    }
    if different == 0 { Ok(()) } else { Err(Failure::Different(different)) }
}
