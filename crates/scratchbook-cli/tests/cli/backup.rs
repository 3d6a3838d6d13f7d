//! A copy is consistent, even while another process writes.

#[cfg(unix)]
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::{Fixture, scratchbook, text, uri};

#[test]
fn a_copy_made_under_load_is_consistent() {
    let fixture = Fixture::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut runs = 0;
            while !stop.load(Ordering::Relaxed) {
                fixture.text(&["demo", "support-chat", "game"]);
                runs += 1;
            }
            runs
        });
        // The writer stops also if something fails here.
        let stopping = Stopping(&stop);
        for n in 0..5 {
            let copy = fixture.path(&format!("copy{n}.db"));
            let said = fixture.text(&["backup", copy.to_str().unwrap()]);
            assert!(said.contains("bytes"), "{said}");
            state_is_the_fold_of_the_events(&fixture, &uri(&copy));
            let mut demo = scratchbook();
            demo.args(["demo", "--database", &uri(&copy)]);
            text(demo);
        }
        drop(stopping);
        assert!(writer.join().unwrap() > 0, "there was load");
    });
}

/// Stops the writer when this value is dropped.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asserts that each session's state agrees with the last event that changed it.
fn state_is_the_fold_of_the_events(fixture: &Fixture, database: &str) {
    let sessions = fixture.json(&["--database", database, "sessions", "list", "-a", "support_app", "-l", "1000"]);
    let mut counted = 0;
    for session in sessions["sessions"].as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        let address = ["--database", database, "-a", "support_app", "-u", "customer_456", "-s", id];
        let shown = fixture.json(&[&["sessions", "show", "--events", "100"], &address[..]].concat());
        let mut counts =
            shown["events"].as_array().unwrap().iter().map(|e| &e["actions"]["stateDelta"]["message_count"]);
        if let Some(last) = counts.rfind(|count| count.is_number()) {
            assert_eq!(&shown["state"]["message_count"], last);
            counted += 1;
        }
    }
    assert!(counted > 0);
}

#[test]
fn backup_changes_nothing_in_its_source_and_refuses_a_newer_database() {
    let fixture = Fixture::new();
    let path = fixture.path("agents.db");
    let versions = |path: &std::path::Path| -> (i64, String) {
        let connection = rusqlite::Connection::open(path).unwrap();
        let sql = "SELECT (SELECT max(version) FROM scratchbook_migrations), (SELECT id FROM database_id)";
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let (newest, id) = versions(&path);
    let files = || {
        let mut files: Vec<_> =
            std::fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    };
    let (before, beside) = (std::fs::read(&path).unwrap(), files());
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy.db");
    fixture.text(&["backup", copy.to_str().unwrap()]);
    assert!(std::fs::read(&path).unwrap() == before, "the source was changed");
    assert_eq!(files(), beside);
    let (copied, new_id) = versions(&copy);
    assert_eq!((copied, new_id == id), (newest, false), "the copy is a database of its own, of the same version");
    let newer = format!(
        "INSERT INTO scratchbook_migrations (version, name, applied_on, checksum) VALUES ({}, '', '', '')",
        newest + 1
    );
    rusqlite::Connection::open(&path).unwrap().execute_batch(&newer).unwrap();
    assert!(fixture.fails(6, &["backup", fixture.path("no.db").to_str().unwrap()]).contains("newer"));
}

#[test]
fn a_file_that_exists_is_left_alone() {
    let fixture = Fixture::new();
    let there = fixture.path("there");
    std::fs::write(&there, "precious").unwrap();
    let said = fixture.fails(4, &["backup", there.to_str().unwrap()]);
    assert!(said.contains("exists"), "{said}");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "precious");
    fixture.fails(3, &["backup", fixture.path("no folder/copy.db").to_str().unwrap()]);
    fixture.fails(11, &["--database", "memory:", "backup", fixture.path("copy.db").to_str().unwrap()]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_demo_leaves_a_database_that_works() {
    let fixture = Fixture::new();
    for wait in [0, 20, 60, 120] {
        let mut demo = fixture.command(&["demo"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(std::time::Duration::from_millis(wait));
        Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
        demo.wait().unwrap();
    }
    fixture.text(&["demo"]);
}
