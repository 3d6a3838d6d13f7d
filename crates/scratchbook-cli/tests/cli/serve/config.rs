//! The sources of options, and the errors for invalid ones.

use std::fs;

use serde_json::{Value, json};

use super::Served;
use crate::{Fixture, fails, output};

#[test]
fn a_flag_comes_before_the_environment_before_the_file_before_the_default() {
    let fixture = Fixture::empty();
    let file = fixture.path("scratchbook.toml");
    fs::write(&file, "host = \"localhost\"\nport = 1\nlog_format = \"json\"\n[log]\nlevel = \"warn\"\n").unwrap();
    let file = file.display().to_string();
    let mut command = fixture.command(&["--json", "serve", "--config", &file, "--port", "3", "--print-config"]);
    command.env("SCRATCHBOOK_PORT", "2").env("SCRATCHBOOK_LOG_LEVEL", "error").env("SCRATCHBOOK_HOST", "");
    let printed: Value = serde_json::from_slice(&output(command).stdout).unwrap();
    assert_eq!(printed["port"], json!({"value": 3, "source": "command line"}));
    assert_eq!(printed["log-level"], json!({"value": "error", "source": "SCRATCHBOOK_LOG_LEVEL"}));
    assert_eq!(printed["host"], json!({"value": "localhost", "source": "file"}));
    assert_eq!(printed["log-format"], json!({"value": "json", "source": "file"}));
    assert_eq!(printed["deadline"], json!({"value": null, "source": "default"}));
    assert_eq!(printed["database"]["source"], "SCRATCHBOOK_DATABASE");
}

#[test]
fn the_environment_sets_the_deadline_of_a_server() {
    let fixture = Fixture::empty();
    let mut command = fixture.command(&["--json", "serve", "--print-config"]);
    command.env("SCRATCHBOOK_DEADLINE", "2.5").env("SCRATCHBOOK_NO_DEMO", "1");
    let printed: Value = serde_json::from_slice(&output(command).stdout).unwrap();
    assert_eq!(printed["deadline"], json!({"value": 2.5, "source": "SCRATCHBOOK_DEADLINE"}));
    assert_eq!(printed["no-demo"], json!({"value": true, "source": "SCRATCHBOOK_NO_DEMO"}));
    let mut command = fixture.command(&["serve", "--print-config"]);
    command.env("SCRATCHBOOK_DEADLINE", "soon");
    let said = fails(2, command);
    assert!(said.contains("a number of seconds"), "{said}");
}

#[test]
fn what_is_printed_is_a_file_again_and_has_no_password() {
    let fixture = Fixture::empty();
    let database = ["--database", "postgresql+asyncpg://app:sesame@db/agents?schema=bot&sslpassword=sesame"];
    let printed = fixture.text(&[&["serve", "--print-config", "--port", "0"], &database[..]].concat());
    assert!(
        !printed.contains("sesame") && printed.contains("\"postgresql+asyncpg://app@db/agents?schema=bot\""),
        "{printed}"
    );
    assert!(printed.contains("port = 0 ") && printed.contains("# command line"), "{printed}");
    let file = fixture.path("printed.toml");
    fs::write(&file, &printed).unwrap();
    let again = fixture.text(&["serve", "--config", file.to_str().unwrap(), "--print-config"]);
    assert!(again.contains("port = 0 ") && again.contains("# file"), "{again}");
}

#[test]
fn the_error_for_an_invalid_file_names_its_line() {
    let fixture = Fixture::empty();
    let file = fixture.path("scratchbook.toml");
    let path = file.to_str().unwrap();
    for (text, code, said) in [
        ("host = \"localhost\"\nprot = 1", 2, "scratchbook.toml:2: there is no setting 'prot'; did you mean 'port'?"),
        (
            "[log]\nfromat = \"json\"",
            2,
            "scratchbook.toml:2: there is no setting 'log-fromat'; did you mean 'log-format'?",
        ),
        ("zzz = 1", 2, "there is no setting 'zzz'; there are database, deadline, keyring, plain-values, host, "),
        ("port = 70000", 2, "scratchbook.toml:1: invalid value '70000' for '--port <PORT>'"),
        ("port = 1.5", 2, "invalid value '1.5'"),
        ("port = 2026-01-01", 2, "a value is a string, a number, true or false"),
        ("log-level = \"warning\"", 2, "warn"),
        ("log_level = \"warn\"\n[log]\nlevel = \"warn\"", 2, "scratchbook.toml:3: 'log-level' is set already"),
        ("host = \"localhost\"\nport = ", 2, "scratchbook.toml:2: this is not TOML: "),
        ("config = \"other.toml\"", 2, "no setting 'config'"),
        ("json = true", 2, "no setting 'json'"),
    ] {
        fs::write(&file, text).unwrap();
        let failed = fixture.fails(code, &["serve", "--config", path]);
        assert!(failed.contains(said) && !failed.contains("\\n"), "{text}: {failed}");
    }
    let failed = fixture.fails(3, &["serve", "--config", "none.toml"]);
    assert!(failed.contains("none.toml is not there"), "{failed}");
    let mut command = fixture.command(&["--json", "serve"]);
    command.env("SCRATCHBOOK_CONFIG", fixture.folder.path());
    let failed: Value = serde_json::from_str(&fails(2, command)).unwrap();
    assert!(failed["error"]["message"].as_str().unwrap().ends_with("is a folder; name a file"), "{failed}");
}

#[test]
fn a_limit_that_lets_nothing_through_is_refused() {
    let fixture = Fixture::empty();
    for limit in [
        "--max-connections",
        "--max-runs",
        "--max-body-bytes",
        "--max-body-events",
        "--max-body-memory",
        "--max-requests-per-second",
        "--max-concurrent-requests",
        "--max-heavy-reads",
        "--max-heavy-writes",
    ] {
        let said = fixture.fails(2, &["serve", "--print-config", limit, "0"]);
        assert!(said.contains("at least 1"), "{limit}: {said}");
    }
}

#[test]
fn a_file_sets_the_database_where_nothing_else_does() {
    let fixture = Fixture::empty();
    let file = fixture.path("scratchbook.toml");
    let database = crate::uri(&fixture.path("of_file.db"));
    fs::write(&file, format!("database = {database:?}\nport = 0\n")).unwrap();
    let file = file.display().to_string();
    let mut command = crate::scratchbook();
    command.args(["--json", "serve", "--config", &file]);
    assert_eq!(Served::of(command).greeting["database"], json!(database));
    let of_environment = Served::of(fixture.command(&["--json", "serve", "--config", &file]));
    assert_eq!(of_environment.greeting["database"], json!(crate::uri(&fixture.path("agents.db"))));
}

#[test]
fn the_file_that_comes_with_it_is_understood() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/scratchbook.toml");
    let printed = Fixture::empty().json(&["serve", "--config", file, "--print-config"]);
    assert_eq!(printed["no-demo"], json!({"value": true, "source": "file"}));
    assert_eq!(printed["max-runs"], json!({"value": 1000, "source": "file"}));
}
