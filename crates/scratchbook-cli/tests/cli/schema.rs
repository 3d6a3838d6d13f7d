//! Writes and stored state are checked against a schema.

use serde_json::{Value, json};

use crate::{Fixture, S1, output};

const SCHEMA: &str = r#"{
    "version": 3,
    "user": {"required": ["theme"]},
    "keys": {"step": {"type": "integer", "maximum": 5}, "user:theme": {"type": "string"}, "app:open": {"type": "boolean"}}
}"#;

fn with_schema(events: u32) -> (Fixture, String) {
    let fixture = Fixture::with_session(events);
    let file = fixture.path("schema.json");
    std::fs::write(&file, SCHEMA).unwrap();
    (fixture, file.to_str().unwrap().to_owned())
}

#[test]
fn what_breaks_the_schema_is_not_written() {
    let (fixture, file) = with_schema(1);
    let checked = |rest: &[&'static str]| -> Vec<String> {
        ["--schema", &file].into_iter().chain(rest.iter().copied()).map(str::to_owned).collect()
    };
    let run = |args: &[String]| output(fixture.command(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    for (code, args) in [
        (0, vec!["state", "set", "-a", "shop", "-u", "alice", "-s", "s1", "step=5"]),
        (2, vec!["state", "set", "-a", "shop", "-u", "alice", "-s", "s1", "step=6"]),
        (2, vec!["state", "increment", "-a", "shop", "-u", "alice", "-s", "s1", "step"]),
        (2, vec!["state", "set", "-a", "shop", "open=yes"]),
        (2, vec!["sessions", "create", "-a", "shop", "-u", "bob", "step=six"]),
        (0, vec!["state", "get", "-a", "shop"]),
        (2, vec!["verify"]),
    ] {
        let done = run(&checked(&args));
        assert_eq!(done.status.code(), Some(code), "{args:?}: {done:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(code == 0 || said.contains("schema"), "{said}");
    }
    assert_eq!(fixture.json(&[&["state", "get"], &S1[..], &["step"]].concat()), json!({"step": 5}));
}

#[test]
fn a_schema_is_checked_and_the_keys_that_break_it_are_named() {
    let (fixture, file) = with_schema(6);
    assert!(fixture.text(&["schema", "check", &file]).contains("version 3 of a schema"));
    fixture.text(&["state", "set", "-a", "shop", "-u", "bob", "other=1"]);
    fixture.text(&["state", "set", "-a", "shop", "open=1"]);
    let done = output(fixture.command(&["--json", "schema", "check", &file, "-a", "shop"]));
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let broken: Vec<_> = report["broken"].as_array().unwrap().iter().map(|broken| &broken["of"]).collect();
    assert_eq!(broken, ["the app shop", "shop/alice/s1", "the user shop/bob"], "{report:#}");
    let said = report["broken"][2]["message"].as_str().unwrap();
    assert!(said.contains("required") && said.contains("version 3"), "{said}");
    fixture.fails(1, &["schema", "check", &file, "-a", "shop", "-u", "alice"]);
    fixture.fails(3, &["schema", "check", &file, "-a", "elsewhere"]);

    for (code, text, hint) in [
        (2, "{}", "'version'"),
        (2, r#"{"version": 1, "keys": {"n": {"type": "whole"}}}"#, "'n'"),
        (2, "version: 1", "malformed"),
    ] {
        std::fs::write(fixture.path("bad.json"), text).unwrap();
        let said = fixture.fails(code, &["schema", "check", fixture.path("bad.json").to_str().unwrap()]);
        assert!(said.contains(hint) && said.contains("bad.json"), "{said}");
    }
    fixture.fails(3, &["schema", "check", fixture.path("missing.json").to_str().unwrap()]);
}
