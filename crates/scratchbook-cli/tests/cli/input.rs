//! Invalid input is refused with a hint. With --json, errors are JSON.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{Fixture, fails, scratchbook, text, uri};

const APP: &str = "ecommerce_app";

#[test]
fn sessions_are_created_with_their_state_and_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let database = uri(&folder.path().join("new.db"));
    let run = |args: &[&str]| {
        let mut command = scratchbook();
        command.args(["--database", &database]).args(args);
        command
    };
    let create = ["sessions", "create", "-a", "A", "-u", "U"];
    let said = fails(3, run(&["sessions", "list", "-a", "A"]));
    assert!(said.contains("sessions create") && said.contains("--database"), "{said}");
    fails(2, run(&[&create[..], &["temp:x=1"]].concat()));
    fails(3, run(&["state", "set", "-a", "A", "-u", "U", "-s", "S", "k=1"]));
    fails(3, run(&["state", "unset", "-a", "A", "k"]));
    assert!(!folder.path().join("new.db").exists());
    assert_eq!(
        text(run(&[&create[..], &["-s", "S", "k=1", "user:theme=dark"]].concat())).lines().next(),
        Some("created A/U/S")
    );
    fails(4, run(&[&create[..], &["-s", "S"]].concat()));
    let made: Value = serde_json::from_str(&text(run(&[&create[..], &["--json"]].concat()))).unwrap();
    assert_eq!(made["state"], json!({"user:theme": "dark"}));
    assert_eq!(made["eventCount"], 0);

    let database = uri(&folder.path().join("other.db"));
    let mut command = scratchbook();
    command.args(["--database", &database, "state", "set", "-a", "A", "k=1"]);
    text(command);
    assert!(folder.path().join("other.db").exists(), "an app's state needs no session");
}

#[test]
fn empty_names_are_refused() {
    let fixture = Fixture::new();
    for args in [
        &["sessions", "list", "-a", ""][..],
        &["sessions", "list", "-a", APP, "-u", ""],
        &["state", "set", "-a", APP, "-u", "", "k=1"],
        &["users", "erase", "-a", APP, "-u", "", "--yes"],
        &["sessions", "create", "-a", APP, "-u", "U", "-s", ""],
    ] {
        let said = fixture.fails(2, args);
        assert!(said.contains("is empty"), "{said}");
    }
}

#[test]
fn contradictions_are_refused() {
    let fixture = Fixture::new();
    for rest in [&["k=1", "k=2"][..], &["k=1", "--delta", r#"{"k": 2}"#]] {
        let said = fixture.fails(2, &[&["state", "set", "-a", APP], rest].concat());
        assert!(said.contains("'k' is given twice"), "{said}");
    }
    fixture.fails(2, &["state", "set", "-a", APP]);
    fixture.fails(3, &["state", "get", "-a", APP, "k"]);
    assert_eq!(fixture.text(&["state", "get", "-a", "nowhere"]), "the app nowhere has no keys\n");
}

#[test]
fn a_database_that_cannot_be_made_is_not_offered_to_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let missing = |path: &str| {
        let mut command = scratchbook();
        command.current_dir(folder.path()).args(["sessions", "list", "-d", path]);
        fails(3, command)
    };
    let create = "or make it with: scratchbook sessions create --app APP --user USER --database";
    for (path, uri) in [
        ("a.db", "sqlite://a.db"),
        ("a.db?mode=ro", "sqlite://a.db"),
        ("a.db?synchronous=normal", "'sqlite://a.db?synchronous=normal'"),
        ("a.db?synchronous=normal&mode=rw&lock_timeout_ms=9", "'sqlite://a.db?synchronous=normal&lock_timeout_ms=9'"),
        ("my notes.db", "'sqlite://my notes.db'"),
    ] {
        let said = missing(path);
        assert!(said.ends_with(&format!("{create} {uri}\n")), "{path}: {said}");
    }
    let said = missing("no/a.db");
    assert!(said.contains("and no directory") && !said.contains("sessions create"), "{said}");
}

#[test]
fn the_reason_comes_before_the_advice() {
    let said = Fixture::new().fails(2, &["state", "set", "-a", APP, "bad=[1, 2"]);
    assert!(said.starts_with("error: the value of 'bad': malformed JSON"), "{said}");
    assert!(said.find("malformed") < said.find("--string"), "{said}");
}

#[test]
fn a_delta_is_read_from_standard_input_and_a_value_printed_raw() {
    let fixture = Fixture::new();
    let mut set = fixture.command(&["state", "set", "-a", APP, "--delta", "-"]);
    let mut child = set.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(br#"{"word": "hello  there", "list": [1, "a"], "esc": "\u001b[1m"}"#)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fixture.text(&["state", "get", "-a", APP, "--raw", "word"]), "hello  there\n");
    assert_eq!(fixture.text(&["state", "get", "-a", APP, "--raw", "list"]), "[1,\"a\"]\n");
    assert_eq!(fixture.text(&["state", "get", "-a", APP, "--raw", "esc"]), "\u{1b}[1m\n", "exactly, in a pipe");
    fixture.fails(2, &["state", "get", "-a", APP, "--raw", "word", "list"]);
    fixture.fails(2, &["state", "get", "-a", APP, "--raw"]);
}

#[test]
fn errors_are_json_where_that_was_asked_for() {
    let fixture = Fixture::new();
    let error = |code, args: &[&str]| {
        let said: Value = serde_json::from_str(&fixture.fails(code, &[&["--json"], args].concat())).unwrap();
        said["error"].clone()
    };
    let missing = error(3, &["state", "get", "-a", APP, "none"]);
    assert_eq!(missing["kind"], "not_found");
    assert!(missing["message"].as_str().unwrap().contains("'none'") && missing["causes"].is_array());
    assert_eq!(error(2, &["sessions", "show"])["kind"], "invalid_argument");
    fixture.text(&["state", "set", "-a", "tournament_app", "-u", "player_alice", "total_wins=1"]);
    assert_eq!(error(1, &["demo", "game"])["kind"], "different");
}

#[test]
fn what_begins_with_a_dash_goes_after_two() {
    let fixture = Fixture::new();
    for args in [
        &["state", "set", "-a", APP, "-xyz=1"][..],
        &["state", "set", "-a", APP, "-dash=1"],
        &["state", "set", "-a", APP, "-d", "memory:", "-dash=1"],
        &["state", "unset", "-a", APP, "--key"],
    ] {
        let said = fixture.fails(2, args);
        assert!(said.contains("-- -dash=1"), "{args:?}: {said}");
    }
    fixture.text(&["state", "set", "-a", APP, "--", "-dash=1"]);
    assert_eq!(fixture.json(&["state", "get", "-a", APP, "--", "-dash"]), json!({"-dash": 1}));
    let help = fixture.text(&["state", "set", "--help"]);
    assert!(help.contains("-- -dash=1"), "{help}");
}

#[test]
fn what_is_almost_a_uri_is_refused_with_the_right_one() {
    for (given, meant) in [
        ("sqlite:demo.db", "sqlite://demo.db"),
        ("sqlite:/tmp/demo.db", "sqlite:///tmp/demo.db"),
        ("memory", "memory:"),
    ] {
        for command in [&["sessions", "list", "-a", "app"][..], &["demo", "greeting"], &["backup", "/nowhere/copy.db"]]
        {
            let mut run = scratchbook();
            run.args(["-d", given]).args(command);
            let said = fails(2, run);
            assert!(said.contains(&format!("write --database {meant}\n")), "{given}: {said}");
        }
    }
}
