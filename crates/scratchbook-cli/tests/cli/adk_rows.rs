//! Rows of google-adk's tables that cannot be read are left out and named; all others are imported.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{Fixture, output};

const TABLES: &str = "
    CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT, create_time REAL, update_time REAL);
    CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, timestamp REAL,
        event_data TEXT);
    CREATE TABLE app_states (app_name TEXT, state TEXT, update_time REAL);
    CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT, update_time REAL);
    INSERT INTO app_states VALUES ('a', '{\"open\": true}', 1);
    INSERT INTO user_states VALUES ('a', 'u', '{\"tier\": 1}', 1);
    INSERT INTO sessions VALUES ('a', 'u', 'good', '{\"k\": 1}', 1, 1);
    INSERT INTO events VALUES ('e1', 'a', 'u', 'good', 'i', 1, '{\"author\": \"agent\", \"id\": \"e1\"}');";

/// Values that are no text, or too much of it, and what is said of them.
const WRONG: [(&str, &str); 5] = [
    ("x'ff00'", "UTF-8"),
    ("CAST(x'c3' AS TEXT)", "UTF-8"),
    ("zeroblob(1000)", "JSON"),
    ("NULL", "no text"),
    ("hex(zeroblob(33554433))", "64 MiB"),
];

fn import(statements: &str) -> (Option<i32>, Value, Value) {
    let fixture = Fixture::empty();
    let source = fixture.path("adk.db");
    let connection = Connection::open(&source).unwrap();
    connection.execute_batch(TABLES).unwrap();
    connection.execute_batch(statements).unwrap();
    drop(connection);
    let done = output(fixture.command(&["--json", "import", "--from", "adk-sqlite", source.to_str().unwrap()]));
    let said = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{statements}: {done:?}"));
    let state = fixture.json(&["state", "get", "-a", "a", "-u", "u", "-s", "good"]);
    (done.status.code(), said, state)
}

#[test]
fn row_with_an_unreadable_column_is_skipped_and_named() {
    for (value, why) in WRONG {
        for (statement, row, state) in [
            (
                format!("INSERT INTO sessions VALUES ('a', 'u', 'bad', {value}, 1, 2)"),
                "session a/u/bad",
                json!({"k": 1, "user:tier": 1, "app:open": true}),
            ),
            (format!("UPDATE user_states SET state = {value}"), "user a/u", json!({"k": 1, "app:open": true})),
            (format!("UPDATE app_states SET state = {value}"), "app a", json!({"k": 1, "user:tier": 1})),
            (
                format!("INSERT INTO events VALUES ('bad', 'a', 'u', 'good', 'i', 2, coalesce({value}, 7))"),
                "event bad of a/u/good",
                json!({"k": 1, "user:tier": 1, "app:open": true}),
            ),
        ] {
            let (code, said, shown) = import(&statement);
            let refused = said["refused"].as_array().unwrap();
            assert_eq!((code, refused.len(), &shown), (Some(1), 1, &state), "{statement}: {said}");
            assert_eq!(refused[0]["row"], row, "{statement}");
            if row.starts_with("session") {
                assert!(refused[0]["message"].as_str().unwrap().contains(why), "{statement}: {said}");
            }
            assert_eq!(said["events"], 1, "{statement}");
        }
    }
}

#[test]
fn row_whose_name_is_no_text_is_skipped_and_named() {
    for (statement, row) in [
        ("INSERT INTO sessions VALUES (x'61', 'u', 's', '{}', 1, 1)", "an app"),
        ("INSERT INTO sessions VALUES ('a', x'ff', 's', '{}', 1, 1)", "a user of the app a"),
        ("INSERT INTO sessions VALUES ('a', 'u', x'67', '{}', 1, 1)", "a session of a/u"),
        ("INSERT INTO user_states VALUES ('a', CAST(x'ff' AS TEXT), '{}', 1)", "a user of the app a"),
        ("INSERT INTO events VALUES (x'ff', 'a', 'u', 'good', 'i', 2, '{}')", "event  of a/u/good"),
    ] {
        let (code, said, shown) = import(statement);
        assert_eq!(code, Some(1), "{statement}");
        assert_eq!((&said["refused"][0]["row"], said["refused"].as_array().unwrap().len()), (&json!(row), 1), "{said}");
        assert_eq!(shown, json!({"k": 1, "user:tier": 1, "app:open": true}), "{statement}");
    }
}
