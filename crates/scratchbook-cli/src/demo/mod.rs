//! `scratchbook demo`: runs the scenarios of the guide with real agents, and checks the state they produce.

mod callback_and_tool;
mod delta_flow;
mod game;
mod greeting;
mod manual_delta;
mod scenario_run;
mod shopping_cart;
mod state_before;
mod support_chat;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use scratchbook::SessionService;
use serde_json::{Value, json};

use crate::args::Scenario;
use crate::failure::Failure;
use crate::output::{BOLD, Format, GOOD, Output, styled, visible};
use scenario_run::ScenarioRun;

/// Lists the scenarios.
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

/// Runs scenarios, or all if none is named, and fails if a value differs.
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
        let mut run = ScenarioRun::new(sessions, out);
        play_one(*scenario, &mut run).await?;
        let record = run.finish();
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
    if different == 0 { Ok(()) } else { Err(Failure::WrongValues(different)) }
}

async fn play_one(scenario: Scenario, run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    match scenario {
        Scenario::ShoppingCart => shopping_cart::play(run).await,
        Scenario::SupportChat => support_chat::play(run).await,
        Scenario::Game => game::play(run).await,
        Scenario::DeltaFlow => delta_flow::play(run).await,
        Scenario::Greeting => greeting::play(run).await,
        Scenario::ManualDelta => manual_delta::play(run).await,
        Scenario::CallbackAndTool => callback_and_tool::play(run).await,
    }
}
