//! Tests export and import of JSON Lines. Everything is restored, and an incomplete file changes nothing.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{Fixture, fails, output, scratchbook, text, uri};

/// Creates the demo's sessions, unusual names, removed keys, and changes outside of sessions.
fn filled() -> Fixture {
    let fixture = Fixture::new();
    let set = |args: &[&str]| drop(fixture.text(&[&["state"], args].concat()));
    fixture.text(&[
        "sessions",
        "create",
        "-a",
        "Shöp",
        "-u",
        "o'brien 🛒",
        "-s",
        "empty",
        "--delta",
        r#"{"a":null,"":1.0}"#,
    ]);
    fixture.text(&[
        "sessions",
        "create",
        "-a",
        "Shöp",
        "-u",
        "o'brien 🛒",
        "-s",
        "s",
        "n=1",
        "user:u=1",
        "overwritten=1",
    ]);
    set(&[
        "set",
        "-a",
        "Shöp",
        "-u",
        "o'brien 🛒",
        "-s",
        "s",
        "overwritten=2",
        "gone=1",
        r#"big=18446744073709551615"#,
    ]);
    set(&["unset", "-a", "Shöp", "-u", "o'brien 🛒", "-s", "s", "gone", "n"]);
    set(&[
        "set",
        "-a",
        "Shöp",
        "-u",
        "o'brien 🛒",
        "theme=dark",
        "deep={\"a\":[1e300,-0.0,null]}",
        "--author",
        "operator",
    ]);
    set(&["unset", "-a", "Shöp", "-u", "o'brien 🛒", "theme"]);
    let label = ["-a", "Shöp", "-u", "o'brien 🛒", "-s", "s", "--title", "100% \"🛒\"", "--label", "a=b=c"];
    fixture.text(&[&["sessions", "update"], &label[..]].concat());
    set(&["set", "-a", "Shöp", "-u", "nobody's sessions", "only=\"state\\u0000\""]);
    set(&["set", "-a", "Shöp", "tax=0.30000000000000004"]);
    set(&["set", "-a", "an app alone", "x=1"]);
    fixture.text(&["sessions", "create", "-a", "Shöp", "-u", "gone", "-s", "s", "user:given=1"]);
    set(&["set", "-a", "Shöp", "-u", "gone", "-s", "s", "user:kept=1"]);
    fixture.text(&["sessions", "delete", "--yes", "-a", "Shöp", "-u", "gone", "-s", "s"]);
    fixture
}

pub(crate) fn export(fixture: &Fixture, name: &str) -> String {
    let file = fixture.path(name);
    let said = fixture.json(&["export", file.to_str().unwrap()]);
    assert!(said["exported"]["events"].as_u64().unwrap() > 0, "{said}");
    std::fs::read_to_string(file).unwrap()
}

/// Returns a command on another database in the fixture's folder.
pub(crate) fn other(fixture: &Fixture, args: &[&str]) -> Command {
    let mut command = scratchbook();
    command.env("SCRATCHBOOK_DATABASE", uri(&fixture.path("other.db"))).args(args);
    command
}

pub(crate) fn import(fixture: &Fixture, name: &str) -> Value {
    let path = fixture.path(name);
    let said = text(other(fixture, &["--json", "import", "--from", "jsonl", path.to_str().unwrap()]));
    serde_json::from_str(&said).unwrap()
}

#[test]
fn what_was_exported_and_imported_is_exported_the_same() {
    let fixture = filled();
    let first = export(&fixture, "first.jsonl");
    assert!(first.starts_with("{\"type\":\"header\",\"format\":\"scratchbook-export\",\"version\":1}\n"), "{first}");
    assert!(first.contains(r#""title":"100% \"🛒\"","labels":{"a":"b=c"},"state""#), "{first}");
    let report = import(&fixture, "first.jsonl");
    assert_eq!(report["refused"], json!([]));
    assert_eq!(text(other(&fixture, &["export"])), first);
    // A second import finds nothing new.
    let report = import(&fixture, "first.jsonl");
    assert_eq!((&report["sessions"]["created"], &report["events"], &report["keys"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!(text(other(&fixture, &["export"])), first);
}

#[test]
fn a_pipe_is_as_good_as_a_file() {
    let fixture = filled();
    let mut import = other(&fixture, &["import", "--from", "jsonl", "-"]);
    let mut child = import.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let exported = fixture.text(&["export"]);
    child.stdin.take().unwrap().write_all(exported.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "no bar in a pipe: {done:?}");
    assert_eq!(text(other(&fixture, &["export"])), exported);
}

/// A database of another build before 0.1.0 is carried over by export of that build and import of this one. Here the other
/// build is this one, until the hash of its tables is changed.
#[test]
fn a_database_with_another_version_1_is_carried_over_as_its_error_says() {
    let fixture = filled();
    let exported = fixture.text(&["export"]);
    let database = rusqlite::Connection::open(fixture.path("agents.db")).unwrap();
    let changed = database.execute("UPDATE scratchbook_migrations SET checksum = '1' WHERE version = 1", []);
    assert_eq!(changed.unwrap(), 1);
    drop(database);
    for args in [&["sessions", "list"][..], &["migrate"], &["migrate", "--dry-run"], &["export"]] {
        let said = fixture.fails(6, args);
        let pipe = "old/scratchbook export --database OLD | scratchbook import --from jsonl - --database NEW";
        assert!(said.contains(pipe), "{said}");
    }
    let mut import = other(&fixture, &["import", "--from", "jsonl", "-"]);
    let mut child = import.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(exported.as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(text(other(&fixture, &["export"])), exported);
}

/// A dash is standard output for an export, as it is standard input for an import.
#[test]
fn export_to_a_dash_is_written_to_standard_output() {
    let fixture = filled();
    let mut export = fixture.command(&["export", "-"]);
    export.current_dir(fixture.path(""));
    assert_eq!(text(export), fixture.text(&["export"]));
    assert!(!fixture.path("-").exists());
    let mut backup = fixture.command(&["backup", "-"]);
    backup.current_dir(fixture.path(""));
    assert!(fails(2, backup).contains("standard output") && !fixture.path("-").exists());
}

#[test]
fn line_of_more_than_64_mib_is_refused() {
    let fixture = Fixture::empty();
    let file = fixture.path("long.jsonl");
    let header = "{\"type\":\"header\",\"format\":\"scratchbook-export\",\"version\":1}\n";
    let refused = |name: &str| {
        fails(14, other(&fixture, &["import", "--from", "jsonl", name]));
        let said = output(other(&fixture, &["--json", "import", "--from", "jsonl", name]));
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(said.contains("64 MiB") && said.contains("payload_too_large"), "{said}");
        assert!(!fixture.path("other.db").exists());
    };
    std::fs::write(&file, format!("{header}{}", " ".repeat((64 << 20) + 1))).unwrap();
    refused(file.to_str().unwrap());
    // A file without end has no line.
    #[cfg(unix)]
    refused("/dev/zero");
}

/// Users are exported whether or not they have sessions: with state, with the log of removed state, with artifacts.
#[test]
fn users_without_sessions_are_exported_and_imported() {
    let fixture = Fixture::empty();
    fixture.text(&["state", "set", "-a", "shop", "-u", "state", "k=1"]);
    fixture.text(&["state", "set", "-a", "shop", "-u", "removed", "k=1"]);
    fixture.text(&["state", "unset", "-a", "shop", "-u", "removed", "k"]);
    let whole = fixture.text(&["export"]);
    for user in ["state", "removed"] {
        let file = fixture.path(&format!("{user}.jsonl"));
        std::fs::write(&file, fixture.text(&["export", "-a", "shop", "-u", user])).unwrap();
        import(&fixture, &format!("{user}.jsonl"));
    }
    assert_eq!(text(other(&fixture, &["export"])), whole);
    fixture.fails(3, &["export", "-a", "shop", "-u", "nobody"]);
    fixture.fails(3, &["export", "-a", "nothing"]);
}

#[test]
fn a_file_that_was_cut_changes_nothing() {
    let fixture = filled();
    let whole = export(&fixture, "whole.jsonl");
    let cut = fixture.path("cut.jsonl");
    let refused = |bytes: usize| {
        std::fs::write(&cut, &whole.as_bytes()[..bytes]).unwrap();
        let said = fails(12, other(&fixture, &["import", "--from", "jsonl", cut.to_str().unwrap()]));
        assert!(said.contains("was cut") && said.contains("after line"), "{bytes}: {said}");
    };
    let line_ends: Vec<_> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    for end in line_ends.iter().rev().skip(1).step_by(5) {
        refused(*end);
        refused(*end + 7);
    }
    refused(whole.len() - 2);
    assert!(!fixture.path("other.db").exists(), "not even a database is made");
    std::fs::write(&cut, "").unwrap();
    let said = fails(2, other(&fixture, &["import", "--from", "jsonl", cut.to_str().unwrap()]));
    assert!(said.contains("empty"), "{said}");
}

#[test]
fn a_bad_line_is_named_and_changes_nothing() {
    let fixture = filled();
    let whole = export(&fixture, "whole.jsonl");
    let bad = fixture.path("bad.jsonl");
    let refused = |code: i32, text: &str, said: &[&str]| {
        assert_ne!(text, whole);
        std::fs::write(&bad, text).unwrap();
        let message = fails(code, other(&fixture, &["import", "--from", "jsonl", bad.to_str().unwrap()]));
        assert!(said.iter().all(|word| message.contains(word)), "{message} has not all of {said:?}");
    };
    let lines: Vec<_> = whole.lines().collect();
    let without = |kind: &str| {
        let at = lines.iter().position(|line| line.contains(&format!("\"type\":\"{kind}\""))).unwrap();
        let rest: Vec<_> = lines[..at].iter().chain(&lines[at + 1..]).copied().collect();
        rest.join("\n") + "\n"
    };
    let number = |part: &str| format!("line {}:", lines.iter().position(|line| line.contains(part)).unwrap() + 1);
    refused(2, &without("header"), &["line 1", "header"]);
    refused(2, &without("event"), &["line", "number 2", "number 1"]);
    refused(2, &without("put"), &["the end counts", "lines are missing"]);
    refused(2, &without("session"), &["session"]);
    refused(11, &whole.replacen("\"version\":1", "\"version\":9", 1), &["line 1", "version 9", "newer"]);
    refused(2, &whole.replacen("scratchbook-export", "something", 1), &["line 1", "something"]);
    let big = "18446744073709551615";
    refused(2, &whole.replacen(big, &format!("{big}0"), 1), &[&number(big), "21 digits"]);
    refused(2, &whole.replacen("\"seq\":1,", "\"seq\":1,\"sequel\":1,", 1), &[&number("\"seq\":1,"), "sequel"]);
    refused(2, &whole.replacen("\"seq\":1,", "\"seq\":-1,", 1), &[&number("\"seq\":1,"), "seq"]);
    refused(2, &whole.replacen("{\"type\":\"put\"", "{\"type\":\"pet\"", 1), &["pet"]);
    refused(2, &whole.replacen("{\"type\":\"put\"", "[{\"type\":\"put\"", 1), &["line", "no JSON object"]);
    refused(2, &whole.replacen("\"stateDelta\":{", "\"stateDelta\":{\"\\u0000\":1,", 1), &["U+0000"]);
    refused(2, &format!("{whole}{}\n", lines[1]), &["after the end"]);
    refused(2, "hunter2", &["line 1", "no JSON object"]);
    assert!(!fixture.path("other.db").exists());
}

#[test]
fn apps_and_users_can_be_exported_alone() {
    let fixture = filled();
    let lines = |args: &[&str]| -> Vec<Value> {
        fixture.text(args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of_app = lines(&["export", "--app", "Shöp"]);
    assert!(of_app.iter().filter_map(|line| line["appName"].as_str()).all(|app| app == "Shöp"), "{of_app:?}");
    assert_eq!(of_app.last().unwrap()["users"], json!(3));
    let of_user = lines(&["export", "--app", "Shöp", "--user", "o'brien 🛒"]);
    assert_eq!((&of_user.last().unwrap()["apps"], &of_user.last().unwrap()["sessions"]), (&json!(0), &json!(2)));
    for (app, user) in [("no such app", None), ("Shöp", Some("no such user"))] {
        let mut args = vec!["export", "--app", app];
        args.extend(user.iter().flat_map(|user| ["--user", user]));
        let said = fixture.fails(3, &args);
        assert!(said.contains(user.unwrap_or(app)), "{said}");
    }
    fixture.fails(2, &["export", "--user", "o'brien 🛒"]);
}

#[test]
fn an_app_that_is_here_keeps_its_state_when_a_user_moves_in() {
    let fixture = filled();
    fixture.text(&["state", "set", "-a", "Shöp", "-u", "o'brien 🛒", "-s", "s", "app:tax=9", "app:of_events=1"]);
    std::fs::write(fixture.path("user.jsonl"), fixture.text(&["export", "-a", "Shöp", "-u", "o'brien 🛒"])).unwrap();
    text(other(&fixture, &["state", "set", "-a", "Shöp", "tax=5"]));
    import(&fixture, "user.jsonl");
    let state: Value = serde_json::from_str(&text(other(&fixture, &["--json", "state", "get", "-a", "Shöp"]))).unwrap();
    assert_eq!(state, json!({"tax": 5, "of_events": 1}));
}

#[test]
fn what_differs_here_is_reported_and_stays() {
    let fixture = filled();
    export(&fixture, "all.jsonl");
    import(&fixture, "all.jsonl");
    text(other(&fixture, &["state", "set", "-a", "Shöp", "tax=5"]));
    text(other(&fixture, &["sessions", "delete", "--yes", "-a", "Shöp", "-u", "o'brien 🛒", "-s", "s"]));
    text(other(&fixture, &["sessions", "create", "-a", "Shöp", "-u", "o'brien 🛒", "-s", "s"]));
    text(other(&fixture, &["state", "set", "-a", "Shöp", "-u", "o'brien 🛒", "-s", "s", "mine=1"]));
    let path = fixture.path("all.jsonl");
    let done = output(other(&fixture, &["--json", "import", "--from", "jsonl", path.to_str().unwrap()]));
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let refused: Vec<_> =
        report["refused"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(refused, ["key 'tax' of app Shöp", "session Shöp/o'brien 🛒/s"]);
    let state = text(other(&fixture, &["state", "get", "-a", "Shöp", "--raw", "tax"]));
    assert_eq!(state, "5\n");
}

#[test]
fn what_is_different_here_stays_so_however_often_it_is_imported() {
    let fixture = Fixture::new();
    let alices = |args: &[&str]| [&args[..2], &["-a", "shop", "-u", "alice"], &args[2..]].concat().join(" ");
    let there = |args: &[&str]| drop(fixture.text(&alices(args).split(' ').collect::<Vec<_>>()));
    let here = |args: &[&str]| text(other(&fixture, &alices(args).split(' ').collect::<Vec<_>>()));
    there(&["sessions", "create", "-s", "s", "plan=walk"]);
    there(&["state", "set", "-s", "s", "step=1"]);
    there(&["state", "set", "pref=theirs"]);
    export(&fixture, "all.jsonl");
    here(&["sessions", "create", "-s", "s", "plan=fly"]);
    here(&["state", "set", "pref=mine"]);
    let path = fixture.path("all.jsonl");
    for _ in 0..3 {
        let done = output(other(&fixture, &["--json", "import", "--from", "jsonl", path.to_str().unwrap()]));
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        let report: Value = serde_json::from_slice(&done.stdout).unwrap();
        let refused: Vec<_> = report["refused"].as_array().unwrap().iter().map(|row| &row["row"]).collect();
        assert_eq!(refused, ["key 'pref' of user shop/alice", "session shop/alice/s"]);
    }
    assert_eq!(here(&["state", "get", "--raw", "pref"]), "mine\n");
    assert_eq!(here(&["state", "get", "-s", "s", "--raw", "plan"]), "fly\n");
}

#[test]
fn a_file_that_exists_is_left_alone() {
    let fixture = Fixture::new();
    let there = fixture.path("there");
    std::fs::write(&there, "precious").unwrap();
    let said = fixture.fails(4, &["export", there.to_str().unwrap()]);
    assert!(said.contains("exists"), "{said}");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "precious");
    fixture.fails(3, &["export", fixture.path("no folder/f").to_str().unwrap()]);
    fixture.fails(3, &["import", "--from", "jsonl", fixture.path("missing").to_str().unwrap()]);
    let failed = fixture.path("failed");
    fixture.fails(3, &["export", "--app", "no such app", failed.to_str().unwrap()]);
    assert!(!failed.exists(), "what could not be finished is removed");
}
