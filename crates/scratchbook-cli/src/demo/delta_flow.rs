//! The life of a delta: a tool's writes are seen over the committed values at once, travel in its event, and are
//! the committed values afterwards.

use schemars::JsonSchema;
use scratchbook::{Event, FunctionTool, LlmAgent, LlmResponse, ScriptedLlm, State, StateDelta, ToolContext};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::stage::Stage;
use crate::failure::Failure;

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<(), Failure> {
    in_code(stage)?;

    let turns = [
        LlmResponse::call("update", json!({"values": {"count": 15, "name": "Bob"}})),
        "Updated.".into(),
        LlmResponse::call("update", json!({"values": {"count": 20}})),
        "Updated again.".into(),
    ];
    let agent = LlmAgent::builder("counter").model(ScriptedLlm::new(turns)).tool(update_tool()).build()?;
    let runner = stage.runner("delta_app", agent)?;
    stage.before("delta_app", "user1").await?;
    let mut scene = stage.begin("delta_app", "user1", json!({"count": 10, "name": "Alice"})).await?;

    let events = stage.say(&mut scene, &runner, "Make it 15 and call me Bob", json!({})).await?;
    stage.check("the tool saw its writes", answer(&events, "seen").as_ref(), json!({"count": 15, "name": "Bob"}))?;
    stage.check(
        "below them the committed values",
        answer(&events, "committed").as_ref(),
        json!({"count": 10, "name": "Alice"}),
    )?;
    let stored = stage.stored(&scene).await?;
    stage.check("committed with the event", stored.state().get("count"), 15)?;
    stage.check("both of them", stored.state().get("name"), "Bob")?;

    let events = stage.say(&mut scene, &runner, "Make it 20", json!({})).await?;
    stage.check("the next delta began empty", answer(&events, "pending").as_ref(), json!({"count": 20}))?;
    let stored = stage.stored(&scene).await?;
    stage.check("committed again", stored.state().get("count"), 20)?;
    stage.check("the name was left alone", stored.state().get("name"), "Bob")
}

/// The same with `State` alone, as an agent has it in its context.
fn in_code(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let committed: Map<_, _> =
        [("count".to_owned(), json!(10)), ("name".to_owned(), json!("Alice"))].into_iter().collect();
    let mut state = State::new(committed, StateDelta::new());
    stage.check("State: the committed value", state.get("count"), 10)?;
    state.set("count", 15)?;
    state.set("name", "Bob")?;
    stage.check("State: the delta comes first", state.get("count"), 15)?;
    stage.check("State: there are changes", Some(&json!(state.has_delta())), true)?;
    stage.check("State: these", Some(&json!(state.delta())), json!({"count": 15, "name": "Bob"}))?;
    state.commit();
    stage.check("State: none after the commit", Some(&json!(state.has_delta())), false)?;
    state.set("count", 20)?;
    stage.check("State: the next delta", state.get("count"), 20)?;
    state.discard();
    stage.check("State: rolled back", state.get("count"), 15)
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

/// A field of what the tool answered.
fn answer(events: &[Event], field: &str) -> Option<Value> {
    let answer = events.iter().flat_map(Event::function_responses).next()?;
    answer.response.as_ref()?.get(field).cloned()
}
