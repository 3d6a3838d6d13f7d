//! The dev interface: its files, and its requests beyond ADK's API. Other tests drive it in a browser.

use std::time::Duration;

use scratchbook::model::ScriptedLlm;
use scratchbook::{LlmAgent, connect};
use scratchbook_server::Server;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::TestClient;

/// Creates a folder with the interface, and beside the folder a file that does not belong to the interface.
fn files() -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret.txt"), "not served").unwrap();
    let browser = folder.path().join("browser");
    std::fs::create_dir_all(browser.join("assets")).unwrap();
    std::fs::write(browser.join("index.html"), "<!doctype html><title>Dev UI</title>").unwrap();
    std::fs::write(browser.join("main.js"), "1").unwrap();
    (folder, browser)
}

async fn with_interface() -> (TempDir, TestClient) {
    let (folder, browser) = files();
    let helper = LlmAgent::builder("helper").model(ScriptedLlm::new(["Hello."])).build().unwrap();
    let agent = LlmAgent::builder("root").model(ScriptedLlm::new(["Hello."])).sub_agent(helper).build().unwrap();
    (folder, TestClient::with(|server| server.app("demo", agent).dev_ui(browser)).await)
}

#[tokio::test]
async fn the_interface_is_served_where_its_files_are_at_hand() {
    let (_folder, client) = with_interface().await;
    for path in ["/", "/dev-ui"] {
        let answer = client.send("GET", path, None).await;
        assert_eq!((answer.status, answer.header("location")), (307, Some("./dev-ui/")), "{path}");
    }
    let answer = client.send("GET", "/dev-ui/?app=demo", None).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html")));
    assert_eq!(answer.text(), "<!doctype html><title>Dev UI</title>");
    let script = client.send("GET", "/dev-ui/main.js", None).await;
    assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript")));
    let config = client.send("GET", "/dev-ui/assets/config/runtime-config.json", None).await;
    assert_eq!((config.status, config.header("cache-control")), (200, Some("no-store")));
    assert_eq!(config.json(), json!({"backendUrl": "", "telemetry": false}));
}

#[tokio::test]
async fn nothing_beside_the_interface_is_served() {
    let (_folder, client) = with_interface().await;
    for path in [
        "/dev-ui/nope.js",
        "/dev-ui/../secret.txt",
        "/dev-ui/%2e%2e/secret.txt",
        "/dev-ui/..%2fsecret.txt",
        "/dev-ui/assets/../../secret.txt",
        "/dev-ui//etc/passwd",
        "/dev-ui/assets",
    ] {
        let answer = client.send("GET", path, None).await;
        assert!(!answer.text().contains("not served") && answer.status != 200, "{path}: {}", answer.status);
    }
    let missing = client.send("GET", "/dev-ui/nope.js", None).await;
    assert_eq!((missing.status, missing.json()), (404, json!({"detail": "Not Found"})));
}

#[tokio::test]
async fn without_the_interface_none_of_its_routes_is_there() {
    let client = TestClient::memory().await;
    for path in ["/dev-ui", "/dev-ui/", "/config/telemetry", "/dev/apps/demo/build_graph", "/dev/apps/demo/tests"] {
        assert_eq!(client.get(path).await, (404, json!({"detail": "Not Found"})), "{path}");
    }
}

#[tokio::test]
async fn a_folder_without_the_interface_is_refused_with_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = connect("memory:").await.unwrap();
    let refused = Server::builder(store).dev_ui(folder.path()).build().unwrap_err().to_string();
    assert!(refused.contains("index.html") && refused.contains("import google.adk.cli"), "{refused}");
}

#[tokio::test]
async fn what_the_interface_asks_for_besides_has_an_answer() {
    let (_folder, client) = with_interface().await;
    let (status, graph) = client.get("/dev/apps/demo/build_graph").await;
    assert_eq!((status, &graph["name"]), (200, &json!("demo")));
    assert_eq!(graph["root_agent"]["name"], "root");
    assert_eq!(graph["root_agent"]["sub_agents"][0]["name"], "helper");
    let (_, picture) = client.get("/dev/apps/demo/build_graph_image?dark_mode=true").await;
    assert!(picture[""]["dotSrc"].as_str().unwrap().contains("\"root\" -> \"helper\""), "{picture}");
    assert!(client.get("/dev/apps/demo/graph").await.1["dotSrc"].is_string());
    for (path, body) in [
        ("eval_sets", json!([])),
        ("eval-sets", json!({"evalSetIds": []})),
        ("eval_results", json!([])),
        ("eval-results", json!({"evalResultIds": []})),
        ("tests", json!([])),
        ("debug/trace/session/s-1", json!([])),
    ] {
        assert_eq!(client.get(&format!("/dev/apps/demo/{path}")).await, (200, body), "{path}");
    }
    client.session("demo", "user", "s1").await;
    // Before the first event, the interface requests the graph of the event `none`.
    let graph = "/dev/apps/demo/users/user/sessions/s1/events/none/graph";
    assert_eq!(client.get(graph).await, (200, json!({})));
    // The graph of an event is the graph of the agents. No event is read for it, however long the session is.
    assert!(client.get(&graph.replace("none", "e-1")).await.1["dotSrc"].is_string());
    assert_eq!(client.get(&graph.replace("s1", "s2")).await.0, 404);
    for results in ["eval-results", "eval_results"] {
        let missing = json!({"detail": "Eval set result `x` not found."});
        assert_eq!(client.get(&format!("/dev/apps/demo/{results}/x")).await, (404, missing));
    }
    let builder = client.send("GET", "/dev/apps/demo/builder?ts=1", None).await;
    assert_eq!(
        (builder.status, builder.text(), builder.header("content-type")),
        (200, "", Some("text/plain; charset=utf-8"))
    );
    assert_eq!(client.get("/dev/apps/demo/debug/trace/e-1").await, (404, json!({"detail": "Trace not found"})));
    let (status, body) = client.get("/dev/apps/nope/build_graph").await;
    assert_eq!(status, 404);
    assert!(body["detail"].as_str().unwrap().starts_with("Agent not found: 'nope'."), "{body}");
}

#[tokio::test]
async fn what_cannot_be_made_here_is_refused_with_the_reason() {
    let (_folder, client) = with_interface().await;
    let set = json!({"eval_set": {"eval_set_id": "x", "eval_cases": []}});
    for (method, path, why) in [
        ("POST", "eval-sets", "`adk eval`"),
        ("POST", "eval_sets/x", "`adk eval`"),
        ("GET", "metrics-info", "`adk eval`"),
        ("PUT", "tests/x", "`adk test`"),
        ("POST", "tests/run", "`adk test`"),
        ("POST", "tests/rebuild", "`adk test`"),
        ("POST", "builder/save", "edits no agents"),
    ] {
        let body = (method == "POST").then_some(&set);
        let answer = client.send(method, &format!("/dev/apps/demo/{path}"), body).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(why), "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn the_version_says_which_adk_it_goes_with() {
    let client = TestClient::memory().await;
    let (_, version) = client.get("/version").await;
    assert!(version["version"].as_str().unwrap().starts_with("2.13.0-compatible (scratchbook "), "{version}");
}

#[tokio::test]
async fn a_request_to_remember_is_refused_with_the_reason() {
    let client = TestClient::memory().await;
    client.session("demo", "u1", "s1").await;
    let memory = "/apps/demo/users/u1/memory";
    let answer = client.send("PATCH", memory, Some(&json!({"sessionId": "s1"}))).await;
    assert_eq!(answer.status, 400);
    assert!(answer.json()["detail"].as_str().unwrap().starts_with("Memory service is not configured."));
    let answer = client.send("PATCH", memory, Some(&json!({"sessionId": "nope"}))).await;
    assert_eq!((answer.status, answer.json()), (404, json!({"detail": "Session not found"})));
}

#[tokio::test]
async fn a_live_call_is_ended_with_the_reason() {
    let client = TestClient::memory().await;
    // For requests that are no WebSocket handshake, the path does not exist.
    assert_eq!(client.get("/run_live?app_name=demo").await, (404, json!({"detail": "Not Found"})));
    let agent = LlmAgent::builder("root").model(ScriptedLlm::new(["Hello."])).build().unwrap();
    let server = Server::builder(connect("memory:").await.unwrap()).app("demo", agent).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.run(listener, std::future::pending()));
    let mut socket = TcpStream::connect(address).await.unwrap();
    let call = format!(
        "GET /run_live?app_name=demo&user_id=u&session_id=s HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(call.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let all = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut said));
    all.await.expect("the server ends the connection").unwrap();
    let text = String::from_utf8_lossy(&said);
    assert!(text.starts_with("HTTP/1.1 101 ") && text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{text}");
    // The close frame: its opcode, its length, the status 1011 and the reason.
    let frame = &said[said.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4..];
    assert_eq!(frame[..2], [0x88, (frame.len() - 2) as u8]);
    assert_eq!(frame[2..4], 1011u16.to_be_bytes());
    assert_eq!(&frame[4..], b"Live connection is not supported by this server.");
}

#[tokio::test]
async fn nothing_is_told_of_its_use() {
    let (_folder, client) = with_interface().await;
    assert_eq!(client.get("/config/telemetry").await, (200, json!({"telemetry": false})));
    let wish = client.send("POST", "/config/telemetry", Some(&json!({"telemetry": true}))).await;
    assert_eq!((wish.status, wish.json()), (400, json!({"detail": "Forbidden: missing required security header"})));
}
