//! A process is killed between a model's calls and their answers. Another process resumes the run on the same file.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::agent::{FunctionTool, SequentialAgent, ToolContext};
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::{Agent, Event, LlmAgent, RunRequest, Runner, SqliteSessionService};
use serde_json::json;

use super::{ToolRuns, agrees, call, confirm, look, pay, requests, says, told};
use crate::database::{self, DatabaseFile};
use crate::runner::ToolArgs;

const ID: &str = "e-killed";

/// Two agents: the first is done, the second calls a tool. Their models answer by the events that they are shown.
fn agents(tools: Vec<FunctionTool>) -> SequentialAgent {
    let first = LlmAgent::builder("first").model(ScriptedLlm::from_fn(|_| Ok(says("first done")))).build().unwrap();
    let model = ScriptedLlm::from_fn(|request| {
        let answered = request.contents.last().is_some_and(|content| content.function_responses().next().is_some());
        let calls = LlmResponse::calls([("look", json!({"item": "x"})), ("pay", json!({"amount": 5}))]);
        Ok(if answered { says("second done") } else { calls })
    });
    let mut second = LlmAgent::builder("second").model(model);
    for tool in tools {
        second = second.tool(tool);
    }
    let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(first), Arc::new(second.build().unwrap())];
    SequentialAgent::new("seq", agents)
}

fn runner(service: SqliteSessionService, agent: impl Agent) -> Runner {
    Runner::builder(database::APP, agent, service).auto_create_session().resumable().build().unwrap()
}

async fn run(runner: &Runner, request: impl Into<RunRequest>) -> Vec<Event> {
    runner.run(database::USER, "s", request).try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_process_was_killed_during_a_call_goes_on_in_another() {
    let database = DatabaseFile::new();
    let mut child = database.child("resume::crash::a_child_is_killed_in_its_tool").spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.into_iter().any(|line| line.contains("in the tool")), "the child has ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();

    let count = ToolRuns::default();
    let runner = runner(database.open().await, agents(vec![look(&count), pay(&count)]));
    let key = database::key("s");
    let left = database::get(runner.session_service().as_ref(), &key).await.unwrap();
    let last = left.events().last().unwrap();
    assert_eq!((last.author.as_str(), last.function_calls().count()), ("second", 2), "the calls are the last event");

    let events = run(&runner, RunRequest::default().with_invocation_id(ID)).await;
    assert_eq!(count.get(), 1, "the call is run; the one that needs consent is not");
    assert_eq!(events[0].function_responses().count(), 2);
    assert!(
        events.iter().all(|event| event.author != "first"),
        "the first agent is not run again: {:?}",
        told(&events)
    );
    assert!(run(&runner, RunRequest::default().with_invocation_id(ID)).await.is_empty(), "now it waits for the user");

    let id = requests(&events)[0].clone();
    let events = run(&runner, confirm(&id, agrees())).await;
    assert_eq!(told(&events), [r#"second: pay={"paid":5}"#, "second: second done", "second: ends", "seq: ends"]);
    assert_eq!(count.get(), 2);
    runner.session_service().close().await.unwrap();

    // A further process finds that everything is done.
    let again = self::runner(database.open().await, agents(vec![look(&count), pay(&count)]));
    assert!(run(&again, RunRequest::default().with_invocation_id(ID)).await.is_empty());
    assert!(run(&again, confirm(&id, agrees())).await.is_empty());
    assert_eq!(count.get(), 2);
}

/// The child process of the test above; otherwise this does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_killed_in_its_tool() {
    let Some(path) = database::of_parent() else {
        return;
    };
    let hangs = FunctionTool::new("look", "Looks.", |_: ToolArgs, _: ToolContext| async {
        println!("\nin the tool");
        std::future::pending::<()>().await;
        Ok(())
    });
    let runner = runner(database::open_path(&path).await, agents(vec![hangs, pay(&ToolRuns::default())]));
    run(&runner, RunRequest::message("go").with_invocation_id(ID)).await;
}

/// The user's consent was stored, and the process was killed before the confirmed call was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consent_that_was_given_before_a_crash_is_carried_out_after_it() {
    let database = DatabaseFile::new();
    let mut child = database.child("resume::crash::a_child_is_killed_in_what_it_was_allowed").spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.into_iter().any(|line| line.contains("in the tool")), "the child has ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();

    let count = ToolRuns::default();
    let runner = runner(database.open().await, payer(pay(&count)));
    let events = run(&runner, RunRequest::default().with_invocation_id(ID)).await;
    assert_eq!(told(&events), [r#"agent: pay={"paid":5}"#, "agent: Paid.", "agent: ends"]);
    assert_eq!(count.get(), 1);
}

fn payer(pay: FunctionTool) -> LlmAgent {
    let model = ScriptedLlm::from_fn(|request| {
        let answered = request.contents.last().is_some_and(|content| content.function_responses().next().is_some());
        Ok(if answered { says("Paid.") } else { call("pay", json!({"amount": 5})) })
    });
    LlmAgent::builder("agent").model(model).tool(pay).build().unwrap()
}

/// The child process of the test above; otherwise this does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_killed_in_what_it_was_allowed() {
    let Some(path) = database::of_parent() else {
        return;
    };
    let hangs = FunctionTool::new("pay", "Pays.", |_: ToolArgs, _: ToolContext| async {
        println!("\nin the tool");
        std::future::pending::<()>().await;
        Ok(())
    });
    let runner = runner(database::open_path(&path).await, payer(hangs.require_confirmation()));
    let asked = run(&runner, RunRequest::message("go").with_invocation_id(ID)).await;
    run(&runner, confirm(&requests(&asked)[0], agrees())).await;
}
