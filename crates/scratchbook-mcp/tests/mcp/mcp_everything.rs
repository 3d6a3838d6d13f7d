//! A real server, `@modelcontextprotocol/server-everything`, as a process and over HTTP.

use std::process::Stdio;
use std::time::{Duration, Instant};

use scratchbook::ErrorKind;
use scratchbook::mcp::{McpLimits, McpToolset, StdioConnectionParams, StreamableHttpConnectionParams};
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
}
