//! Runs that wait for a person are answered and stopped through the forms of the pages.

use std::sync::Arc;
use std::time::Duration;

use scratchbook::agent::FunctionTool;
use scratchbook::model::{LlmResponse, ScriptedLlm};
use scratchbook::prelude::*;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::changes::send;
use super::{S1, text};
use crate::support::TestClient;

/// Returns an agent that calls its tool until the tool has answered.
fn caller(name: &'static str, tool: FunctionTool) -> LlmAgent {
    let model = ScriptedLlm::from_fn(move |request| {
        let last = request.contents.last().cloned().unwrap_or_default();
        let answered = last.function_responses().next().map(|answer| answer.response.clone());
        Ok(match answered {
            Some(answer) => format!("It said {}.", json!(answer)).as_str().into(),
            None => LlmResponse::call(name, json!({"amount": 7})),
        })
    });
    LlmAgent::builder("clerk").model(model).tool(tool).build().unwrap()
}

async fn hosting(agent: LlmAgent) -> TestClient {
    let client = TestClient::with(|server| server.app("shop", agent)).await;
    client.session("shop", "alice", "s1").await;
    client
}

fn pay() -> FunctionTool {
    let pay = |args: Map<String, Value>, _: ToolContext| async move { Ok(json!({"paid": args["amount"]})) };
    FunctionTool::new("pay", "Pays.", pay).require_confirmation()
}

/// Sends a message, and returns the page once it shows this text.
async fn said(client: &TestClient, shown: &str) -> String {
    let sent = send(client, &format!("{S1}/runs"), &[("message", "Go on")]).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    until(client, shown).await
}

async fn until(client: &TestClient, shown: &str) -> String {
    for _ in 0..500 {
        let page = text(client, S1).await;
        if page.contains(shown) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no {shown} in {}", text(client, S1).await)
}

/// Returns the hidden fields of the form that answers a call.
fn question(page: &str) -> [String; 2] {
    let (_, form) = page.split_once("class=\"question\"").unwrap_or_else(|| panic!("no question in {page}"));
    ["call", "name"].map(|name| {
        let (_, rest) = form.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    })
}

#[tokio::test]
async fn a_call_that_waits_for_consent_is_approved_or_rejected() {
    for (answer, shown) in [("yes", "paid"), ("no", "rejected")] {
        let client = hosting(caller("pay", pay())).await;
        let [call, name] = question(&said(&client, "class=\"question\"").await);
        let fields = [("call", call.as_str()), ("name", &name), ("confirmed", answer)];
        assert_eq!(send(&client, &format!("{S1}/runs"), &fields).await.status, 303);
        let page = until(&client, "It said").await;
        let said = page.split("It said").nth(1).unwrap().split('<').next().unwrap();
        assert!(said.contains(shown), "{answer}: {said}");
        assert!(!page.contains("class=\"question\""), "it is answered: {page}");
    }
}

#[tokio::test]
async fn a_late_call_is_answered_with_json_or_with_text() {
    let ask = || FunctionTool::new("ask", "Asks somebody.", |_: Map<String, Value>, _| async { Ok(Value::Null) });
    for (answer, shown) in [("{\"ok\": 12}", "&quot;ok&quot;:12"), ("as you like", "as you like"), ("[3]", "[3]")] {
        let client = hosting(caller("ask", ask().long_running())).await;
        let [call, name] = question(&said(&client, "class=\"question\"").await);
        assert_eq!(name, "ask");
        let fields = [("call", call.as_str()), ("name", &name), ("response", answer)];
        assert_eq!(send(&client, &format!("{S1}/runs"), &fields).await.status, 303);
        // The run itself has added the first answer, which has no value.
        let page = until(&client, shown).await;
        assert!(!page.contains("class=\"question\""), "it is answered: {page}");
    }
}

#[tokio::test]
async fn a_run_is_stopped() {
    let never = Arc::new(Semaphore::new(0));
    let wait = FunctionTool::new("wait", "Waits.", move |_: Map<String, Value>, _| {
        let never = Arc::clone(&never);
        async move {
            never.acquire().await.unwrap().forget();
            Ok(Value::Null)
        }
    });
    let client = hosting(caller("wait", wait)).await;
    let page = said(&client, "name=\"run\" value=\"").await;
    let run = page.split("name=\"run\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(send(&client, &format!("{S1}/stop"), &[("run", run)]).await.status, 303);
    assert!(!text(&client, S1).await.contains("name=\"run\" value=\""), "no run is under way");
    // A second request finds nothing to stop.
    assert_eq!(send(&client, &format!("{S1}/stop"), &[("run", run)]).await.status, 303);
}
