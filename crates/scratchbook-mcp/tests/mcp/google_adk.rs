//! google-adk's toolset on the same server: what the model is shown, and what calls return.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use scratchbook::mcp::{McpConnectionParams, McpToolset, McpToolsetBuilder, StreamableHttpConnectionParams};
use scratchbook_test_servers::python;
use serde_json::{Value, json};

use crate::mcp_everything::HttpServer;
use crate::run::{FinishedRun, calls, everything, over_stdio};

/// Runs google-adk with a task.
fn google_adk(task: &Value) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/google_adk/toolset.py");
    let mut running =
        Command::new(python().unwrap()).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(task.to_string().as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "google-adk fails");
    serde_json::from_slice(output.stdout.trim_ascii()).unwrap()
}

/// Returns the data about our run that google-adk prints about its run.
fn shown(run: &FinishedRun) -> Value {
    let request = &run.requests[0];
    json!({
        "request": {"instruction": request.system_instruction, "tools": request.tools},
        "responses": run.responses(),
    })
}

async fn compare(tools: McpToolsetBuilder, asked: &[(&str, Value)], mut task: Value) {
    let tools = tools.build().unwrap();
    let ours = shown(&calls(&tools, asked).await.unwrap());
    tools.close().await;
    task["calls"] = json!(asked);
    let theirs = tokio::task::spawn_blocking(move || google_adk(&task)).await.unwrap();
    assert_eq!(ours["request"]["tools"], theirs["request"]["tools"]);
    assert_eq!(ours["request"]["instruction"], theirs["request"]["instruction"]);
    let (ours, theirs) = (ours["responses"].as_array().unwrap(), theirs["responses"].as_array().unwrap());
    assert_eq!(ours.len(), theirs.len());
    for ((ours, theirs), (name, _)) in ours.iter().zip(theirs).zip(asked) {
        assert_eq!(comparable(ours), comparable(theirs), "{name}");
    }
}

/// Returns a response without the time in some texts. Texts with JSON become values.
fn comparable(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let text = text.split(" created at ").next().unwrap_or_default();
            serde_json::from_str(text).unwrap_or_else(|_| text.into())
        }
        Value::Array(items) => items.iter().map(comparable).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), comparable(value))).collect(),
        other => other.clone(),
    }
}

/// Calls of every kind of content, and calls that fail.
fn every_kind() -> Vec<(&'static str, Value)> {
    vec![
        ("echo", json!({"message": "Hello"})),
        ("get-sum", json!({"a": 2, "b": 3.5})),
        ("get-structured-content", json!({"location": "Chicago"})),
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        ("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})),
        ("get-resource-links", json!({"count": 2})),
        ("get-sum", json!({"a": "two"})),
        ("echo", json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_of_mcp_everything_are_declared_and_answer_as_in_google_adk() {
    let args = [everything().to_string_lossy().into_owned(), "stdio".to_owned()];
    let task = json!({"command": "node", "args": args});
    compare(McpToolset::builder(over_stdio()), &every_kind(), task).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_of_mcp_everything_over_http_are_as_in_google_adk() {
    let server = HttpServer::start().await;
    let params = StreamableHttpConnectionParams::new(&server.url).with_timeout(Duration::from_secs(30));
    compare(McpToolset::builder(params), &every_kind(), json!({"url": server.url})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filter_prefix_and_environment_of_mcp_everything_are_as_in_google_adk() {
    let args = [everything().to_string_lossy().into_owned(), "stdio".to_owned()];
    let filter = ["get-env", "echo", "no-such-tool"];
    let task = json!({
        "command": "node", "args": args, "env": {"SHOP": "open"}, "filter": filter, "prefix": "every",
    });
    let params: McpConnectionParams = over_stdio().with_env("SHOP", "open").into();
    let tools = McpToolset::builder(params).tool_filter(filter).tool_name_prefix("every");
    let asked = [("every_get-env", json!({})), ("echo", json!({"message": "no prefix"}))];
    compare(tools, &asked, task).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_the_users_consent_are_as_in_google_adk() {
    let args = [everything().to_string_lossy().into_owned(), "stdio".to_owned()];
    let task = json!({"command": "node", "args": args, "confirmation": true});
    let tools = McpToolset::builder(over_stdio()).require_confirmation();
    compare(tools, &[("echo", json!({"message": "Hello"})), ("get-sum", json!({"a": 1, "b": 2}))], task).await;
}
