//! A Python client that a generator makes from the document can call every surface.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tokio::net::TcpListener;

use super::schemathesis::python;
use super::support::{Api, server};

/// What a program does with the client, on each surface.
const PROGRAM: &str = include_str!("generated.py");

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(python());
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}");
    output
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generated_client_speaks_to_every_surface() {
    let api = Api::memory().await;
    let document = api.ok("GET", "/openapi.json", None).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("openapi.json"), document.to_string()).unwrap();
    // By default the generator formats the files with a program of another package.
    std::fs::write(folder.path().join("config.yaml"), "post_hooks: []\n").unwrap();
    std::fs::write(folder.path().join("program.py"), PROGRAM).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(server(&api.store).run(listener, std::future::pending()));
    let path = folder.path().to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let options =
            ["--path", "openapi.json", "--output-path", "client", "--meta", "none", "--config", "config.yaml"];
        let made = run(&path, &[&["-m", "openapi_python_client", "generate"][..], &options].concat());
        let said = format!("{}{}", String::from_utf8_lossy(&made.stdout), String::from_utf8_lossy(&made.stderr));
        // The only thing that the generator does not support is data of any content type.
        let warnings: Vec<_> = said.lines().filter(|line| line.contains("WARNING")).collect();
        assert!(warnings.len() == 1 && said.contains("Unsupported content_type */*"), "{said}");
        assert!(!said.contains("Unable to process schema"), "{said}");
        run(&path, &["program.py", &url])
    });
    assert_eq!(String::from_utf8(done.await.unwrap().stdout).unwrap().trim(), "done");
    assert!(!serving.is_finished());
}
