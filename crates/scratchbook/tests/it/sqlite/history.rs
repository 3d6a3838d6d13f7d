//! Point-in-time state, with checkpoints and without.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use scratchbook::session::ForkConfig;
use scratchbook::{AppendOptions, CreateSessionConfig, ErrorKind, SessionService, SqliteSessionService, StateDelta};
use serde_json::{Value, json};

use crate::database::{APP, DatabaseFile, USER, append, create, event, get, key, setting};

/// Returns an event that writes and removes keys, so that the state is different after each event.
fn step(n: u64) -> scratchbook::Event {
    let mut delta = StateDelta::new().with("n", n).unwrap().with(format!("k{}", n % 7), n).unwrap();
    delta.remove(format!("k{}", (n + 3) % 7)).unwrap();
    delta.set("user:n", n).unwrap();
    event(delta).with_id(format!("e{n}")).with_timestamp(1000.0 + n as f64)
}

/// Returns the session's own state after this many steps.
fn expected(n: u64) -> Value {
    let mut state = serde_json::Map::new();
    for n in 1..=n {
        state.insert("n".to_owned(), json!(n));
        state.insert(format!("k{}", n % 7), json!(n));
        state.shift_remove(&format!("k{}", (n + 3) % 7));
    }
    Value::Object(state)
}

async fn own_state_at(service: &SqliteSessionService, id: &str, n: u64) -> Value {
    let state = service.get_state_at(&key(id), n).await.unwrap();
    Value::Object(state.to_map().into_iter().filter(|(key, _)| !key.starts_with("user:")).collect())
}

/// Waits until a session has this many checkpoints, and returns their numbers.
fn checkpoints(database: &DatabaseFile, id: &str, count: usize) -> Vec<u64> {
    let connection = Connection::open(&database.path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut statement =
            connection.prepare("SELECT seq FROM checkpoints WHERE session_id = ?1 ORDER BY seq").unwrap();
        let found = statement.query_map([id], |row| row.get::<_, i64>(0)).unwrap();
        let found: Vec<_> = found.map(|seq| seq.unwrap().unsigned_abs()).collect();
        if found.len() >= count {
            return found;
        }
        assert!(Instant::now() < deadline, "there are checkpoints at {found:?} alone");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_are_made_behind_appends_imports_and_forks() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "appended", json!({})).await;
    for n in 1..=1100 {
        append(&service, &key("appended"), step(n)).await.unwrap();
    }
    assert_eq!(checkpoints(&database, "appended", 2), [512, 1024]);
    let config = CreateSessionConfig::default().with_session_id("imported");
    service.create_session(APP, USER, config.with_events((1..=1100).map(step).collect())).await.unwrap();
    assert_eq!(checkpoints(&database, "imported", 2), [512, 1024]);
    let fork = ForkConfig::at(1000).with_session_id("forked");
    service.fork_session(&key("imported"), fork).await.unwrap();
    assert_eq!(checkpoints(&database, "forked", 1), [512]);
    let with: Vec<_> = [0, 1, 511, 512, 513, 700, 1000, 1023, 1024, 1025, 1100].into();
    for n in &with {
        let expected = expected(*n);
        assert_eq!(own_state_at(&service, "appended", *n).await, expected, "appended, at {n}");
        assert_eq!(own_state_at(&service, "imported", *n).await, expected, "imported, at {n}");
        if *n <= 1000 {
            assert_eq!(own_state_at(&service, "forked", *n).await, expected, "forked, at {n}");
        }
    }
    service.close().await.unwrap();
    let kept = |id: &str| -> Vec<String> {
        let connection = Connection::open(&database.path).unwrap();
        let mut statement = connection.prepare("SELECT state FROM checkpoints WHERE session_id = ?1").unwrap();
        let kept = statement.query_map([id], |row| row.get(0)).unwrap().map(Result::unwrap);
        let sorted = kept.map(|state: String| serde_json::from_str::<Value>(&state).unwrap());
        sorted
            .map(|state| {
                format!("{:?}", state.as_object().unwrap().iter().collect::<std::collections::BTreeMap<_, _>>())
            })
            .collect()
    };
    assert_eq!(kept("appended"), kept("imported"), "what a session shows is the fold of its events");
    // Without checkpoints the state is the same, and a read of many events makes them again.
    database.sql("DELETE FROM checkpoints");
    let service = database.open().await;
    for n in with {
        assert_eq!(own_state_at(&service, "appended", n).await, expected(n), "without checkpoints, at {n}");
    }
    own_state_at(&service, "appended", 1100).await;
    assert_eq!(checkpoints(&database, "appended", 2), [512, 1024]);
}

#[tokio::test]
async fn a_state_that_is_larger_than_its_events_is_not_kept_again_and_again() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "large", json!({"large": "x".repeat(300_000)})).await;
    create(&service, "small", json!({})).await;
    for n in 1..=1024 {
        append(&service, &key("large"), setting("n", n)).await.unwrap();
        append(&service, &key("small"), setting("n", n)).await.unwrap();
    }
    assert_eq!(checkpoints(&database, "small", 2), [512, 1024]);
    service.close().await.unwrap();
    assert!(checkpoints(&database, "large", 0).is_empty());
    let service = database.open().await;
    let state = service.get_state_at(&key("large"), 1000).await.unwrap();
    assert_eq!((state.get("n"), state.len()), (Some(&json!(1000)), 2));
}

#[tokio::test]
async fn a_damaged_checkpoint_is_named() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    let config = CreateSessionConfig::default().with_session_id("s1").with_events((1..=600).map(step).collect());
    service.create_session(APP, USER, config).await.unwrap();
    checkpoints(&database, "s1", 1);
    service.close().await.unwrap();
    for damage in ["substr(state, 1, 20)", "'{\"n\": 512}'", "CAST(x'ff' AS TEXT)"] {
        database.sql(&format!("UPDATE checkpoints SET state = {damage}"));
        let service = database.open().await;
        for n in [512, 600] {
            let error = service.get_state_at(&key("s1"), n).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{damage}: {error}");
            assert!(error.to_string().contains("the checkpoint at event 512 of app/alice/s1"), "{damage}: {error}");
        }
        // Reads that do not need the damaged checkpoint still work.
        assert_eq!(own_state_at(&service, "s1", 511).await, expected(511));
        assert!(get(&service, &key("s1")).await.is_some());
        service.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_event_is_named_by_what_folds_it_and_a_damaged_value_does_not_spread() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({"secret": "do not tell"})).await;
    for n in 1..=500 {
        append(&service, &key("s1"), step(n)).await.unwrap();
    }
    service.close().await.unwrap();
    database.sql(
        "UPDATE events SET event = substr(event, 1, 30) WHERE seq = 300;
         UPDATE session_states SET value = '{' || value WHERE key = 'secret';",
    );
    let service = database.open().await;
    for n in 501..=512 {
        append(&service, &key("s1"), step(n)).await.unwrap();
    }
    service.close().await.unwrap();
    assert!(checkpoints(&database, "s1", 0).is_empty());
    let service = database.open().await;
    assert_eq!(own_state_at(&service, "s1", 299).await["n"], json!(299));
    let error = service.get_state_at(&key("s1"), 300).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.to_string().contains("the event 300 of app/alice/s1"), "{error}");
    database.sql("DELETE FROM events WHERE seq = 299");
    let error = service.get_state_at(&key("s1"), 299).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted, "a gap: {error}");
}

/// Checkpoints of an earlier session are stored late, when another session has its id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_made_anew_again_and_again_have_their_own_past() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    for life in 0..15 {
        let event = |n| step(n).with_state_delta(StateDelta::new().with("life", [life, n]).unwrap());
        let config = CreateSessionConfig::default().with_session_id("s1");
        service.create_session(APP, USER, config.with_events((1..=511).map(event).collect())).await.unwrap();
        service.append(&key("s1"), event(512), AppendOptions::default()).await.unwrap();
        append(&service, &key("s1"), event(513)).await.unwrap();
        for n in [511, 512, 513] {
            assert_eq!(own_state_at(&service, "s1", n).await, json!({"life": [life, n]}));
        }
        service.delete_session(&key("s1")).await.unwrap();
    }
    service.close().await.unwrap();
    assert!(checkpoints(&database, "s1", 0).is_empty());
}
