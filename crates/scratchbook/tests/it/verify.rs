//! Verification finds and names what was changed in a database by hand.

use scratchbook::{ErrorKind, SessionService, SessionServiceExt, StateDelta};
use serde_json::json;

use crate::database::{self, DatabaseFile};

/// Enough events for a store to keep checkpoints of the state.
const EVENTS: usize = 700;

async fn filled(database: &DatabaseFile) {
    let service = database.open().await;
    let initial = json!({"begun": true, "kept": [1, 2], "user:begun": 1, "app:begun": 1});
    let session = database::create(&service, "s", initial).await;
    for n in 0..EVENTS {
        let mut delta = StateDelta::new().with(format!("step_{}", n % 7), n).unwrap();
        match n % 100 {
            10 => delta.set("user:n", n).unwrap(),
            20 => delta.set("app:n", n).unwrap(),
            30 => delta.remove("step_1").unwrap(),
            _ => {}
        }
        database::append(&service, session.key(), database::event(delta)).await.unwrap();
    }
    service.close().await.unwrap();
}

/// Returns the results of verifying all data.
async fn verify(database: &DatabaseFile) -> Vec<String> {
    let service = database.open().await;
    let key = database::key("s");
    let found = [
        service.verify_session(&key).await.map(drop),
        service.verify_state(&key.user()).await.map(drop),
        service.verify_state(&key.app()).await.map(drop),
    ];
    service.close().await.unwrap();
    let errors = found.into_iter().filter_map(Result::err);
    errors
        .map(|error| {
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
            error.to_string()
        })
        .collect()
}

#[tokio::test]
async fn a_row_damaged_by_hand_is_found_and_named() {
    let whole = DatabaseFile::new();
    filled(&whole).await;
    assert_eq!(verify(&whole).await, Vec::<String>::new());
    let whole = std::fs::read(&whole.path).unwrap();
    for (damage, names) in [
        ("UPDATE session_states SET value = '-1' WHERE key = 'step_3'", "'step_3'"),
        ("UPDATE session_states SET value = NULL WHERE key = 'begun'", "'begun'"),
        ("UPDATE session_states SET seq = 3 WHERE key = 'step_3'", "'step_3'"),
        (
            "INSERT INTO session_states SELECT app_name, user_id, session_id, 'planted', '1', 5 FROM session_states LIMIT 1",
            "'planted'",
        ),
        ("DELETE FROM session_states WHERE key = 'kept'", "'kept'"),
        ("UPDATE user_states SET value = '-1' WHERE key = 'n'", "'n' of user"),
        ("DELETE FROM app_states WHERE key = 'begun'", "'begun' of app"),
        ("UPDATE state_log SET value = '-1' WHERE scope = 'user' AND key = 'n' AND version = 2", "'n' of user"),
        ("DELETE FROM state_log WHERE scope = 'app' AND key = 'n' AND version = 2", "version 2"),
        ("UPDATE events SET event = replace(event, '\"user:n\":10', '\"user:n\":11') WHERE seq = 11", "'n' of user"),
        (
            "UPDATE events SET event = replace(event, '\"stateDelta\":{\"step_6\":699', '\"stateDelta\":{\"step_6\":1') WHERE seq = 700",
            "event 700",
        ),
        ("UPDATE initial_states SET state = replace(state, 'true', 'false')", "'begun'"),
        ("DELETE FROM events WHERE seq = 600", "event 600"),
        ("UPDATE checkpoints SET state = replace(state, ',true]', ',false]')", "'begun'"),
    ] {
        let database = DatabaseFile::new();
        std::fs::write(&database.path, &whole).unwrap();
        database.sql(damage);
        let found = verify(&database).await;
        assert!(found.iter().any(|message| message.contains(names)) && !found.is_empty(), "{damage}: {found:?}");
    }
}
