//! The life of a delta: a tool's writes are visible at once, are part of its event, and are committed with it.

use schemars::JsonSchema;
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::state::State;
use scratchbook::{Event, LlmAgent, StateDelta};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::scenario_run::ScenarioRun;
use crate::failure::Failure;

pub(super) async fn play(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    in_code(run)?;

    let turns = [
        LlmResponse::call("update", json!({"values": {"count": 15, "name": "Bob"}})),
        "Updated.".into(),
        LlmResponse::call("update", json!({"values": {"count": 20}})),
        "Updated again.".into(),
    ];
    let agent = LlmAgent::builder("counter").model(ScriptedLlm::new(turns)).tool(update_tool()).build()?;
    let runner = run.runner("delta_app", agent)?;
    run.before("delta_app", "user1").await?;
    let mut session = run.begin("delta_app", "user1", json!({"count": 10, "name": "Alice"})).await?;

    let events = run.say(&mut session, &runner, "Make it 15 and call me Bob", json!({})).await?;
    run.check("the tool saw its writes", answer(&events, "seen").as_ref(), json!({"count": 15, "name": "Bob"}))?;
    run.check(
        "below them the committed values",
        answer(&events, "committed").as_ref(),
        json!({"count": 10, "name": "Alice"}),
    )?;
    let stored = run.stored(&session).await?;
    run.check("committed with the event", stored.state().get("count"), 15)?;
    run.check("both of them", stored.state().get("name"), "Bob")?;

    let events = run.say(&mut session, &runner, "Make it 20", json!({})).await?;
    run.check("the next delta began empty", answer(&events, "pending").as_ref(), json!({"count": 20}))?;
    let stored = run.stored(&session).await?;
    run.check("committed again", stored.state().get("count"), 20)?;
    run.check("the name was left alone", stored.state().get("name"), "Bob")
}

/// Shows the same with `State` alone, which an agent has in its context.
fn in_code(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    let committed: Map<_, _> =
        [("count".to_owned(), json!(10)), ("name".to_owned(), json!("Alice"))].into_iter().collect();
    let mut state = State::new(committed, StateDelta::new());
    run.check("State: the committed value", state.get("count"), 10)?;
    state.set("count", 15)?;
    state.set("name", "Bob")?;
    run.check("State: the delta comes first", state.get("count"), 15)?;
    run.check("State: there are changes", Some(&json!(state.has_delta())), true)?;
    run.check("State: these", Some(&json!(state.delta())), json!({"count": 15, "name": "Bob"}))?;
    state.commit();
    run.check("State: none after the commit", Some(&json!(state.has_delta())), false)?;
    state.set("count", 20)?;
    run.check("State: the next delta", state.get("count"), 20)?;
    state.discard();
    run.check("State: rolled back", state.get("count"), 15)
}

fn update_tool() -> FunctionTool {
    FunctionTool::new("update", "Sets values in the state.", |args: Update, context: ToolContext| async move {
        let state = context.state();
        let committed = context.session().state().to_map();
        state.update(&StateDelta::try_from(args.values)?)?;
        Ok(json!({"committed": committed, "pending": state.delta()?, "seen": state.to_map()}))
    })
}

#[derive(Deserialize, JsonSchema)]
struct Update {
    values: Map<String, Value>,
}

/// A field of the tool's response.
fn answer(events: &[Event], field: &str) -> Option<Value> {
    let answer = events.iter().flat_map(Event::function_responses).next()?;
    answer.response.as_ref()?.get(field).cloned()
}
