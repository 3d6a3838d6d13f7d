//! Exchanges, compared with recordings of google-adk 2.13.0: the same agents, with the same answers of their models,
//! give the same JSON with fields in the same order, except for ids, times and the listed differences.

use std::sync::Arc;

use scratchbook::agent::{FunctionTool, LoopAgent, ParallelAgent, SequentialAgent, ToolContext};
use scratchbook::model::LlmResponse;
use scratchbook::{Event, LlmAgent, Runner};
use serde_json::{Value, json};

use super::{ToolRuns, agrees, answer, ask, call, ids, llm, look, on, pay, resumable, says, wait};
use crate::runner::{ToolArgs, app, run};

/// Collects the ids in JSON, in the order of their occurrence.
fn find_ids(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(id) if matches!(key.as_str(), "id" | "invocationId") && !found.contains(id) => {
                        found.push(id.clone());
                    }
                    _ => find_ids(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| find_ids(value, found)),
        _ => {}
    }
}

/// Returns the events as text, with numbers in place of ids and without times.
fn named(events: Vec<Value>) -> Vec<String> {
    let mut found = Vec::new();
    events.iter().for_each(|event| find_ids(event, &mut found));
    let name = |mut event: Value| {
        event["timestamp"] = json!(0);
        let text = event.to_string();
        found.iter().enumerate().fold(text, |text, (number, id)| text.replace(id, &format!("id-{number}")))
    };
    events.into_iter().map(name).collect()
}

fn same(events: &[Event], recorded: &str, what: &str) {
    // google-adk has no event that shows that a tool without an answer was begun.
    let marker = |event: &&Event| {
        event.actions.agent_state.as_ref().is_none_or(|state| !state.is_empty()) || event.author == "par"
    };
    let ours = events.iter().filter(marker).map(|event| json!(event)).collect();
    let theirs = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(named(ours), named(theirs), "{what}");
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../testdata/resume/", $name, ".jsonl"))
    };
}

/// Runs a message, and answers the first resulting call with this name by each of the answers, one run after another.
async fn exchange(runner: &Runner, message: &str, name: &str, answers: Vec<Value>) -> Vec<Event> {
    let mut events = run(runner, message).await.unwrap();
    let id = ids(&events, name)[0].clone();
    for response in answers {
        events.extend(run(runner, answer(&id, name, response)).await.unwrap());
    }
    events
}

/// A tool that changes no state, like the tool in the recordings.
fn plain_pay() -> FunctionTool {
    let paid = |args: ToolArgs, _: ToolContext| async move { Ok(json!({"paid": args["amount"]})) };
    FunctionTool::new("pay", "Pays.", paid).require_confirmation()
}

const CONFIRM: &str = scratchbook::agent::ToolConfirmation::CALL_NAME;

#[tokio::test]
async fn confirmations_are_told_as_recorded() {
    let agent = |turns: [LlmResponse; 2]| {
        llm("agent", turns).tool(plain_pay()).tool(look(&ToolRuns::default())).build().unwrap()
    };
    let one = || agent([call("pay", json!({"amount": 5})), says("Paid.")]);
    let events = exchange(&on(&app(), one()), "pay 5", CONFIRM, vec![agrees()]).await;
    same(&events, recorded!("confirmed"), "confirmed");
    let events = exchange(&resumable(&app(), one()), "pay 5", CONFIRM, vec![agrees()]).await;
    same(&events, recorded!("resumable_confirmed"), "confirmed, resumable");

    let refused = agent([call("pay", json!({"amount": 5})), says("Not paid.")]);
    let no = json!({"response": "{\"confirmed\": false}"});
    same(&exchange(&on(&app(), refused), "pay 5", CONFIRM, vec![no]).await, recorded!("rejected"), "rejected");

    let calls = LlmResponse::calls([("pay", json!({"amount": 5})), ("look", json!({"item": "x"}))]);
    let two = agent([LlmResponse { finish_reason: None, ..calls }, says("Paid.")]);
    let events = exchange(&on(&app(), two), "pay 5", CONFIRM, vec![agrees()]).await;
    same(&events, recorded!("beside_others"), "beside a call that needs none");
}

#[tokio::test]
async fn a_tool_that_asks_itself_is_told_as_recorded() {
    let tool = FunctionTool::new("dyn", "Dynamic.", |_: ToolArgs, context: ToolContext| async move {
        match context.tool_confirmation() {
            None => {
                context.request_confirmation("really?", Some(json!({"days": 0})))?;
                Ok(json!({"status": "waiting"}))
            }
            Some(answer) if !answer.confirmed => Ok(json!({"status": "no"})),
            Some(answer) => Ok(json!({"status": "ok", "payload": answer.payload})),
        }
    });
    let agent = llm("agent", [call("dyn", json!({"amount": 5})), says("Waiting."), says("Paid.")]).tool(tool);
    let runner = on(&app(), agent.build().unwrap());
    let yes = json!({"confirmed": true, "payload": {"days": 3}});
    same(&exchange(&runner, "dyn 5", CONFIRM, vec![yes]).await, recorded!("with_payload"), "with a payload");
}

#[tokio::test]
async fn long_running_calls_are_told_as_recorded() {
    let agent = || -> LlmAgent {
        let turns = [call("ask", json!({"q": "1"})), says("Pending."), says("Wait."), says("Done.")];
        llm("agent", turns).tool(ask()).build().unwrap()
    };
    let answers = || vec![json!({"status": "in progress"}), json!({"status": "done"})];
    let events = exchange(&on(&app(), agent()), "go", "ask", answers()).await;
    same(&events, recorded!("long_running"), "as it is");
    let events = exchange(&resumable(&app(), agent()), "go", "ask", answers()).await;
    same(&events, recorded!("resumable_long_running"), "resumable");
}

#[tokio::test]
async fn what_workflow_agents_tell_of_where_they_stand_is_as_recorded() {
    let waits = || call("wait", json!({"q": "1"}));
    let then = || vec![json!({"n": 1})];
    let a = |turns: [LlmResponse; 2]| Arc::new(llm("a", turns).tool(wait(&ToolRuns::default())).build().unwrap());
    let b = Arc::new(llm("b", [says("b done")]).build().unwrap());
    let seq = SequentialAgent::new("seq", vec![a([waits(), says("a done")]), b]);
    let events = exchange(&resumable(&app(), seq), "go", "wait", then()).await;
    same(&events, recorded!("resumable_sequential"), "one after another");

    let a3 = llm("a", [says("a 1"), waits(), says("a 2")]).tool(wait(&ToolRuns::default())).build().unwrap();
    let b = Arc::new(llm("b", [says("b 1"), says("b 2")]).build().unwrap());
    let repeat = LoopAgent::new("loop", vec![Arc::new(a3), b]).with_max_iterations(2);
    let events = exchange(&resumable(&app(), repeat), "go", "wait", then()).await;
    same(&events, recorded!("resumable_loop"), "again and again");

    let par = ParallelAgent::new("par", vec![a([waits(), says("a done")])]);
    let events = exchange(&resumable(&app(), par), "go", "wait", then()).await;
    same(&events, recorded!("resumable_parallel"), "side by side");

    let sub = llm("sub", [waits(), says("sub done")]).tool(wait(&ToolRuns::default())).build().unwrap();
    let to = call("transfer_to_agent", json!({"agent_name": "sub"}));
    let root = llm("root", [to]).sub_agent(sub).build().unwrap();
    let events = exchange(&resumable(&app(), root), "go", "wait", then()).await;
    same(&events, recorded!("resumable_transfer"), "handed over");
}

#[tokio::test]
async fn a_confirmation_is_asked_for_in_adks_words() {
    let agent = llm("agent", [call("pay", json!({"amount": 5}))]).tool(pay(&ToolRuns::default())).build().unwrap();
    let runner = on(&app(), agent);
    let events = run(&runner, "pay 5").await.unwrap();
    let hint = "Please approve or reject the tool call pay() by responding with a FunctionResponse with an expected \
                ToolConfirmation payload.";
    let request = events[1].function_calls().next().unwrap();
    assert_eq!(request.args.as_ref().unwrap()["toolConfirmation"], json!({"hint": hint, "confirmed": false}));
    let told = events[2].function_responses().next().unwrap();
    let error = "This tool call requires confirmation, please approve or reject.";
    assert_eq!(json!(told.response), json!({"error": error}));
}
