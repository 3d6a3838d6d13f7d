//! `scratchbook demo`: runs the scenarios of ADK's documentation with real agents, and checks the state they produce.
//!
//! Each scenario is an example of this package, in `examples/`. The demo plays it on a store that records what happens.

mod record;
#[expect(dead_code, reason = "each story has a `main`, for it is an example")]
mod stories;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use scratchbook::{Result, SessionService};
use serde_json::{Value, json};

use crate::args::Scenario;
use crate::failure::CommandFailure;
use crate::output::{BOLD, Format, GOOD, Output, styled, visible};
use crate::table::{text, whole};
use record::{ScenarioRecorder, ScenarioStep, as_json};
use stories::{
    callback_and_tool, delta_flow, game_leaderboard, greeting_output_key, manual_state_delta, shopping_cart,
    support_chat,
};

/// Lists the scenarios.
pub(crate) fn list(out: &mut Output) -> Result<(), CommandFailure> {
    if out.format() == Format::Json {
        let scenarios: Vec<_> = Scenario::ALL
            .iter()
            .map(|scenario| json!({"name": scenario.name(), "teaches": scenario.teaches()}))
            .collect();
        return Ok(out.json(&json!({"scenarios": scenarios}))?);
    }
    Ok(out.table(
        [whole("SCENARIO"), text("TEACHES")],
        Scenario::ALL.iter().map(|scenario| [scenario.name(), scenario.teaches()].map(str::to_owned)),
    )?)
}

/// Runs scenarios, or all if none is named, and fails if a value differs.
pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    place: &str,
    scenarios: &[Scenario],
    out: &mut Output,
) -> Result<(), CommandFailure> {
    let scenarios = if scenarios.is_empty() { &Scenario::ALL } else { scenarios };
    let (mut checks, mut different) = (0, 0);
    let mut records: Vec<Value> = Vec::new();
    if out.format() == Format::Text && !place.starts_with("memory:") {
        out.line(format_args!("writing to {}\n", visible(place)))?;
    }
    for (n, scenario) in scenarios.iter().enumerate() {
        let recorder = Arc::new(ScenarioRecorder::new(sessions));
        let outcome = play_one(*scenario, &recorder).await;
        let steps = recorder.take_steps();
        if out.format() == Format::Text {
            let gap = if n == 0 { "" } else { "\n" };
            out.line(format_args!("{gap}{}  {}", styled(BOLD, scenario.name()), scenario.teaches()))?;
            steps.iter().try_for_each(|step| step.print(out))?;
        }
        outcome?;
        checks += steps.iter().filter(|step| matches!(step, ScenarioStep::Check { .. })).count();
        different += steps.iter().filter(|step| step.is_different()).count();
        records.push(as_json(scenario.name(), &steps));
    }
    if out.format() == Format::Json {
        out.json(&json!({"ok": different == 0, "database": place, "scenarios": records}))?;
    } else if different == 0 {
        out.line(format_args!("\n{}", styled(GOOD, format_args!("all {checks} values are as they must be"))))?;
    }
    if different == 0 { Ok(()) } else { Err(CommandFailure::WrongValues(different)) }
}

async fn play_one(scenario: Scenario, recorder: &Arc<ScenarioRecorder>) -> Result<()> {
    for (app_name, user_id) in owners(scenario) {
        recorder.carry_on(app_name, user_id).await?;
    }
    let sessions: &Arc<dyn SessionService> = &(Arc::clone(recorder) as Arc<dyn SessionService>);
    let check =
        &mut |what: &str, found: Option<&Value>, expected: Option<&Value>| recorder.check(what, found, expected);
    match scenario {
        Scenario::ShoppingCart => shopping_cart::play(sessions, check).await.map(drop),
        Scenario::SupportChat => support_chat::play(sessions, check).await.map(drop),
        Scenario::Game => game_leaderboard::play(sessions, check).await.map(drop),
        Scenario::DeltaFlow => delta_flow::play(sessions, check).await.map(drop),
        Scenario::Greeting => greeting_output_key::play(sessions, check).await.map(drop),
        Scenario::ManualDelta => manual_state_delta::play(sessions, check).await.map(drop),
        Scenario::CallbackAndTool => callback_and_tool::play(sessions, check).await.map(drop),
    }
}

/// Returns the apps and users that a scenario writes for, whose state is kept from one run to the next.
fn owners(scenario: Scenario) -> &'static [(&'static str, &'static str)] {
    match scenario {
        Scenario::ShoppingCart => &[("ecommerce_app", "user123")],
        Scenario::SupportChat => &[("support_app", "customer_456")],
        Scenario::Game => {
            &[("game_app", "player_alice"), ("game_app", "player_bob"), ("tournament_app", "player_alice")]
        }
        Scenario::DeltaFlow => &[("delta_app", "user1")],
        Scenario::Greeting => &[("state_app", "user1")],
        Scenario::ManualDelta => &[("state_app_manual", "user2")],
        Scenario::CallbackAndTool => &[("callback_app", "user1")],
    }
}
