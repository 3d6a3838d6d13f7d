//! Upgrading tables by hand.

use serde_json::json;

use crate::{Fixture, fails, scratchbook, text, uri};

#[test]
fn a_dry_run_prints_the_sql_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let mut dry = scratchbook();
    dry.args(["migrate", "--dry-run", "--database", &uri(&path)]);
    let sql = text(dry);
    assert!(sql.starts_with("-- 1: init\n") && sql.contains("CREATE TABLE sessions ("), "{sql}");
    assert!(!path.exists());
}

#[test]
fn a_run_makes_the_tables_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = uri(&folder.path().join("new.db"));
    let migrate = |args: &[&str]| {
        let mut command = scratchbook();
        command.args(["migrate", "--database", &database]).args(args);
        text(command)
    };
    assert_eq!(migrate(&[]), "applied 1: init\n");
    assert_eq!(migrate(&[]), "-- the tables are up to date\n");
    assert_eq!(migrate(&["--dry-run"]), "-- the tables are up to date\n");
    assert_eq!(migrate(&["--dry-run", "--json"]).trim(), "{\n  \"missing\": []\n}");
}

#[test]
fn what_is_in_use_already_is_up_to_date() {
    let fixture = Fixture::new();
    assert_eq!(fixture.json(&["migrate"]), json!({"applied": []}));
}

#[test]
fn a_file_that_is_not_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    std::fs::write(&path, "not a database, but long enough to be taken for one".repeat(100)).unwrap();
    let mut migrate = scratchbook();
    migrate.args(["migrate", "--dry-run", "--database", &uri(&path)]);
    let said = fails(6, migrate);
    assert!(said.contains("not a SQLite database"), "{said}");
}
