//! Failures are reported on standard error, with an exit code for each kind.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Fixture, fails, scratchbook, text, uri};

#[test]
fn each_kind_has_its_exit_code() {
    let fixture = Fixture::new();
    let said = fixture.fails(3, &["sessions", "show", "-a", "ecommerce_app", "-u", "user123", "-s", "none"]);
    assert!(said.starts_with("error: session not found: ecommerce_app/user123/none"), "{said}");
    fixture.fails(3, &["state", "get", "-a", "ecommerce_app", "none"]);
    fixture.fails(3, &["state", "set", "-a", "ecommerce_app", "-u", "user123", "-s", "none", "a=1"]);
    fixture.fails(2, &["sessions", "show"]);
    fixture.fails(2, &["sessions", "list", "-a", "app", "--limit", "0"]);
    fixture.fails(2, &["sessions", "list", "-a", "app", "--page-token", "none"]);
    fixture.fails(2, &["sessions", "list", "-a", "a\nb"]);
    fixture.fails(2, &["--deadline", "0", "sessions", "list", "-a", "app"]);
    fixture.fails(2, &["--deadline", "soon", "sessions", "list", "-a", "app"]);
    fixture.fails(3, &["state", "get", "-a", "app", "-s", "session"]);
    fixture.fails(2, &["state", "get"]);
    // 10 is tested below with a held lock, because a quick response can meet any deadline.
    fixture.text(&["--deadline", "60", "sessions", "list", "-a", "ecommerce_app"]);
}

#[test]
fn databases_that_are_none_are_refused() {
    let fixture = Fixture::new();
    let not_one = fixture.path("notes.txt");
    std::fs::write(&not_one, "These are notes, and no database at all. ".repeat(100)).unwrap();
    for (code, database) in [
        (2, "redis://somewhere".to_owned()),
        (2, "sqlite://".to_owned()),
        (2, "sqlite:agents.db".to_owned()),
        (3, "missing.db".to_owned()),
        (2, format!("{}?synchronous=sometimes", uri(&fixture.path("agents.db")))),
        (3, uri(&fixture.path("missing.db"))),
        (3, uri(&fixture.path("missing/agents.db"))),
        (6, uri(&not_one)),
    ] {
        let said = fixture.fails(code, &["--database", &database, "sessions", "list", "-a", "app"]);
        assert!(said.starts_with("error: "), "{said}");
    }
    assert!(!fixture.path("missing.db").exists(), "what only looks makes no database");
    assert!(std::fs::read_to_string(&not_one).unwrap().starts_with("These are notes"));
    let mut elsewhere = scratchbook();
    elsewhere.current_dir(fixture.folder.path()).args(["sessions", "list", "-a", "app"]);
    let said = fails(3, elsewhere);
    assert!(said.contains("scratchbook.db") && said.contains("--database"), "{said}");
}

#[test]
fn an_address_with_the_slashes_of_python_is_told_apart_from_a_full_path() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("here.db"), "").unwrap();
    for parameters in ["", "?mode=ro"] {
        let mut list = scratchbook();
        list.current_dir(fixture.folder.path()).args(["sessions", "list", "-a", "app"]);
        list.args(["-d", &format!("sqlite:///here.db{parameters}")]);
        let right = format!("sqlite://here.db{parameters}, with two slashes");
        assert_eq!(
            fails(3, list),
            format!("error: there is no database /here.db; the file here.db in this folder is {right}\n")
        );
    }
}

#[test]
fn a_password_of_an_address_that_is_no_uri_is_not_shown() {
    let fixture = Fixture::new();
    for database in
        ["host=db user=me password=s3cret", "password=s3cret://db", "host=db password=a:s3cret", "p = s3cret"]
    {
        let said = fixture.fails(2, &["--database", database, "sessions", "list", "-a", "app"]);
        assert!(!said.contains("s3cret") && said.contains("DATABASE"), "{said}");
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    for args in [&["demo"][..], &["demo", "--json"], &["demo", "--list"], &["--help"]] {
        let mut child = scratchbook().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
        assert!(child.wait().unwrap().success(), "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_writer_that_waits_can_be_interrupted_or_has_a_deadline() {
    let fixture = Fixture::new();
    let lock = std::fs::File::open(fixture.path("agents.db-lock")).unwrap();
    lock.lock().unwrap();
    let set = ["state", "set", "-a", "ecommerce_app", "a=1"];

    let started = Instant::now();
    let said = fixture.fails(10, &[&["--deadline", "0.2"], &set[..]].concat());
    assert!(said.contains("deadline"), "{said}");

    let mut waiting = fixture.command(&set).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(waiting.try_wait().unwrap(), None, "it waits for the lock");
    Command::new("kill").args(["-INT", &waiting.id().to_string()]).status().unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(4), "neither waited for the lock");

    lock.unlock().unwrap();
    fixture.fails(3, &["state", "get", "-a", "ecommerce_app", "a"]);
    fixture.text(&set);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = scratchbook();
    command.arg("demo").stdout(full);
    let said = fails(7, command);
    assert!(said.contains("standard output"), "{said}");
}

#[test]
fn help_shows_exit_codes_and_the_version() {
    let mut help = scratchbook();
    help.arg("--help");
    let help = text(help);
    for word in ["demo", "sessions", "watch", "verify", "prune", "users", "SCRATCHBOOK_DATABASE", "Exit codes:"] {
        assert!(help.contains(word), "{word} in\n{help}");
    }
    let mut version = scratchbook();
    version.arg("--version");
    assert_eq!(text(version).trim(), concat!("scratchbook ", env!("CARGO_PKG_VERSION")));
}
