//! Google's own clients, which are in the same Python as google-adk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scratchbook::connect;
use scratchbook_server::Server;
use tokio::net::TcpListener;

/// Runs a script of `tests/vertex` against a server over a file.
async fn run(script: &str) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let store = connect(&format!("sqlite://{}", folder.path().join("agents.db").display())).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder(store).build().unwrap();
    let serving = tokio::spawn(server.run(listener, std::future::pending()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vertex").join(script);
    let mut command = Command::new(python());
    command.arg(script).arg(url).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!serving.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_service_and_the_runner_of_google_adk_run_over_the_endpoint() {
    run("adk.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_beside_google_adk_are_served_on_both_versions_and_by_a_key() {
    run("sdk.py").await;
}

/// The Python that `SCRATCHBOOK_TEST_PYTHON` names, or the one in the target folder.
fn python() -> PathBuf {
    if let Some(path) = std::env::var_os("SCRATCHBOOK_TEST_PYTHON").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python");
    folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}
