//! Runs that are taken up again over HTTP: by their id without a message, or by what answers their calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scratchbook::{FunctionTool, LlmAgent, LlmResponse, ScriptedLlm, ToolContext, connect};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::wire::Answer;
use super::{Host, RUNS, asked};

/// Pays when it is let, and where it costs much when the user agrees.
fn payer(lets: &Arc<Semaphore>, count: &Arc<AtomicUsize>) -> LlmAgent {
    let (lets, count) = (Arc::clone(lets), Arc::clone(count));
    let pay = FunctionTool::new("pay", "Pays.", move |args: Map<String, Value>, _: ToolContext| {
        let (lets, count) = (Arc::clone(&lets), Arc::clone(&count));
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            lets.acquire().await.unwrap().forget();
            Ok(json!({"paid": args["amount"]}))
        }
    });
    let model = ScriptedLlm::from_fn(|request| {
        let last = request.contents.last().cloned().unwrap_or_default();
        let amount = if last.text().contains("much") { 1000 } else { 5 };
        let answered = last.function_responses().next().is_some();
        Ok(if answered { "Paid.".into() } else { LlmResponse::call("pay", json!({"amount": amount})) })
    });
    let pay = pay.require_confirmation_if(|args| args["amount"].as_u64() > Some(100));
    LlmAgent::builder("payer").model(model).tool(pay).build().unwrap()
}

#[tokio::test]
async fn a_run_that_was_cut_off_goes_on_where_its_events_end() {
    let (store, lets, count) = (connect("memory:").await.unwrap(), Arc::new(Semaphore::new(0)), Arc::default());
    let first = Host::over(store.clone(), payer(&lets, &count), |server| server.resumable()).await;
    let _streamed = first.post(RUNS, &json!({"message": "pay little", "invocationId": "e-1"})).await;
    first.has_stored(1).await;
    Answer::of(first.address, "DELETE", &format!("{RUNS}/e-1"), &[], "").await.body().await;
    first.stop().await;

    let second = Host::over(store, payer(&lets, &count), |server| server.resumable()).await;
    lets.add_permits(9);
    for path in [RUNS, "/run_sse"] {
        let mut body = json!({"invocationId": "e-1"});
        if path != RUNS {
            body = json!({"appName": "demo", "userId": "u", "sessionId": "s", "invocationId": "e-1"});
        }
        second.post(path, &body).await.frames().await;
        let told: Vec<_> = second.stored().await.iter().map(|event| event.content.is_some()).collect();
        assert_eq!(told, [true, true, true, false], "the call, its answer, the model's, and that it has ended");
    }
    assert!((1..=2).contains(&count.load(Ordering::SeqCst)), "at least once");
    let missing = second.post(RUNS, &json!({"invocationId": "e-unknown"})).await.frames().await;
    assert_eq!(missing.last().unwrap().data["error"]["kind"], "not_found");
    let new = second.post(RUNS, &json!({"stateDelta": {"k": 1}})).await.frames().await;
    assert_eq!(new.last().unwrap().data["outcome"], "completed", "without an id it is a new one");
}

#[tokio::test]
async fn consent_is_given_as_adks_clients_give_it() {
    let (lets, count) = (Arc::new(Semaphore::new(9)), Arc::default());
    let host = Host::start(payer(&lets, &count)).await;
    let events = host.post("/run", &asked("pay much")).await.json().await;
    let request = &events[1]["content"]["parts"][0]["functionCall"];
    assert_eq!(request["name"], "adk_request_confirmation");
    assert_eq!(request["args"]["originalFunctionCall"]["args"], json!({"amount": 1000}));
    let response = json!({"response": "{\"confirmed\": true}"});
    let answer = json!({"functionResponse": {"id": request["id"], "name": request["name"], "response": response}});
    let mut body = asked("");
    body["newMessage"] = json!({"role": "user", "parts": [answer]});
    let events = host.post("/run", &body).await.json().await;
    assert_eq!(events[0]["content"]["parts"][0]["functionResponse"]["response"], json!({"paid": 1000}));
    assert_eq!(host.post("/run", &body).await.json().await, json!([]), "a double click");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
