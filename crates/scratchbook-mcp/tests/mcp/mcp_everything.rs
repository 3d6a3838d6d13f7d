//! Tests a real server, `@modelcontextprotocol/server-everything`, as a process and over HTTP.

use std::ops::ControlFlow;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use scratchbook::mcp::{McpLimits, McpToolset, StdioConnectionParams, StreamableHttpConnectionParams};
use scratchbook::prelude::*;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::run::{calls, everything, over_stdio};

/// The server with an address.
pub(crate) struct HttpServer {
    pub(crate) url: String,
    port: u16,
    process: Child,
}

impl HttpServer {
    pub(crate) async fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_on(port).await
    }

    async fn start_on(port: u16) -> Self {
        let mut command = Command::new("node");
        command.arg(everything()).arg("streamableHttp").env("PORT", port.to_string());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { url: format!("http://127.0.0.1:{port}/mcp"), port, process }
    }

    async fn restart(mut self) -> Self {
        self.process.kill().await.unwrap();
        Self::start_on(self.port).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_answer_run_at_once_and_each_gets_its_result() {
    let tools = McpToolset::new(over_stdio()).unwrap();
    let asked: Vec<_> = (0..20).map(|n| ("get-sum", json!({"a": n, "b": 1}))).collect();
    let run = calls(&tools, &asked).await.unwrap();
    for (n, response) in run.responses().iter().enumerate() {
        let text = format!("The sum of {n} and 1 is {}.", n + 1);
        assert_eq!(*response, json!({"content": [{"type": "text", "text": text}], "isError": false}));
    }
    tools.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_is_started_again_for_the_next_call() {
    let pids = tempfile::tempdir().unwrap();
    let script = everything();
    let start = format!("echo $$ >> {}/pids; exec node '{}' stdio", pids.path().display(), script.display());
    let params = StdioConnectionParams::new("sh", ["-c", &start]).with_timeout(Duration::from_secs(30));
    let tools = McpToolset::new(params).unwrap();
    let hello = [("echo", json!({"message": "Hello"}))];
    let first = calls(&tools, &hello).await.unwrap().responses();
    let pid = || std::fs::read_to_string(pids.path().join("pids")).unwrap().trim().lines().last().unwrap().to_owned();
    let killed = pid();
    assert!(std::process::Command::new("kill").args(["-9", &killed]).status().unwrap().success());
    assert_eq!(calls(&tools, &hello).await.unwrap().responses(), first);
    assert_ne!(pid(), killed);
    tools.close().await;
    assert!(!is_alive(&pid()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_an_address_may_be_restarted_between_calls() {
    let server = HttpServer::start().await;
    let tools = McpToolset::new(StreamableHttpConnectionParams::new(&server.url)).unwrap();
    let hello = [("echo", json!({"message": "Hello"}))];
    let first = calls(&tools, &hello).await.unwrap().responses();
    let server = server.restart().await;
    assert_eq!(calls(&tools, &hello).await.unwrap().responses(), first);
    tools.close().await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_long_is_an_error_for_the_model() {
    let limits = McpLimits { answer_bytes: 100, ..McpLimits::default() };
    let tools = McpToolset::builder(over_stdio()).limits(limits).build().unwrap();
    let asked = [("get-tiny-image", json!({})), ("echo", json!({"message": "Hi"}))];
    let responses = calls(&tools, &asked).await.unwrap().responses();
    let error = responses[0]["error"].as_str().unwrap();
    assert!(error.contains("but at most 100 are passed on"), "{error}");
    assert_eq!(responses[1]["isError"], false);
    let limits = McpLimits { tool_bytes: 100, ..McpLimits::default() };
    let tools = McpToolset::builder(over_stdio()).limits(limits).build().unwrap();
    let error = calls(&tools, &asked).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_does_not_hold_up_the_next() {
    let tools = McpToolset::new(over_stdio()).unwrap();
    let slow = [("trigger-long-running-operation", json!({"duration": 60, "steps": 2}))];
    let given_up = tokio::time::timeout(Duration::from_secs(5), calls(&tools, &slow)).await;
    assert!(given_up.is_err());
    let begun = Instant::now();
    calls(&tools, &[("echo", json!({"message": "Hello"}))]).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
    tools.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_over_http_takes_no_longer_than_its_time() {
    let server = HttpServer::start().await;
    let params = StreamableHttpConnectionParams::new(&server.url).with_read_timeout(Duration::from_millis(300));
    let tools = McpToolset::new(params).unwrap();
    let asked = [("trigger-long-running-operation", json!({"duration": 30, "steps": 2}))];
    let begun = Instant::now();
    let responses = calls(&tools, &asked).await.unwrap().responses();
    let error = responses[0]["error"].as_str().unwrap();
    assert!(error.contains("takes longer than 300ms to answer"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_needs_consent_is_made_when_the_user_agrees() {
    let tools = McpToolset::builder(over_stdio()).require_confirmation().build().unwrap();
    let call = LlmResponse::call("echo", json!({"message": "Hello"}));
    let agent =
        LlmAgent::builder("caller").model(ScriptedLlm::new([call, "Done.".into()])).toolset(tools.clone()).build();
    let runner = Runner::builder("app", agent.unwrap(), InMemorySessionService::new()).auto_create_session();
    let runner = runner.build().unwrap();
    let events: Vec<_> = runner.run("alice", "s1", "Go.").try_collect().await.unwrap();
    let request = events
        .iter()
        .flat_map(Event::function_calls)
        .find(|call| call.name.as_deref() == Some("adk_request_confirmation"));
    let answer = json!({"functionResponse": {
        "id": request.unwrap().id, "name": "adk_request_confirmation", "response": {"confirmed": true},
    }});
    let answer = Content::new("user", vec![serde_json::from_value(answer).unwrap()]);
    let events: Vec<_> = runner.run("alice", "s1", RunRequest::message(answer)).try_collect().await.unwrap();
    let response = json!(events[0].function_responses().next().unwrap().response);
    assert_eq!(response, json!({"content": [{"type": "text", "text": "Echo: Hello"}], "isError": false}));
    tools.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_callbacks_write_beside_calls_is_kept_of_those_that_succeed_and_in_their_order() {
    let limits = McpLimits { answer_bytes: 1000, ..McpLimits::default() };
    let tools = McpToolset::builder(over_stdio()).limits(limits).build().unwrap();
    let asked = [
        ("echo", json!({"message": "Hello"})),
        ("get-tiny-image", json!({})), // its answer is too long
        ("get-sum", json!({"a": 1, "b": 2})),
    ];
    let agent = LlmAgent::builder("caller")
        .model(ScriptedLlm::new([LlmResponse::calls(asked), "Done.".into()]))
        .toolset(tools.clone())
        .before_tool(|context, call| async move {
            if call.name == "echo" {
                tokio::time::sleep(Duration::from_millis(200)).await; // so that it is the last one to write
            }
            context.state().set("last", &call.name)?;
            context.state().set("temp:last", &call.name)?;
            context.state().set(format!("user:called_{}", call.name), true)?;
            Ok(ControlFlow::Continue(call))
        })
        .build()
        .unwrap();
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder("app", agent, Arc::clone(&sessions)).auto_create_session().build().unwrap();
    let events: Vec<_> = runner.run("alice", "s1", "Go.").try_collect().await.unwrap();
    let kept = json!({"last": "get-sum", "user:called_echo": true, "user:called_get-sum": true});
    assert_eq!(json!(events[1].actions.state_delta), kept);
    assert!(!json!(events).to_string().contains("temp:"));
    let key = SessionKey::new("app", "alice", "s1").unwrap();
    let stored = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(json!(stored.state()), kept);
    tools.close().await;
}

fn is_alive(pid: &str) -> bool {
    std::process::Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_the_book_runs_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("school.db").display());
    let state = crate::composed::run(over_stdio(), &database).await.unwrap();
    assert_eq!(state, json!({"calls_of_adder": 1, "calls_of_math_get-sum": 1, "last_sum": "2 + 3 = 5"}));
    let (page, program) = (include_str!("../../../../docs/agents/mcp.md"), include_str!("../../examples/composed.rs"));
    let (_, program) = program.split_once("\n\n").unwrap();
    assert!(page.contains(program), "the page has another program");
    assert!(program.lines().count() <= 60, "the program is too long for the book");
}
