//! Imports databases that ADK for TypeScript has just written, and compares them with what ADK reports.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::google_adk::postgres::database;
use crate::{fails, scratchbook, text, uri};

/// The name under which the first major version of `@google/adk` is installed.
const FIRST: &str = "adk-1";
/// The name under which the second major version of `@google/adk` is installed.
const SECOND: &str = "@google/adk";

/// Runs `tests/adk_js/fill.mjs` with a version of ADK that the step `node` of `cargo xtask gate` has installed.
fn fill(version: &str, kind: &str, place: &str) -> Vec<Value> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = own.join("../../target/node");
    assert!(installed.join("node_modules").exists(), "run `cargo xtask gate --step node` before");
    // Modules are resolved relative to the script.
    let script = tempfile::tempdir_in(installed).unwrap();
    let path = script.path().join("fill.mjs");
    let text = std::fs::read_to_string(own.join("tests/adk_js/fill.mjs")).unwrap();
    std::fs::write(&path, text.replace("from '@google/adk'", &format!("from '{version}'"))).unwrap();
    let output = Command::new("node").arg(path).args([kind, place]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // ADK's logs are on the same output.
    let said = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(said.trim_end().lines().last().unwrap()).unwrap()
}

/// Imports the database and compares it.
fn check(version: &str, kind: &str, place: &str, source: &str) {
    let folder = tempfile::tempdir().unwrap();
    let ours = uri(&folder.path().join("ours.db"));
    let run = |args: &[&str]| {
        let mut command = scratchbook();
        command.env("SCRATCHBOOK_DATABASE", &ours).arg("--json").args(args);
        serde_json::from_str::<Value>(&text(command)).unwrap()
    };
    let reported = fill(version, kind, place);
    let done = run(&["import", "--from", "adk-database", source]);
    assert_eq!((&done["sessions"]["created"], &done["events"], &done["refused"]), (&json!(3), &json!(34), &json!([])));
    for session in &reported {
        let [user, id] = ["userId", "id"].map(|name| session[name].as_str().unwrap());
        let shown = run(&["sessions", "show", "--events", "100", "-a", "shop", "-u", user, "-s", id]);
        assert_eq!(shown["state"], session["state"], "{id}");
        let [found, expected] = [&shown["events"], &session["events"]].map(|events| events.as_array().unwrap());
        assert_eq!(found.len(), expected.len(), "{id}");
        for event in found {
            let of = expected.iter().find(|of| of["id"] == event["id"]).unwrap();
            for (name, value) in of.as_object().unwrap() {
                let mut found = event[name].clone();
                if name == "timestamp" {
                    found = json!((found.as_f64().unwrap() * 1000.0).round() as u64);
                } else if let (Value::Object(found), true) = (&mut found, name == "actions") {
                    // The import adds the form of a summary that other agents read.
                    found.shift_remove("compaction");
                }
                assert_eq!(found, *value, "{name} of {}", event["id"]);
            }
        }
    }
    let first = run(&["sessions", "show", "--events", "100", "-a", "shop", "-u", "alice", "-s", "first"]);
    let compaction = json!({"startTimestamp": 1_795_194_000.007, "endTimestamp": 1_795_194_000.021,
        "compactedContent": {"role": "model", "parts": [{"text": "Tea was ordered."}]}});
    assert_eq!(first["events"][3]["actions"]["compaction"], compaction);
    // ADK takes these times from the clock.
    let many = run(&["sessions", "show", "--events", "100", "-a", "shop", "-u", "bob", "-s", "many"]);
    let times: Vec<_> = many["events"].as_array().unwrap().iter().map(|e| e["timestamp"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] != times[29], "{times:?}");
    assert_eq!(many["events"][29]["actions"]["stateDelta"]["n"], 30);
    assert_eq!(many["state"]["user:n"], 30);
    assert_eq!(run(&["import", "--from", "adk-database", source])["sessions"]["unchanged"], 3);
}

#[test]
fn a_file_of_typescript_is_imported_as_it_reports_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.db").display().to_string();
    check(SECOND, "libsql", &path, &path);
    let of_first = folder.path().join("first.db").display().to_string();
    check(FIRST, "libsql", &of_first, &of_first);
    // The file has the layout of google-adk's DatabaseSessionService.
    assert!(
        fails(6, {
            let mut command = scratchbook();
            let ours = uri(&folder.path().join("ours.db"));
            command.env("SCRATCHBOOK_DATABASE", ours).args(["import", "--from", "adk-sqlite", &path]);
            command
        })
        .contains("--from adk-database")
    );
}

mod postgres {
    use super::*;

    #[test]
    fn a_database_of_typescript_is_imported_as_it_reports_itself() {
        let (_, source) = database("adk_js_import");
        check(SECOND, "url", &source, &source);
    }
}
