//! Parallel agents that wait. An answer belongs to the branch of its call.

use std::sync::Arc;

use scratchbook::agent::ParallelAgent;
use scratchbook::content::Part;
use scratchbook::model::ScriptedLlm;
use scratchbook::{Agent, Content, Event, LlmAgent, Runner};
use serde_json::json;

use super::{ToolRuns, agrees, answer, call, confirm, ids, on, pay, requests, resumable, says, shown, told, wait};
use crate::runner::{app, run, stored};

/// Two agents, each of which waits for its own answer.
fn both(count: &ToolRuns, tool: &'static str) -> (ParallelAgent, [ScriptedLlm; 2]) {
    let models = ["a", "b"].map(|name| {
        ScriptedLlm::from_fn(move |request| {
            let answered = request.contents.last().is_some_and(|content| content.function_responses().next().is_some());
            Ok(if answered { says(&format!("{name} done")) } else { call(tool, json!({"amount": 5})) })
        })
    });
    let agents = ["a", "b"].into_iter().zip(&models).map(|(name, model)| -> Arc<dyn Agent> {
        Arc::new(LlmAgent::builder(name).model(model.clone()).tool(wait(count)).tool(pay(count)).build().unwrap())
    });
    (ParallelAgent::new("par", agents.collect()), models)
}

/// Returns the id of an agent's call.
fn call_of(events: &[Event], agent: &str, name: &str) -> String {
    let own: Vec<_> = events.iter().filter(|event| event.author == agent).cloned().collect();
    ids(&own, name).remove(0)
}

async fn users_branches(runner: &Runner) -> Vec<Option<String>> {
    let session = stored(runner).await;
    session.events().iter().filter(|event| event.author == "user").map(|event| event.branch.clone()).collect()
}

#[tokio::test]
async fn an_answer_goes_to_the_branch_of_its_call() {
    for resumes in [false, true] {
        let (agent, models) = both(&ToolRuns::default(), "wait");
        let runner = if resumes { resumable(&app(), agent) } else { on(&app(), agent) };
        let asked = run(&runner, "go").await.unwrap();
        let events = run(&runner, answer(&call_of(&asked, "b", "wait"), "wait", json!({"n": 2}))).await.unwrap();
        assert_eq!(told(&events)[0], "b: b done");
        assert!(
            events.iter().all(|event| event.author == "b" && event.branch.as_deref() == Some("par.b")),
            "{:?}",
            told(&events)
        );
        assert_eq!(shown(&models[1]), ["go", "wait?", r#"wait={"n":2}"#]);
        let events = run(&runner, answer(&call_of(&asked, "a", "wait"), "wait", json!({"n": 1}))).await.unwrap();
        assert_eq!(told(&events)[0], "a: a done");
        assert_eq!(shown(&models[0]), ["go", "wait?", r#"wait={"n":1}"#], "nothing of the other branch");
        assert_eq!(told(&events).last().unwrap() == "par: ends", resumes);
        let branches = [None, Some("par.b".to_owned()), Some("par.a".to_owned())];
        assert_eq!(users_branches(&runner).await, branches);
    }
}

#[tokio::test]
async fn one_message_may_answer_several_branches() {
    for resumes in [false, true] {
        let (agent, models) = both(&ToolRuns::default(), "wait");
        let runner = if resumes { resumable(&app(), agent) } else { on(&app(), agent) };
        let asked = run(&runner, "go").await.unwrap();
        let part = |agent: &str| Part::function_response(call_of(&asked, agent, "wait"), "wait", json!({"of": agent}));
        let events = run(&runner, Content::new("user", vec![part("a"), part("b")])).await.unwrap();
        let mut done: Vec<_> = told(&events).into_iter().filter(|line| line.ends_with("done")).collect();
        done.sort();
        assert_eq!(done, ["a: a done", "b: b done"]);
        for (model, name) in models.iter().zip(["a", "b"]) {
            assert_eq!(shown(model), ["go".to_owned(), "wait?".to_owned(), format!(r#"wait={{"of":"{name}"}}"#)]);
        }
        assert_eq!(users_branches(&runner).await, [None, Some("par.a".to_owned()), Some("par.b".to_owned())]);
    }
}

#[tokio::test]
async fn confirmations_go_to_the_branches_of_their_calls() {
    for resumes in [false, true] {
        let count = ToolRuns::default();
        let (agent, models) = both(&count, "pay");
        let runner = if resumes { resumable(&app(), agent) } else { on(&app(), agent) };
        let asked = run(&runner, "go").await.unwrap();
        assert_eq!(requests(&asked).len(), 2);
        let of_a = call_of(&asked, "a", scratchbook::agent::ToolConfirmation::CALL_NAME);
        let events = run(&runner, confirm(&of_a, agrees())).await.unwrap();
        assert_eq!(told(&events)[..2], [r#"a: pay={"paid":5}"#, "a: a done"]);
        assert_eq!(events[0].branch.as_deref(), Some("par.a"));
        assert_eq!(count.get(), 1);
        assert!(run(&runner, confirm(&of_a, agrees())).await.unwrap().is_empty());
        assert_eq!(shown(&models[0]), ["go", "pay?", r#"pay={"paid":5}"#]);
        let of_b = call_of(&asked, "b", scratchbook::agent::ToolConfirmation::CALL_NAME);
        run(&runner, confirm(&of_b, agrees())).await.unwrap();
        assert_eq!(count.get(), 2);
    }
}

#[tokio::test]
async fn agents_that_do_not_wait_go_on_meanwhile() {
    let a = LlmAgent::builder("a")
        .model(ScriptedLlm::new([call("wait", json!({})), says("a done")]))
        .tool(wait(&ToolRuns::default()));
    let b = LlmAgent::builder("b").model(ScriptedLlm::new([says("b done")])).build().unwrap();
    let par = ParallelAgent::new("par", vec![Arc::new(a.build().unwrap()), Arc::new(b)]);
    let runner = resumable(&app(), par);
    let asked = run(&runner, "go").await.unwrap();
    assert!(told(&asked).contains(&"b: b done".to_owned()) && !told(&asked).contains(&"par: ends".to_owned()));
    let events = run(&runner, answer(&ids(&asked, "wait")[0], "wait", json!({}))).await.unwrap();
    assert_eq!(told(&events), ["a: a done", "a: ends", "par: ends"]);
}
