//! ADK for TypeScript, in the versions that the step `node` of `cargo xtask gate` installs from npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use scratchbook::{Event, GetSessionConfig, SessionKey, Store, connect};
use scratchbook_server::Server;
use serde_json::json;
use tokio::net::TcpListener;

/// The names under which the first and the second major version of `@google/adk` are installed.
const VERSIONS: [&str; 2] = ["adk-1", "@google/adk"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vertex")
}

/// Runs a script of `tests/vertex` with a version of ADK against a server.
async fn run(script: &str, version: &str) -> Store {
    let store = connect("memory:").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder(store.clone()).build().unwrap();
    let serving = tokio::spawn(server.run(listener, std::future::pending()));

    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/node");
    assert!(installed.join("node_modules").exists(), "run `cargo xtask gate --step node` before");
    // Node.js looks for modules from the folder of the script.
    let place = tempfile::tempdir_in(installed).unwrap();
    for name in [script, "sessions.mjs"] {
        let text = std::fs::read_to_string(folder().join(name)).unwrap();
        let text = text.replace("from '@google/adk'", &format!("from '{version}'"));
        std::fs::write(place.path().join(name), text).unwrap();
    }
    let mut command = Command::new("node");
    command.arg(place.path().join(script)).arg(url);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{version}: {said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!serving.is_finished());
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_service_and_the_runner_of_typescript_run_over_the_endpoint() {
    for version in VERSIONS {
        let store = run("adk_js.mjs", version).await;
        let key = SessionKey::new("shop", "alice", "events").unwrap();
        let session = store.sessions.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
        let events: Vec<_> = session.events().iter().collect();
        let [asked, called, node, summary, failed] = events[..] else { panic!("{events:?}") };
        // The other clients read what it wrote.
        let wanted = json!({"c1": {"hint": "Sure?", "confirmed": false, "payload": {"days": 1}}});
        assert_eq!(json!(called.actions.requested_tool_confirmations), wanted);
        assert_eq!(called.actions.transfer_to_agent.as_deref(), Some("till"));
        assert_eq!(json!(called.usage_metadata), json!({"promptTokenCount": 7, "totalTokenCount": 9}));
        assert_eq!(json!(node.actions.agent_state), json!({"at": "node"}));
        assert_eq!((node.actions.end_of_agent, json!(node.output)), (Some(true), json!({"tea": 2})));
        // The times of a summary are those of the events that it summarizes.
        let times = |event: &Event| event.timestamp.unwrap();
        let compaction = summary.actions.compaction.as_deref().unwrap();
        let ends = [compaction.start_timestamp, compaction.end_timestamp];
        assert_eq!(ends, [times(asked), times(node)]);
        assert_eq!(compaction.compacted_content.parts()[0].text.as_deref(), Some("Tea was ordered."));
        assert_eq!((failed.turn_complete, failed.timestamp), (Some(true), Some(1_795_194_000.005)));
    }
}

/// The document contains the script, because users who have only the server do not have this folder.
#[test]
fn the_document_has_sessions_mjs_as_it_is_tested() {
    let sessions = std::fs::read_to_string(folder().join("sessions.mjs")).unwrap();
    let document = std::fs::read_to_string(folder().join("../../../../docs/vertex.md")).unwrap();
    assert!(document.contains(&format!("\n```js\n{sessions}```\n")), "docs/vertex.md has another sessions.mjs");
}
