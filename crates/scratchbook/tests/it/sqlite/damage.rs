//! Damaged rows and files.

use std::fs;

use scratchbook::session::{ChangeQuery, EventCursor, StateOwner};
use scratchbook::store::SqliteOptions;
use scratchbook::{ErrorKind, GetSessionConfig, SessionService};
use serde_json::json;

use crate::database::{APP, DatabaseFile, USER, append, create, key, setting};

#[tokio::test]
async fn a_damaged_row_is_named_and_never_skipped() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({"secret": "do not tell", "user:theme": "dark"})).await;
    for n in 0..3 {
        append(&service, &key("s1"), setting("n", n)).await.unwrap();
    }
    service.close().await.unwrap();
    database.sql(
        "UPDATE events SET event = substr(event, 1, 30) WHERE seq = 2;
         UPDATE session_states SET value = '{' || value WHERE key = 'secret';
         UPDATE user_states SET value = 'dark';
         UPDATE state_log SET value = 'dark';",
    );
    let service = database.open().await;
    let owner = StateOwner::user(APP, USER).unwrap();
    let only = |names: &[&str]| GetSessionConfig::state_only().with_state_keys(names.iter().copied());
    let events = GetSessionConfig::default().with_state_keys(["none"]);
    let errors = [
        (service.get_session(&key("s1"), &events).await.unwrap_err(), "the event 2 of app/alice/s1"),
        (service.get_session(&key("s1"), &only(&["secret"])).await.unwrap_err(), "'secret' of app/alice/s1"),
        (service.get_session(&key("s1"), &only(&["user:theme"])).await.unwrap_err(), "'user:theme' of app/alice"),
        (service.list_sessions(APP, &Default::default()).await.unwrap_err(), "'user:theme' of app/alice"),
        (service.get_state(&owner).await.unwrap_err(), "'user:theme' of app/alice"),
        (service.list_state_changes(&owner, &ChangeQuery::After(0), 10).await.unwrap_err(), "'theme' of app/alice"),
    ];
    for (error, names) in errors {
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
        assert!(error.to_string().contains(names), "{error}");
        assert!(!format!("{error:?}").contains("do not tell"), "{error:?}");
    }
    // Undamaged data can still be read and written.
    let last = GetSessionConfig::default().with_num_recent_events(1).with_state_keys(["n"]);
    let session = service.get_session(&key("s1"), &last).await.unwrap().unwrap();
    assert_eq!(session.state().get("n"), Some(&json!(2)));
    assert_eq!(append(&service, &key("s1"), setting("n", 3)).await.unwrap(), 4);
}

#[tokio::test]
async fn a_row_with_any_damaged_column_is_named() {
    let user = StateOwner::user(APP, USER).unwrap();
    for (damage, names) in [
        ("UPDATE sessions SET seq = -7", "the session app/alice/s1"),
        ("UPDATE sessions SET id = ' s1 '", "the session \"app\"/\"alice\"/\" s1 \""),
        ("UPDATE sessions SET id = 's' || char(7)", "the session \"app\"/\"alice\"/\"s\\u{7}\""),
        ("UPDATE sessions SET labels = '{\"a\": 1}'", "the title and labels of the session app/alice/s1"),
        ("UPDATE sessions SET title = CAST(x'ff' AS TEXT)", "the session app/alice/s1"),
        ("UPDATE events SET seq = -3", "the event with the number -3 of app/alice/s1"),
        ("UPDATE state_log SET version = -1", "key 'theme' of app/alice at position 1"),
        ("UPDATE state_log SET author = CAST(x'ff' AS TEXT)", "key 'theme' of app/alice at position 1"),
        ("UPDATE user_states SET key = CAST(x'61ff' AS TEXT)", "the key 'user:a\u{fffd}' of app/alice"),
    ] {
        let database = DatabaseFile::new();
        let service = database.open().await;
        create(&service, "s1", json!({"user:theme": "dark"})).await;
        append(&service, &key("s1"), setting("n", 1)).await.unwrap();
        service.close().await.unwrap();
        database.sql(damage);
        let service = database.open().await;
        let mut before = GetSessionConfig::default();
        before.cursor = Some(EventCursor::Before { seq: 9, limit: 9 });
        let found = [
            service.get_session(&key("s1"), &before).await.err(),
            service.list_sessions(APP, &Default::default()).await.err(),
            service.list_state_changes(&user, &ChangeQuery::After(0), 10).await.err(),
        ];
        let errors: Vec<_> = found.into_iter().flatten().collect();
        assert!(!errors.is_empty(), "{damage}");
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{damage}: {error}");
            assert!(error.to_string().contains(names), "{damage}: {error}");
        }
    }
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_no_panic() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({"a": "x".repeat(20_000)})).await;
    service.close().await.unwrap();
    let mut bytes = fs::read(&database.path).unwrap();
    bytes[4096..].fill(0xA5);
    fs::write(&database.path, bytes).unwrap();
    let error = match database.try_open(SqliteOptions::default()).await {
        Ok(service) => service.get_session(&key("s1"), &GetSessionConfig::default()).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error:?}");
}
