//! Schemathesis, which generates requests from the document and checks that the answers match it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tokio::net::TcpListener;

use super::support::{Api, S1, server};

/// The variable with the number of generated requests for each operation, with existing and with made-up names. By
/// default there are 5 requests, only with existing names. Requests with edge values of each parameter are sent in
/// addition.
const CASES: &str = "SCRATCHBOOK_SCHEMATHESIS_CASES";

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_answer_that_is_not_in_the_document() {
    let api = Api::memory().await;
    for (user, id) in [("alice", "s1"), ("alice", "s2"), ("bob", "s1")] {
        let event = json!({"id": "e1", "invocationId": "i1", "author": "agent",
            "actions": {"stateDelta": {"cart": {"milk": 2}, "user:language": "en", "app:open": true}}});
        let body = json!({"id": id, "state": {"cart": {}}, "events": [event], "title": "Groceries",
            "labels": {"team": "food"}});
        api.ok("POST", &format!("/v1/apps/shop/users/{user}/sessions"), Some(body)).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/openapi.json", listener.local_addr().unwrap());
    let serving = tokio::spawn(server(&api.store).run(listener, std::future::pending()));
    let in_full = std::env::var(CASES).ok();
    let phases = if in_full.is_some() { "examples,coverage,fuzzing" } else { "examples,fuzzing" };
    run(schemathesis(&url, in_full.as_deref().unwrap_or("5"), phases, RequestNames::There)).await;
    // The session existed during the whole run.
    assert_eq!(api.ok("GET", S1, None).await["id"], "s1");
    if let Some(cases) = in_full {
        run(schemathesis(&url, &cases, "fuzzing", RequestNames::MadeUp)).await;
    }
    assert!(!serving.is_finished());
}

async fn run(mut command: Command) {
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}

/// Which names the requests use.
#[derive(Clone, Copy, PartialEq)]
enum RequestNames {
    There,
    MadeUp,
}

fn schemathesis(url: &str, cases: &str, phases: &str, names: RequestNames) -> Command {
    let mut command = Command::new(python());
    command.args(["-m", "schemathesis.cli"]);
    if names == RequestNames::There {
        command.arg("--config-file").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis.toml"));
    }
    // A watch has no end, and a run whose model has no more answers is a failure of the agent.
    command.args([
        "run",
        url,
        "--exclude-operation-id-regex",
        "^(watch|adkRun$)",
        "--checks",
        CHECKS,
        "--phases",
        phases,
    ]);
    command.args(["--max-examples", cases, "--generation-deterministic", "--continue-on-failure", "--no-color"]);
    command.args(["--request-timeout", "10", "--suppress-health-check", "all", "--warnings", "off"]);
    // Schemathesis writes files into its working directory.
    command.current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    command
}

/// Returns the Python that `SCRATCHBOOK_TEST_PYTHON` names, or the one in the target folder.
pub(super) fn python() -> PathBuf {
    if let Some(path) = std::env::var_os("SCRATCHBOOK_TEST_PYTHON").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python");
    folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}
