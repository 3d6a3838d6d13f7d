//! The life of a delta: writes hide the committed values until the event that carries them is committed.
//!
//! `scratchbook demo delta-flow` plays it too, and shows every event.

use std::sync::Arc;

use futures_util::TryStreamExt;
use schemars::JsonSchema;
use scratchbook::agent::{FunctionTool, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::state::State;
use scratchbook::{
    CreateSessionConfig, Event, LlmAgent, Result, Runner, Session, SessionService, SessionServiceExt, StateDelta,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const APP: &str = "delta_app";
const USER: &str = "user1";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let session = play(&sessions, &mut |what, found, expected| assert_eq!(found, expected, "{what}")).await?;
    for event in session.events().iter().filter(|event| !event.actions.state_delta.is_empty()) {
        println!("pending: {}", json!(event.actions.state_delta));
    }
    println!("committed: {}", json!(session.state()));
    sessions.close().await
}

pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    by_hand(check)?;

    let turns = [
        LlmResponse::call("update", json!({"values": {"count": 15, "name": "Bob"}})),
        "Updated.".into(),
        LlmResponse::call("update", json!({"values": {"count": 20}})),
        "Updated again.".into(),
    ];
    let agent = LlmAgent::builder("counter").model(ScriptedLlm::new(turns)).tool(update_tool()).build()?;
    let runner = Runner::builder(APP, agent, Arc::clone(sessions)).build()?;
    let config = CreateSessionConfig::default().with_state(json!({"count": 10, "name": "Alice"}));
    let mut session = sessions.create_session(APP, USER, config).await?;

    let events: Vec<_> = runner.run(USER, session.id(), "Make it 15 and call me Bob").try_collect().await?;
    check("the tool saw its writes", answer(&events, "seen"), Some(&json!({"count": 15, "name": "Bob"})));
    let committed = answer(&events, "committed");
    check("below them the committed values", committed, Some(&json!({"count": 10, "name": "Alice"})));
    sessions.refresh(&mut session).await?;
    check("committed with the event", session.state().get("count"), Some(&json!(15)));
    check("both of them", session.state().get("name"), Some(&json!("Bob")));

    let events: Vec<_> = runner.run(USER, session.id(), "Make it 20").try_collect().await?;
    check("the next delta began empty", answer(&events, "pending"), Some(&json!({"count": 20})));
    sessions.refresh(&mut session).await?;
    check("committed again", session.state().get("count"), Some(&json!(20)));
    check("the name was left alone", session.state().get("name"), Some(&json!("Bob")));
    Ok(session)
}

/// Does the same with only a `State`, which an agent has in its context.
fn by_hand(check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>)) -> Result<()> {
    // There are committed values, and no changes yet.
    let committed: Map<String, Value> = scratchbook::json::from_str(r#"{"count": 10, "name": "Alice"}"#)?;
    let mut state = State::new(committed, StateDelta::new());
    check("State: the committed value", state.get("count"), Some(&json!(10)));

    // A write changes the delta. A read sees the delta first.
    state.set("count", 15)?;
    state.set("name", "Bob")?;
    check("State: the delta comes first", state.get("count"), Some(&json!(15)));
    check("State: there are changes", Some(&json!(state.has_delta())), Some(&json!(true)));
    check("State: these", Some(&json!(state.delta())), Some(&json!({"count": 15, "name": "Bob"})));

    // A commit moves the changes to the committed values. The next delta begins empty.
    state.commit();
    check("State: none after the commit", Some(&json!(state.has_delta())), Some(&json!(false)));
    state.set("count", 20)?;
    check("State: the next delta", state.get("count"), Some(&json!(20)));

    // A discard rolls the uncommitted changes back.
    state.discard();
    check("State: rolled back", state.get("count"), Some(&json!(15)));
    Ok(())
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

/// Returns a field of the tool's response.
fn answer<'a>(events: &'a [Event], field: &str) -> Option<&'a Value> {
    events.iter().flat_map(Event::function_responses).next()?.response.as_ref()?.get(field)
}
