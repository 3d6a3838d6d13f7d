//! The command on sessions behind Vertex AI's API, which `scratchbook serve` provides.

use std::process::Command;

use serde_json::{Value, json};

use crate::serve::Served;
use crate::{Fixture, S1, fails, scratchbook, text};

const PLACE: &str = "projects/p/locations/l/reasoningEngines/shop";

fn command(uri: &str, args: &[&str]) -> Command {
    let mut command = scratchbook();
    command.args(["--json", "--database", uri]).args(args);
    command
}

#[test]
fn sessions_are_made_shown_changed_and_deleted() {
    let server = Served::new(&Fixture::empty(), &["--database", "memory:"]);
    let endpoint = format!("http://{}:{}", server.greeting["host"].as_str().unwrap(), server.greeting["port"]);
    let uri = format!("vertexai://{PLACE}?endpoint={endpoint}");
    let json = |args: &[&str]| -> Value { serde_json::from_str(&text(command(&uri, args))).unwrap() };
    json(&[&["sessions", "create"], &S1[..], &["step=0", "user:theme=dark"]].concat());
    for step in ["step=1", "step=2"] {
        json(&[&["state", "set"], &S1[..], &[step]].concat());
    }
    let shown = json(&[&["sessions", "show"], &S1[..], &["--events", "1"]].concat());
    assert_eq!(shown["state"], json!({"step": 2, "user:theme": "dark"}));
    assert_eq!(shown["events"].as_array().unwrap().len(), 1);
    // The number of events is unknown.
    assert_eq!((&shown["eventCount"], &shown["onlyLastEvents"]), (&json!(null), &json!(null)));
    let listed = json(&["sessions", "list", "-a", "shop"]);
    assert_eq!(listed["sessions"][0]["id"], "s1");
    // The server stores the session as its own.
    let (status, own) = server.get("/apps/shop/users/alice/sessions/s1");
    assert_eq!(status, 200, "{own}");
    text(command(&uri, &[&["sessions", "delete", "--yes"], &S1[..]].concat()));
    assert_eq!(server.get("/apps/shop/users/alice/sessions/s1").0, 404);
}

#[test]
fn without_credentials_it_is_said_at_once_how_to_get_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&format!("vertexai://{PLACE}?request_timeout_ms=5000"), &["sessions", "list", "-a", "x"]);
    command.env("HOME", folder.path()).env_remove("GOOGLE_APPLICATION_CREDENTIALS").env_remove("CLOUDSDK_CONFIG");
    // No server answers there.
    command.env("GCE_METADATA_HOST", "127.0.0.1:9");
    let said = fails(8, command);
    assert!(said.contains("gcloud auth application-default login"), "{said}");
}
