//! Tests servers that misbehave: the limits on what they send, and the errors about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use scratchbook::mcp::{McpLimits, McpToolset, StdioConnectionParams, StreamableHttpConnectionParams};
use scratchbook::{Error, ErrorKind};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::run::calls;

/// Starts a server that answers each request with the function's result. The function receives each request with its
/// `headers`, by names in lower case. A result with a `body` is sent as it is, with its `status` and `type`.
pub(crate) async fn serve(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> String {
    let answer = Arc::new(answer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp?key=secret-in-the-address", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(handle(stream, Arc::clone(&answer)));
        }
    });
    url
}

/// Answers the requests of a connection. Each request has one JSON body.
async fn handle(stream: TcpStream, answer: Arc<impl Fn(&Value) -> Value>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut headers = Map::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.to_lowercase(), value.trim().into());
            }
            if line == "\r\n" {
                break;
            }
        }
        let length = headers.get("content-length").and_then(Value::as_str).map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let mut request: Value = serde_json::from_slice(&body).unwrap_or_else(|_| json!({}));
        request["headers"] = headers.into();
        let mut answer = match request.get("id") {
            None => json!({"status": "202 Accepted", "body": ""}),
            Some(_) => answer(&request),
        };
        if answer.get("body").is_none() {
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = request["id"].clone();
            answer = json!({"body": answer.to_string()});
        }
        let text = |name: &str, default: &str| answer[name].as_str().unwrap_or(default).to_owned();
        let (status, media, body) = (text("status", "200 OK"), text("type", "application/json"), text("body", ""));
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
    }
}

/// Returns the answer to the greeting, and the answers of another function to later requests.
pub(crate) fn after_greeting(request: &Value, then: impl Fn(&str) -> Value) -> Value {
    match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }}),
        method => then(method),
    }
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

pub(crate) async fn failure(url: &str) -> Error {
    let params = StreamableHttpConnectionParams::new(url)
        .with_header("Authorization", "Bearer secret-in-a-header")
        .with_timeout(Duration::from_secs(30));
    let tools = McpToolset::builder(params).limits(McpLimits { tools: 10, ..McpLimits::default() }).build().unwrap();
    let error = calls(&tools, &[]).await.err().unwrap();
    let said = format!("{error} {error:?} {tools:?}");
    assert!(!said.contains("secret-in"), "{said}");
    error
}

#[tokio::test]
async fn a_message_of_many_megabytes_is_refused() {
    let url = serve(|request| after_greeting(request, |_| json!({"result": {"tools": [tool(&"x".repeat(20 << 20))]}})));
    failure(&url.await).await;
}

#[tokio::test]
async fn an_error_repeats_no_secret_and_is_cut() {
    let url = serve(|request| {
        after_greeting(request, |_| {
            let message = format!("not with secret-in-a-header or secret-in-the-address {}", "x".repeat(100_000));
            json!({"error": {"code": -32000, "message": message}})
        })
    });
    let error = failure(&url.await).await;
    assert!(error.to_string().len() < 2000, "{error}");
    assert!(error.to_string().contains("not with [secret] or [secret]"), "{error}");
}

#[tokio::test]
async fn fixed_headers_are_sent_with_every_request() {
    let url = serve(|request| match request["headers"]["x-key"].as_str() {
        Some("my-key") => after_greeting(request, |method| match method {
            "tools/list" => json!({"result": {"tools": [tool("open")]}}),
            _ => json!({"result": {"content": [{"type": "text", "text": "opened"}]}}),
        }),
        key => json!({"error": {"code": -32000, "message": format!("the key is {key:?}")}}),
    });
    let params = StreamableHttpConnectionParams::new(url.await).with_header("X-Key", "my-key");
    let run = calls(&McpToolset::new(params).unwrap(), &[("open", json!({}))]).await.unwrap();
    assert_eq!(run.responses(), [json!({"content": [{"type": "text", "text": "opened"}], "isError": false})]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let params = StreamableHttpConnectionParams::new(format!("http://{}/mcp", silent.local_addr().unwrap()))
        .with_timeout(Duration::from_millis(100));
    let begun = Instant::now();
    let error = calls(&McpToolset::new(params).unwrap(), &[]).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("takes longer than 100ms to connect"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// How often the next test's server was asked for its tools.
static LISTED: AtomicUsize = AtomicUsize::new(0);

#[tokio::test]
async fn a_list_of_tools_is_used_again_for_its_time_and_not_after_the_toolset_was_closed() {
    let url = serve(|request| {
        after_greeting(request, |_| {
            let name = format!("tool{}", LISTED.fetch_add(1, Ordering::Relaxed));
            json!({"result": {"tools": [tool(&name)]}})
        })
    })
    .await;
    let shown = async |tools: &McpToolset| calls(tools, &[]).await.unwrap().requests[0].tools[0].name.clone();
    let each_turn = McpToolset::new(StreamableHttpConnectionParams::new(&url)).unwrap();
    assert_eq!([shown(&each_turn).await, shown(&each_turn).await], ["tool0", "tool1"]);
    let builder = McpToolset::builder(StreamableHttpConnectionParams::new(&url));
    let kept = builder.clone().tool_list_cache_ttl(Duration::from_secs(600)).build().unwrap();
    assert_eq!([shown(&kept).await, shown(&kept).await], ["tool2", "tool2"]);
    kept.close().await;
    assert_eq!(shown(&kept).await, "tool3");
    let short = builder.tool_list_cache_ttl(Duration::from_millis(1)).build().unwrap();
    assert_eq!(shown(&short).await, "tool4");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(shown(&short).await, "tool5");
}

#[tokio::test]
async fn names_that_agents_use_themselves_are_left_out() {
    let url = serve(|request| {
        after_greeting(request, |_| json!({"result": {"tools": [tool("transfer_to_agent"), tool("honest")]}}))
    });
    let tools = McpToolset::new(StreamableHttpConnectionParams::new(url.await)).unwrap();
    let run = calls(&tools, &[]).await.unwrap();
    assert_eq!(run.requests[0].tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["honest"]);
}

#[tokio::test]
async fn two_tools_of_one_name_are_refused() {
    let url = serve(|request| after_greeting(request, |_| json!({"result": {"tools": [tool("a"), tool("a")]}})));
    let error = failure(&url.await).await;
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("two tools of agent 'caller' are called 'a'"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_line_without_end_ends_the_server() {
    let limits = McpLimits { message_bytes: 1 << 20, ..McpLimits::default() };
    let params = StdioConnectionParams::new("cat", ["/dev/zero"]).with_timeout(Duration::from_secs(60));
    let tools = McpToolset::builder(params).limits(limits).build().unwrap();
    let begun = Instant::now();
    let error = calls(&tools, &[]).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[cfg(unix)]
#[tokio::test]
async fn a_silent_server_is_ended_with_the_processes_that_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("sleep 600 & echo $! > {}/pid; sleep 600", folder.path().display());
    let params = StdioConnectionParams::new("sh", ["-c", &script]).with_timeout(Duration::from_millis(1500));
    let tools = McpToolset::new(params).unwrap();
    let error = calls(&tools, &[]).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("takes longer than 1.5s to connect"), "{error}");
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let begun = Instant::now();
    while is_running(pid.trim()) {
        assert!(begun.elapsed() < Duration::from_secs(10), "a process is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named_without_its_arguments() {
    let params = StdioConnectionParams::new("/no/such/program", ["--key=secret-in-an-argument"]);
    let tools = McpToolset::new(params).unwrap();
    let error = calls(&tools, &[]).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert!(error.to_string().contains("the MCP server '/no/such/program' cannot be started"), "{error}");
    assert!(!format!("{error:?} {tools:?}").contains("secret-in"));
}

#[test]
fn what_is_no_address_or_header_is_refused() {
    for url in ["", "mcp.example", "ftp://mcp.example/"] {
        let error = McpToolset::new(StreamableHttpConnectionParams::new(url)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}");
    }
    let params = StreamableHttpConnectionParams::new("http://mcp.example").with_header("a key", "secret-value");
    let error = McpToolset::new(params).err().unwrap();
    assert!(error.to_string().contains("'a key' is no HTTP header"), "{error}");
    assert!(!error.to_string().contains("secret-value"));
    let error = McpToolset::new(StdioConnectionParams::new("", [""; 0])).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// Returns whether a process runs. A process that has ended but was not waited for does not run.
#[cfg(unix)]
fn is_running(pid: &str) -> bool {
    let status = std::process::Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).trim().to_owned();
    !status.is_empty() && !status.starts_with('Z')
}
