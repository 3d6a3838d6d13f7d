//! Google's own clients, which are installed in the same Python as google-adk.

use std::collections::BTreeSet;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scratchbook::session::ListSessionsConfig;
use scratchbook::{AppendOptions, CreateSessionConfig, Event, GetSessionConfig, Session, SessionKey, connect};
use scratchbook_server::Server;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Runs a script of `tests/vertex` against a server over a file.
async fn run(script: &str) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let store = connect(&format!("sqlite://{}", folder.path().join("agents.db").display())).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder(store).build().unwrap();
    let serving = tokio::spawn(server.run(listener, std::future::pending()));
    call(script, &url, &json!(null)).await;
    assert!(!serving.is_finished());
}

/// Runs a script of `tests/vertex` with a server's address, and with something on its input.
async fn call(script: &str, url: &str, input: &Value) {
    let mut file = tempfile::tempfile().unwrap();
    serde_json::to_writer(&mut file, input).unwrap();
    file.rewind().unwrap();
    let mut command = Command::new(python());
    command.arg(folder().join(script)).arg(url).stdin(Stdio::from(file));
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vertex")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_service_and_the_runner_of_google_adk_run_over_the_endpoint() {
    run("adk.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_beside_google_adk_are_served_on_both_versions_and_by_a_key() {
    run("sdk.py").await;
}

/// Returns events of all kinds, in ADK's form.
fn events() -> Value {
    json!([
        {"author": "user", "id": "e1", "invocationId": "i1", "timestamp": 1_795_194_001.25,
            "content": {"role": "user", "parts": [{"text": "tea, please \u{1f375}"}]}, "customMetadata": {"from": {"z": 1, "a": [null, 1.5]}},
            "actions": {"stateDelta": {"asked": "tea", "user:visits": 3, "app:open": true, "temp:t": 1}}},
        {"author": "shop", "id": "e2", "invocationId": "i1", "timestamp": 1_795_194_002.5, "branch": "shop.till",
            "content": {"role": "model", "parts": [{"text": "Let me see.", "thought": true, "thoughtSignature": "AAEC_w=="},
                {"functionCall": {"id": "c1", "name": "order", "args": {"item": "tea", "n": 2, "note": null}}}]},
            "longRunningToolIds": ["c1"], "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 9}, "modelVersion": "m"},
        {"author": "shop", "id": "e3", "invocationId": "i1", "timestamp": 1_795_194_003.125, "branch": "shop.till",
            "content": {"role": "user", "parts": [
                {"functionResponse": {"id": "c1", "name": "order", "response": {"ok": true, "left": {"tea": 4}}}}]},
            "actions": {"stateDelta": {"cart": [{"item": "tea", "n": 2}], "none": null, "app:orders": 1},
                "artifactDelta": {"bill.txt": 2}, "transferToAgent": "till", "escalate": true, "skipSummarization": true,
                "requestedToolConfirmations": {"c1": {"hint": "Sure?", "confirmed": false, "payload": {"days": 1}}}}},
        {"author": "till", "id": "e4", "invocationId": "i1", "timestamp": 1_795_194_004.75,
            "content": {"role": "model", "parts": [{"inlineData": {"data": "AAEC_w==", "mimeType": "a/b"}}, {"text": "Done."}]},
            "turnComplete": true, "interrupted": false, "finishReason": "STOP", "errorCode": "E", "errorMessage": "not quite",
            "customMetadata": {"k": "v"}, "groundingMetadata": {"webSearchQueries": ["tea"]}},
    ])
}

/// Returns the same events without the key that no store keeps.
fn kept() -> Vec<Event> {
    let mut events = events();
    events[0]["actions"]["stateDelta"].as_object_mut().unwrap().remove("temp:t");
    events.as_array().unwrap().iter().map(|event| Event::from_json(&event.to_string()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_google_adk_writes_our_client_reads_and_the_other_way_round() {
    let url = super::client::serve().await;
    let uri = format!("vertexai://projects/p1/locations/l1/reasoningEngines/shop?endpoint={url}");
    let sessions = connect(&uri).await.unwrap().sessions;
    let begin = json!({"cart": [], "kept": {"a": [1.5, "x"]}, "user:theme": "light", "app:x": 7, "temp:y": 1});
    let state = json!({"asked": "tea", "cart": [{"item": "tea", "n": 2}], "kept": {"a": [1.5, "x"]}, "none": null,
        "user:theme": "light", "user:visits": 3, "app:x": 7, "app:open": true, "app:orders": 1});
    let (sent, events) = (events(), kept());
    let config = CreateSessionConfig::default().with_session_id("by-rust").with_state(begin.clone());
    let session = sessions.create_session("shop", "alice", config).await.unwrap();
    for event in sent.as_array().unwrap() {
        let event = Event::from_json(&event.to_string()).unwrap();
        sessions.append(session.key(), event, AppendOptions::default()).await.unwrap();
    }
    call("pair.py", &url, &json!({"begin": begin, "state": state, "events": events})).await;

    for id in ["by-rust", "by-python"] {
        let key = SessionKey::new("shop", "alice", id).unwrap();
        let read = sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
        assert_eq!(json!(read.state()), state, "{id}");
        assert_eq!(json!(read.events()), json!(events), "{id}");
        assert_eq!(read.last_update_time(), events[3].timestamp.unwrap());
        if id == "by-python" {
            assert_eq!(read.title(), Some("From Python"));
            assert_eq!(read.labels().get("env").map(String::as_str), Some("test"));
        }
    }
    let listed = sessions.list_sessions("shop", &ListSessionsConfig::default().with_user_id("alice")).await.unwrap();
    let listed: BTreeSet<_> = listed.sessions.iter().map(Session::id).collect();
    assert_eq!(listed, BTreeSet::from(["by-rust", "by-python"]), "both were updated at one time");
}

/// The document contains the file, because users who have only the server do not have this folder.
#[test]
fn the_document_has_services_py_as_it_is_tested() {
    let services = std::fs::read_to_string(folder().join("services.py")).unwrap();
    let document = std::fs::read_to_string(folder().join("../../../../docs/vertex.md")).unwrap();
    assert!(document.contains(&format!("\n```python\n{services}```\n")), "docs/vertex.md has another services.py");
}

/// Returns the Python that `SCRATCHBOOK_TEST_PYTHON` names, or the one in the target folder.
fn python() -> PathBuf {
    if let Some(path) = std::env::var_os("SCRATCHBOOK_TEST_PYTHON").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python");
    folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}
