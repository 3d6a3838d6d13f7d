//! Imports databases that google-adk's services have just written, and compares them with what google-adk reports.
//! Python processes write and read google-adk's files. The command writes and reads ours.

mod client;
mod compare;
mod conformance;
pub(crate) mod postgres;
pub(crate) mod python;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use self::compare::{exactly, same, same_session};
use self::python::{fill, folder, python};
use crate::{fails, output, scratchbook, text, uri};

/// A scratchbook database, and a folder for others.
struct ImportTarget {
    folder: TempDir,
    uri: String,
}

impl ImportTarget {
    fn new() -> Self {
        let folder = folder();
        let uri = uri(&folder.path().join("ours.db"));
        Self { folder, uri }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = scratchbook();
        command.env("SCRATCHBOOK_DATABASE", &self.uri).args(args);
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&text(self.command(&[&["--json"], args].concat()))).unwrap()
    }

    fn show(&self, app: &str, user: &str, id: &str) -> Value {
        self.json(&["sessions", "show", "--events", "100000", "-a", app, "-u", user, "-s", id])
    }

    fn import(&self, from: &str, source: &str) -> Value {
        self.json(&["import", "--from", from, source])
    }

    /// Runs an import that refuses rows, and returns its output.
    fn import_partly(&self, from: &str, source: &str) -> Value {
        let done = output(self.command(&["--json", "import", "--from", from, source]));
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        serde_json::from_slice(&done.stdout).unwrap()
    }

    /// Returns an export, whose lines contain the authors in the state log.
    fn export(&self) -> String {
        text(self.command(&["export"]))
    }
}

/// Imports, compares, imports again, lets google-adk continue, and imports the new events.
fn follow(target: &ImportTarget, kind: &str, place: &str) {
    let from = format!("adk-{kind}");
    fill(&[kind, place]);
    let reported = fill(&["long", kind, place]);
    let first = target.import(&from, place);
    let events: usize =
        reported["sessions"].as_array().unwrap().iter().map(|s| s["events"].as_array().unwrap().len()).sum();
    assert_eq!(first["events"], json!(events));
    assert_eq!(first["refused"], json!([]));
    same(target, &reported);

    let exported = target.export();
    let again = target.import(&from, place);
    assert_eq!((&again["events"], &again["keys"], &again["refused"]), (&json!(0), &json!(0), &json!([])));
    assert_eq!(again["sessions"]["unchanged"], json!(reported["sessions"].as_array().unwrap().len()));
    assert_eq!(target.export(), exported, "a second import writes nothing");

    let reported = fill(&["more", kind, place]);
    let third = target.import(&from, place);
    assert_eq!((&third["events"], &third["refused"]), (&json!(2), &json!([])));
    let unchanged = reported["sessions"].as_array().unwrap().len() - 3;
    assert_eq!(third["sessions"], json!({"created": 1, "completed": 2, "unchanged": unchanged, "expired": 0}));
    same(target, &reported);
}

#[test]
fn sqlite_session_service_is_imported_as_it_reports_itself() {
    let target = ImportTarget::new();
    follow(&target, "sqlite", &target.path("theirs.db"));
}

#[test]
fn database_session_service_is_imported_as_it_reports_itself() {
    let target = ImportTarget::new();
    follow(&target, "database", &target.path("theirs.db"));
    // google-adk orders events with equal times by id, so the events give another state than the stored one.
    let clocks = target.show("shop", "bob", "clocks");
    let events = clocks["events"].as_array().unwrap();
    let of_import: Vec<_> = events.iter().filter(|event| event["author"] == "scratchbook-import").collect();
    assert!(!of_import.is_empty() && of_import[0]["customMetadata"]["scratchbook-import"].is_string(), "{clocks}");
}

#[test]
fn the_source_stays_as_it_was() {
    let target = ImportTarget::new();
    let path = target.path("theirs.db");
    fill(&["odd", &path]);
    let before = std::fs::read(&path).unwrap();
    target.import_partly("adk-sqlite", &path);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let beside: Vec<_> =
        std::fs::read_dir(target.folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| name.to_string_lossy().starts_with("theirs.db-")), "{beside:?}");
}

#[test]
fn each_invalid_row_is_reported_and_the_rest_is_imported() {
    let target = ImportTarget::new();
    let path = target.path("odd.db");
    let reported = fill(&["odd", &path]);
    let report = target.import_partly("adk-sqlite", &path);
    let refused: Vec<_> =
        report["refused"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect();
    for row in [
        "key 'big' of user odd/alice",
        "key 'huge' of session odd/alice/big numbers",
        "event too-big of odd/alice/big numbers",
        "key 'nan' of session odd/alice/not a number",
        "key 'gone' of session odd/alice/removal",
        "event millis of odd/alice/removal",
        "user odd/alice\n",
        "session odd/bob/control \u{1}",
        "session odd\u{2}/bob/bad app",
    ] {
        assert!(refused.contains(&row), "{row:?} is not among {refused:#?}");
    }
    let good = reported["sessions"].as_array().unwrap().iter().find(|session| session["id"] == "good").unwrap().clone();
    let mut good = good;
    // The report contains the user's refused key.
    good["state"].as_object_mut().unwrap().remove("user:big");
    same_session(&target, &good);
    let numbers = target.show("odd", "alice", "big numbers");
    let ids: Vec<_> = numbers["events"].as_array().unwrap().iter().map(|event| event["id"].clone()).collect();
    assert_eq!(ids[..2], [json!("fine"), json!("last")]);
    exactly(
        &numbers["state"],
        &json!({"fine": 1, "x": 3, "y": 1, "user:c": 3, "user:fine": 1}),
        "the rest of the state",
    );
    // A second import finds nothing new and reports the same rows.
    let again = target.import_partly("adk-sqlite", &path);
    assert_eq!((&again["events"], &again["keys"]), (&json!(0), &json!(0)));
    assert_eq!(again["refused"], report["refused"]);
    let said = fails(1, target.command(&["import", "--from", "adk-sqlite", &path]));
    assert!(said.contains("rows were left out"), "{said}");
}

#[test]
fn pickles_are_refused_with_the_command_that_upgrades_them() {
    let target = ImportTarget::new();
    let path = target.path("pickles.db");
    let reported = fill(&["pickles", &path]);
    for from in ["adk-database", "adk-sqlite"] {
        let said = fails(6, target.command(&["import", "--from", from, &path]));
        assert!(said.contains("schema version 0"), "{said}");
        let (_, command) = said.trim().split_once("adk migrate session ").unwrap();
        if from == "adk-database" {
            // The suggested command works.
            let mut adk = Command::new(python().with_file_name("adk"));
            adk.args(["migrate", "session"]).args(command.split_whitespace()).current_dir(target.folder.path());
            let done = output(adk);
            assert!(done.status.success(), "{done:?}");
        }
    }
    target.import("adk-database", &target.path("pickles-v1.db"));
    let session = &reported["sessions"][0];
    let shown = target.show("shop", "alice", "old");
    exactly(&shown["state"], &session["state"], "the state");
    assert_eq!(shown["events"].as_array().unwrap().len(), session["events"].as_array().unwrap().len());
}

#[test]
fn later_changes_of_others_stay_and_are_reported() {
    let target = ImportTarget::new();
    let path = target.path("theirs.db");
    fill(&["sqlite", &path]);
    target.import("adk-sqlite", &path);
    let set = |args: &[&str]| drop(text(target.command(&[&["state", "set"], args].concat())));
    set(&["-a", "shop", "-u", "alice", "language=de", "own=1"]);
    set(&["-a", "shop", "-u", "bob", "-s", "backwards", "n=99", "user:n=99"]);
    text(target.command(&["sessions", "delete", "--yes", "-a", "shop", "-u", "alice", "-s", "second"]));
    let report = target.import_partly("adk-sqlite", &path);
    let refused: Vec<_> =
        report["refused"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(refused, ["key 'language' of user shop/alice", "key 'n' of user shop/bob"]);
    assert_eq!(report["sessions"]["created"], json!(1), "the deleted one is there again");
    let state = target.json(&["state", "get", "-a", "shop", "-u", "alice"]);
    assert_eq!((&state["language"], &state["own"]), (&json!("de"), &json!(1)));
    let shown = target.show("shop", "bob", "backwards");
    assert_eq!((&shown["state"]["n"], &shown["state"]["user:n"]), (&json!(99), &json!(99)));
}

#[test]
fn a_session_with_other_content_is_reported_and_the_rest_is_imported() {
    let target = ImportTarget::new();
    let path = target.path("theirs.db");
    fill(&["sqlite", &path]);
    text(target.command(&["sessions", "create", "-a", "shop", "-u", "alice", "-s", "first"]));
    text(target.command(&["state", "set", "-a", "shop", "-u", "alice", "-s", "first", "mine=1"]));
    let report = target.import_partly("adk-sqlite", &path);
    assert_eq!(report["refused"][0]["row"], "session shop/alice/first");
    assert_eq!(report["refused"][0]["kind"], "already_exists");
    assert_eq!(target.show("shop", "alice", "first")["state"]["mine"], json!(1));
    assert_eq!(target.show("shop", "alice", "second")["eventCount"], json!(9));
}

#[test]
fn an_import_that_was_killed_is_completed_by_another() {
    let target = ImportTarget::new();
    let path = target.path("theirs.db");
    fill(&["database", &path]);
    let reported = fill(&["long", "database", &path]);
    let mut killed = 0;
    for wait in [5, 10, 20, 40, 80] {
        let mut import = target.command(&["import", "--from", "adk-database", &path]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        import.kill().unwrap();
        killed += u32::from(!import.wait().unwrap().success());
        if !Path::new(&target.path("ours.db")).exists() {
            continue;
        }
        // Each imported session is complete, except for the long one.
        for session in target.json(&["sessions", "list", "-a", "shop"])["sessions"].as_array().unwrap() {
            let of = |field: &str| session[field].as_str().unwrap().to_owned();
            let is = |other: &&Value| {
                other["id"] == session["id"] && other["userId"] == session["userId"] && other["appName"] == "shop"
            };
            let expected = reported["sessions"].as_array().unwrap().iter().find(is).unwrap();
            let shown = target.show("shop", &of("userId"), &of("id"));
            let own =
                shown["events"].as_array().unwrap().iter().filter(|event| event["author"] != "scratchbook-import");
            assert_eq!(own.count(), expected["events"].as_array().unwrap().len());
        }
    }
    assert!(killed > 0);
    let done = target.import("adk-database", &path);
    assert_eq!(done["refused"], json!([]));
    same(&target, &reported);
}

#[test]
fn an_invalid_source_is_refused_and_creates_no_database() {
    let target = ImportTarget::new();
    let (theirs, text_file) = (target.path("theirs.db"), target.path("notes.txt"));
    fill(&["odd", &theirs]);
    std::fs::write(&text_file, "no database at all, but a text of some length".repeat(20)).unwrap();
    let missing = target.path("missing.db");
    for (code, from, source, said) in [
        (3, "adk-sqlite", missing.as_str(), "no file"),
        (6, "adk-sqlite", &text_file, "no SQLite database"),
        (6, "adk-database", &theirs, "--from adk-sqlite"),
        (2, "adk-sqlite", "postgresql://me:s3cret@localhost/agents", "adk-database"),
        (11, "adk-database", "mysql://me:s3cret@localhost/agents", "SQLite and PostgreSQL"),
        (2, "adk-database", "sqlite://agents.db", "three slashes"),
    ] {
        let message = fails(code, target.command(&["import", "--from", from, source]));
        assert!(message.contains(said) && !message.contains("s3cret"), "{message}");
    }
    assert!(!Path::new(&target.path("ours.db")).exists());
    text(target.command(&["sessions", "create", "-a", "a", "-u", "u"]));
    let ours = target.path("ours.db");
    let message = fails(6, target.command(&["-d", "sqlite://elsewhere.db", "import", "--from", "adk-sqlite", &ours]));
    assert!(message.contains("scratchbook export"), "{message}");
}
