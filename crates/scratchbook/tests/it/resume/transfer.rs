//! Agents that hand over the conversation while a call waits.

use std::sync::Arc;

use scratchbook::agent::SequentialAgent;
use scratchbook::model::LlmResponse;
use serde_json::json;

use super::{ToolRuns, agrees, answer, call, confirm, ids, llm, on, pay, requests, resumable, says, told, wait};
use crate::runner::{app, run};

fn to(name: &str) -> LlmResponse {
    call("transfer_to_agent", json!({"agent_name": name}))
}

#[tokio::test]
async fn an_answer_goes_to_the_agent_that_called_also_after_it_was_handed_the_conversation() {
    for resumes in [false, true] {
        let sub = llm("sub", [call("wait", json!({})), says("Thanks."), says("Still here.")])
            .tool(wait(&ToolRuns::default()));
        let root = llm("root", [to("sub")]).sub_agent(sub.build().unwrap()).build().unwrap();
        let runner = if resumes { resumable(&app(), root) } else { on(&app(), root) };
        let asked = run(&runner, "go").await.unwrap();
        let events = run(&runner, answer(&ids(&asked, "wait")[0], "wait", json!({}))).await.unwrap();
        assert_eq!((told(&events)[0].as_str(), events[0].node_info.path.as_str()), ("sub: Thanks.", "root@1/sub@1"));
        let next = run(&runner, "next").await.unwrap();
        assert_eq!(told(&next)[0], "sub: Still here.");
    }
}

#[tokio::test]
async fn an_agent_that_waits_and_hands_over_hears_the_answer_itself() {
    for resumes in [false, true] {
        let sub = llm("sub", [says("Hello from sub."), says("Sub again.")]).build().unwrap();
        let both = LlmResponse::calls([("wait", json!({})), ("transfer_to_agent", json!({"agent_name": "sub"}))]);
        let root =
            llm("root", [both, says("Thanks.")]).tool(wait(&ToolRuns::default())).sub_agent(sub).build().unwrap();
        let runner = if resumes { resumable(&app(), root) } else { on(&app(), root) };
        let asked = run(&runner, "go").await.unwrap();
        assert!(told(&asked).contains(&"sub: Hello from sub.".to_owned()), "{:?}", told(&asked));
        let events = run(&runner, answer(&ids(&asked, "wait")[0], "wait", json!({}))).await.unwrap();
        assert_eq!(told(&events)[0], "root: Thanks.");
        assert_eq!(told(&events).last().unwrap() == "root: ends", resumes);
    }
}

#[tokio::test]
async fn handing_over_can_be_what_the_answer_leads_to() {
    for resumes in [false, true] {
        let sub = llm("sub", [says("Hello from sub.")]).build().unwrap();
        let root = llm("root", [call("wait", json!({})), to("sub")]).tool(wait(&ToolRuns::default())).sub_agent(sub);
        let root = root.build().unwrap();
        let runner = if resumes { resumable(&app(), root) } else { on(&app(), root) };
        let asked = run(&runner, "go").await.unwrap();
        let events = run(&runner, answer(&ids(&asked, "wait")[0], "wait", json!({}))).await.unwrap();
        assert!(told(&events).contains(&"sub: Hello from sub.".to_owned()), "{:?}", told(&events));
    }
}

#[tokio::test]
async fn a_confirmation_beside_a_transfer_is_carried_out_by_the_agent_that_called() {
    for resumes in [false, true] {
        let count = ToolRuns::default();
        let sub = llm("sub", [says("Hello from sub.")]).build().unwrap();
        let both =
            LlmResponse::calls([("pay", json!({"amount": 5})), ("transfer_to_agent", json!({"agent_name": "sub"}))]);
        let root = llm("root", [both, says("Paid.")]).tool(pay(&count)).sub_agent(sub).build().unwrap();
        let runner = if resumes { resumable(&app(), root) } else { on(&app(), root) };
        let asked = run(&runner, "go").await.unwrap();
        assert!(told(&asked).contains(&"sub: Hello from sub.".to_owned()), "{:?}", told(&asked));
        let events = run(&runner, confirm(&requests(&asked)[0], agrees())).await.unwrap();
        assert_eq!(told(&events)[..2], [r#"root: pay={"paid":5}"#, "root: Paid."]);
        assert_eq!(count.get(), 1);
    }
}

#[tokio::test]
async fn a_sequence_goes_on_when_the_agent_that_was_handed_the_conversation_has_its_answer() {
    let sub = llm("sub", [call("wait", json!({})), says("sub done")]).tool(wait(&ToolRuns::default())).build().unwrap();
    let a = llm("a", [to("sub")]).sub_agent(sub).build().unwrap();
    let b = llm("b", [says("b done")]).build().unwrap();
    let runner = resumable(&app(), SequentialAgent::new("seq", vec![Arc::new(a), Arc::new(b)]));
    let asked = run(&runner, "go").await.unwrap();
    assert!(!told(&asked).contains(&"b: b done".to_owned()));
    let events = run(&runner, answer(&ids(&asked, "wait")[0], "wait", json!({}))).await.unwrap();
    let said: Vec<_> = told(&events).into_iter().filter(|line| line.ends_with("done")).collect();
    assert_eq!(said, ["sub: sub done", "b: b done"]);
    assert_eq!(told(&events).last().unwrap(), "seq: ends");
}
