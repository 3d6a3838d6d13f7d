//! What the SQLite store promises beyond every store: what it refuses, and what it survives.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use scratchbook::{
    ArtifactService, CreateSessionConfig, Error, ErrorKind, EventCursor, GetSessionConfig, Part, SessionService,
    SqliteOptions, SqliteSessionService, StateDelta, StateOwner, Synchronous, connect,
};
use serde_json::{Map, Value, json};

use crate::database::{self, APP, Database, USER, append, create, event, get, key, setting};

async fn refused(database: &Database) -> Error {
    database.try_open(SqliteOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let database = Database::new();
    for text in ["not a database", &"long and not a database\n".repeat(1000)] {
        fs::write(&database.path, text).unwrap();
        let error = refused(&database).await;
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("is not a SQLite database"), "{error}");
        assert_eq!(fs::read_to_string(&database.path).unwrap(), text);
        assert!(!database.beside("-lock").exists());
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    let database = Database::new();
    database.sql("CREATE TABLE sessions (id TEXT)");
    let before = fs::read(&database.path).unwrap();
    let error = refused(&database).await;
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("not a scratchbook database"), "{error}");
    assert_eq!(fs::read(&database.path).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let database = Database::new();
    database.open().await.close().await.unwrap();
    database.sql("INSERT INTO scratchbook_migrations VALUES (99, 'later', '2030-01-01T00:00:00Z', '1')");
    let error = refused(&database).await;
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("99") && error.to_string().contains("up to 2"), "{error}");
}

#[tokio::test]
async fn read_only_files_and_folders_are_refused() {
    let database = Database::new();
    database.open().await.close().await.unwrap();
    for path in [&database.path, database.path.parent().unwrap()] {
        let writable = fs::metadata(path).unwrap().permissions();
        let mut read_only = writable.clone();
        read_only.set_readonly(true);
        fs::set_permissions(path, read_only).unwrap();
        let error = refused(&database).await;
        fs::set_permissions(path, writable).unwrap();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
    database.open().await;
}

#[tokio::test]
async fn a_missing_folder_is_not_found_and_a_folder_is_no_file() {
    let database = Database::new();
    let missing = database.beside("-missing").join("agents.db");
    let error = SqliteSessionService::open(missing, SqliteOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    fs::create_dir(&database.path).unwrap();
    assert_eq!(refused(&database).await.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_uri_opens_a_file_and_says_what_is_wrong_with_it() {
    let database = Database::new();
    let uri = format!("sqlite://{}?synchronous=normal", database.path.display());
    let store = connect(&uri).await.unwrap();
    store.sessions.create_session(APP, USER, CreateSessionConfig::default()).await.unwrap();
    for (uri, says) in [
        ("sqlite://", "memory:"),
        ("sqlite://:memory:", "memory:"),
        ("sqlite://x.db?durable=1", "synchronous"),
        ("sqlite://x.db?synchronous=off", "full"),
        ("redis://x", "sqlite://PATH"),
    ] {
        let error = connect(uri).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{uri}: {error}");
        assert!(error.to_string().contains(says), "{uri}: {error}");
    }
}

#[tokio::test]
async fn a_path_is_no_uri_to_sqlite() {
    let name = format!("file:scratchbook-test-{}.db", std::process::id());
    let path = std::path::Path::new(&name);
    SqliteSessionService::open(path, SqliteOptions::default()).await.unwrap().close().await.unwrap();
    assert!(path.exists());
    for suffix in ["", "-lock"] {
        fs::remove_file(format!("{name}{suffix}")).unwrap();
    }
}

#[tokio::test]
async fn a_damaged_row_is_named_and_never_skipped() {
    let database = Database::new();
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
        (service.list_state_changes(&owner, 0, 10).await.unwrap_err(), "'theme' of app/alice"),
    ];
    for (error, names) in errors {
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
        assert!(error.to_string().contains(names), "{error}");
        assert!(!format!("{error:?}").contains("do not tell"), "{error:?}");
    }
    // What is whole can still be read and written.
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
        ("UPDATE events SET seq = -3", "the event with the number -3 of app/alice/s1"),
        ("UPDATE state_log SET version = -1", "key 'theme' of app/alice at position 1"),
        ("UPDATE state_log SET author = CAST(x'ff' AS TEXT)", "key 'theme' of app/alice at position 1"),
        ("UPDATE user_states SET key = CAST(x'61ff' AS TEXT)", "the key 'user:a\u{fffd}' of app/alice"),
    ] {
        let database = Database::new();
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
            service.list_state_changes(&user, 0, 10).await.err(),
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
    let database = Database::new();
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

#[tokio::test]
async fn reopening_shows_everything_exactly() {
    let database = Database::new();
    let state = json!({
        "nul": "a\u{0}b", "emoji": "🦀 e\u{301} é", "large": "x".repeat(1 << 20), "null": null, "empty": {},
        "max": u64::MAX, "min": i64::MIN, "float": 0.1, "tiny": 5e-324, "huge": f64::MAX, "negative_zero": -0.0,
        "": "the empty key", "cart ": 1, "cart": 2, "Cart": 3,
        "user:nul": "\u{0}", "app:deep": {"list": [1, [2, {"three": 3.0}]]},
    });
    let service = database.open().await;
    let made = create(&service, "s1", state).await;
    let mut removal = StateDelta::new().with("added\u{1}", "a\u{0}b").unwrap();
    removal.remove("emoji").unwrap();
    let sent = event(removal).with_id("e1").with_timestamp(1_795_194_011.590_056_7).with_content("hi \u{0} 🦀");
    append(&service, &key("s1"), sent.clone()).await.unwrap();
    let part = Part::text("artifact \u{0} 🦀");
    service.save_artifact(&key("s1"), "user:notes.txt", part.clone(), Map::new()).await.unwrap();
    let before = get(&service, &key("s1")).await.unwrap();
    service.close().await.unwrap();

    let service = database.open().await;
    let after = get(&service, &key("s1")).await.unwrap();
    assert_eq!(after.state(), before.state());
    assert_eq!(after.events(), before.events());
    assert_eq!(after.last_update_time(), before.last_update_time());
    for (name, value) in made.state().iter().filter(|(name, _)| name != "emoji") {
        assert_eq!(after.state().get(&name), Some(value), "{name}");
        let (text, stored) = (value.to_string(), after.state().get(&name).unwrap().to_string());
        assert_eq!(text, stored, "{name}");
    }
    assert!(!after.state().contains("emoji"));
    let stored = after.events().get(0).unwrap();
    assert_eq!(stored.content, sent.content);
    assert_eq!(stored.timestamp.unwrap().to_bits(), sent.timestamp.unwrap().to_bits());
    assert_eq!(service.load_artifact(&key("other"), "user:notes.txt", None).await.unwrap(), Some(part));
    assert_eq!(append(&service, &key("s1"), sent).await.unwrap(), 1, "a retry after reopening");
}

#[tokio::test]
async fn a_view_shows_each_sessions_state_as_one_object() {
    let database = Database::new();
    let service = database.open().await;
    create(&service, "s1", json!({"a": {"b": 1}, "gone": 1, "user:max": u64::MAX, "app:none": null})).await;
    let mut delta = StateDelta::new();
    delta.remove("gone").unwrap();
    append(&service, &key("s1"), event(delta)).await.unwrap();
    service.close().await.unwrap();
    let connection = rusqlite::Connection::open(&database.path).unwrap();
    let sql = "SELECT state FROM session_overview WHERE session_id = 's1'";
    let text: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(state, json!({"a": {"b": 1}, "user:max": u64::MAX, "app:none": null}));
}

#[tokio::test]
async fn nothing_of_an_erased_user_stays_in_the_file() {
    const SECRET: &str = "Q2hyaXN0bWFz";
    let database = Database::new();
    let service = database.open().await;
    create(&service, "s1", json!({"note": SECRET, "user:note": SECRET.repeat(2_000)})).await;
    append(&service, &key("s1"), setting("user:note", SECRET.repeat(10)).with_content(SECRET)).await.unwrap();
    append(&service, &key("s1"), setting("app:count", 1)).await.unwrap();
    service.save_artifact(&key("s1"), "user:note", Part::text(SECRET), Map::new()).await.unwrap();
    service.delete_user(APP, USER).await.unwrap();
    let log = service.list_state_changes(&StateOwner::app(APP).unwrap(), 0, 10).await.unwrap();
    assert_eq!(log.iter().map(|change| change.origin.clone()).collect::<Vec<_>>(), [None]);
    assert!(!is_in(&database.beside("-wal"), SECRET) && !is_in(&database.beside("-wal"), USER), "still in the log");
    service.close().await.unwrap();
    for trace in [SECRET, USER] {
        assert!(!is_in(&database.path, trace), "{trace} is still there");
    }
}

fn is_in(path: &std::path::Path, trace: &str) -> bool {
    fs::read(path).unwrap().windows(trace.len()).any(|window| window == trace.as_bytes())
}

#[tokio::test]
async fn what_was_erased_leaves_the_log_when_its_readers_have_gone() {
    const SECRET: &str = "Q2hyaXN0bWFz";
    let database = Database::new();
    let service = database.open().await;
    create(&service, "s1", json!({"note": SECRET})).await;
    let reader = rusqlite::Connection::open(&database.path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events;").unwrap();
    service.delete_session(&key("s1")).await.unwrap();
    assert!(is_in(&database.beside("-wal"), SECRET), "the reader may need it");
    reader.execute_batch("COMMIT").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_in(&database.beside("-wal"), SECRET) {
        assert!(Instant::now() < deadline, "it stays in the log");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_log_that_a_reader_made_large_is_cut_when_the_reader_has_gone() {
    let database = Database::new();
    let service = database.open_with(SqliteOptions::default().with_synchronous(Synchronous::Normal)).await;
    create(&service, "s1", json!({})).await;
    let wal = database.beside("-wal");
    let size = || fs::metadata(&wal).unwrap().len();
    let reader = rusqlite::Connection::open(&database.path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events;").unwrap();
    for _ in 0..70 {
        append(&service, &key("s1"), setting("pad", "x".repeat(1 << 20))).await.unwrap();
    }
    let large = size();
    assert!(large > 64 << 20, "{large} bytes");
    reader.execute_batch("COMMIT").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while size() > 64 << 20 {
        assert!(Instant::now() < deadline, "the log still has {} bytes", size());
        append(&service, &key("s1"), setting("n", 1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_acknowledged_and_others_go_on_after() {
    let database = Database::new();
    let options = SqliteOptions::default().with_max_size_bytes(1 << 20);
    let service = Arc::new(database.open_with(options).await);
    create(&service, "room", json!({})).await;
    for _ in 0..20 {
        append(&service, &key("room"), setting("pad", "x".repeat(5_000))).await.unwrap();
    }
    create(&service, "s1", json!({})).await;
    let writers = (0..32).map(|writer| {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                let id = format!("{writer}-{n}");
                let sent = setting(&format!("user:{writer}"), "x".repeat(2_000)).with_id(id.as_str());
                match append(&service, &key("s1"), sent).await {
                    Ok(seq) => acknowledged.push((id, seq)),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error:?}");
                        break;
                    }
                }
            }
            acknowledged
        })
    });
    let acknowledged: Vec<_> = join_all(writers).await.into_iter().flat_map(Result::unwrap).collect();
    assert!(acknowledged.len() > 32, "{} acknowledged", acknowledged.len());

    service.delete_session(&key("room")).await.unwrap();
    append(&service, &key("s1"), setting("after", true)).await.unwrap();
    service.close().await.unwrap();
    let service = database.open().await;
    database::check_whole(&service, &Map::new()).await;
    let session = get(&service, &key("s1")).await.unwrap();
    assert_eq!(session.events().len(), acknowledged.len() + 1);
    for (id, seq) in acknowledged {
        assert_eq!(session.events().get(seq as usize - 1).unwrap().id, id);
    }
}

#[tokio::test]
async fn a_write_that_does_not_fit_fails_alone() {
    let database = Database::new();
    let service = database.open_with(SqliteOptions::default().with_max_size_bytes(1 << 20)).await;
    create(&service, "s1", json!({})).await;
    // All in one group: nothing runs while the lock is held.
    let lock = held_lock(&database);
    let sizes = (0..40).map(|n| if n == 20 { 2 << 20 } else { 10 });
    let appends = sizes.map(|size| append_later(&service, setting("pad", "x".repeat(size)))).collect::<Vec<_>>();
    lock.unlock().unwrap();
    let results = join_all(appends).await;
    for (n, result) in results.into_iter().enumerate() {
        match n {
            20 => assert_eq!(result.unwrap_err().kind(), ErrorKind::ResourceExhausted),
            _ => assert!(result.is_ok(), "{n}: {result:?}"),
        }
    }
    assert_eq!(database::check_whole(&service, &Map::new()).await[0].seq(), 39);
}

#[tokio::test]
async fn a_refused_write_leaves_the_rest_of_its_group_alone() {
    let database = Database::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    append(&service, &key("s1"), setting("a", 1).with_id("taken")).await.unwrap();
    let lock = held_lock(&database);
    let good = |n: i32| append_later(&service, setting(&format!("app:{n}"), n));
    let bad = || append_later(&service, setting("app:lost", 1).with_id("taken"));
    let appends = vec![good(0), bad(), good(1), bad(), bad(), good(2)];
    lock.unlock().unwrap();
    let kinds = join_all(appends).await.into_iter().map(|result| result.err().map(|e| e.kind()));
    let taken = Some(ErrorKind::AlreadyExists);
    assert_eq!(kinds.collect::<Vec<_>>(), [None, taken, None, taken, taken, None]);
    let session = database::check_whole(&service, &Map::new()).await.remove(0);
    assert_eq!(session.seq(), 4);
    assert!(!session.state().contains("app:lost"));
}

#[tokio::test]
async fn a_lock_held_elsewhere_makes_writes_unavailable_after_a_while() {
    let database = Database::new();
    let service = database.open_with(SqliteOptions::default().with_lock_timeout(Duration::from_millis(100))).await;
    create(&service, "s1", json!({})).await;
    let lock = held_lock(&database);
    let results = join_all((0..3).map(|n| append_later(&service, setting("n", n)))).await;
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("agents.db-lock"), "{error}");
        assert!(error.is_retryable());
    }
    assert_eq!(get(&service, &key("s1")).await.unwrap().seq(), 0, "reads go on");
    lock.unlock().unwrap();
    assert_eq!(append(&service, &key("s1"), setting("n", 3)).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_sqlites_held_elsewhere_fails_all_that_waits_in_its_time() {
    let database = Database::new();
    let service = database.open_with(SqliteOptions::default().with_lock_timeout(Duration::from_millis(300))).await;
    create(&service, "s1", json!({})).await;
    let other = rusqlite::Connection::open(&database.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let appends = (0..10).map(|n| append_later(&service, setting("n", n))).collect::<Vec<_>>();
    let path = database.path.clone();
    let free = tokio::task::spawn_blocking(move || {
        let lock = File::options().write(true).open(path.with_file_name("agents.db-lock")).unwrap();
        lock.lock().unwrap();
        started.elapsed()
    });
    for result in join_all(appends).await {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("another program"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(free.await.unwrap() < Duration::from_millis(300), "the lock beside the file was kept meanwhile");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(append(&service, &key("s1"), setting("n", 3)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_full_queue_refuses_after_a_while_and_keeps_what_it_took() {
    let database = Database::new();
    let options = SqliteOptions::default().with_queue_capacity(2).with_queue_timeout(Duration::from_millis(100));
    let service = database.open_with(options).await;
    create(&service, "s1", json!({})).await;
    let lock = held_lock(&database);
    let mut taken = vec![append_later(&service, setting("n", 0))];
    // The writer has the first; the queue holds two more.
    tokio::time::sleep(Duration::from_millis(50)).await;
    taken.extend((1..3).map(|n| append_later(&service, setting("n", n))));
    let error = append(&service, &key("s1"), setting("n", 3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    lock.unlock().unwrap();
    let numbers: Vec<_> = join_all(taken).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn the_wait_for_a_place_ends_on_any_executor() {
    let database = Database::new();
    let options = SqliteOptions::default().with_queue_capacity(1).with_queue_timeout(Duration::from_millis(100));
    let service = wait(database.open_with(options));
    wait(create(&service, "s1", json!({})));
    let lock = held_lock(&database);
    let _taken = append_later(&service, setting("n", 0));
    std::thread::sleep(Duration::from_millis(50));
    let _queued = append_later(&service, setting("n", 1));
    let error = wait(append(&service, &key("s1"), setting("n", 2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    let without_a_timer = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = without_a_timer.block_on(append(&service, &key("s1"), setting("n", 3))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    lock.unlock().unwrap();
}

#[tokio::test]
async fn closing_waits_for_no_one_who_does_not_come_back() {
    let database = Database::new();
    let service = database.open_with(SqliteOptions::default().with_queue_capacity(1)).await;
    create(&service, "s1", json!({})).await;
    let lock = held_lock(&database);
    let first = append_later(&service, setting("n", 0));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = append_later(&service, setting("n", 1));
    // Polled once, it waits for a place; that it gets one is for the next poll to see.
    let waiting = append_later(&service, setting("n", 2));
    lock.unlock().unwrap();
    assert_eq!(first.await.unwrap(), 1);
    tokio::time::timeout(Duration::from_secs(5), service.close()).await.expect("closing takes for ever").unwrap();
    assert_eq!(second.await.unwrap(), 2);
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::FailedPrecondition);
}

#[tokio::test]
async fn a_closed_service_has_finished_what_it_took_and_refuses_the_rest() {
    let database = Database::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    let taken: Vec<_> = (0..20).map(|n| append_later(&service, setting("n", n))).collect();
    let (first, second) = tokio::join!(service.close(), service.close());
    first.and(second).unwrap();
    join_all(taken).await.into_iter().for_each(|result| assert!(result.is_ok()));
    let refused = [
        append(&service, &key("s1"), setting("n", 0)).await.unwrap_err(),
        service.get_session(&key("s1"), &GetSessionConfig::default()).await.unwrap_err(),
        service.list_artifacts(&key("s1")).await.unwrap_err(),
        service.backup(database.beside("-copy")).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    }
    service.close().await.unwrap();
    assert_eq!(get(&database.open().await, &key("s1")).await.unwrap().seq(), 20);
}

#[tokio::test]
async fn dropping_the_service_or_a_future_finishes_what_was_accepted() {
    let database = Database::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    for n in 0..50 {
        drop(append(&service, &key("s1"), setting("user:n", n)).now_or_never());
    }
    drop(service);
    let service = database.open().await;
    assert_eq!(database::check_whole(&service, &Map::new()).await[0].seq(), 50);
}

#[test]
fn any_executor_will_do() {
    // `close` is polled by hand, on no runtime at all.
    let database = Database::new();
    let service = wait(database.open());
    wait(create(&service, "s1", json!({"a": 1})));
    assert_eq!(wait(append(&service, &key("s1"), setting("a", 2))).unwrap(), 1);
    assert_eq!(wait(get(&service, &key("s1"))).unwrap().state().get("a"), Some(&json!(2)));
    wait(service.close()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_a_whole_database() {
    let (database, copy) = (Database::new(), Database::new());
    let service = Arc::new(database.open().await);
    create(&service, "s1", json!({})).await;
    let writer = Arc::clone(&service);
    let load = tokio::spawn(async move {
        for n in 0.. {
            append(&writer, &key("s1"), setting(&format!("user:{}", n % 10), n)).await.unwrap();
        }
    });
    while get(&service, &key("s1")).await.unwrap().seq() < 100 {}
    service.backup(&copy.path).await.unwrap();
    let error = service.backup(&copy.path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    load.abort();
    let names = fs::read_dir(copy.path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), [copy.path.file_name().unwrap()]);
    let copied = copy.open().await;
    assert!(database::check_whole(&copied, &Map::new()).await[0].seq() >= 100);
    append(&copied, &key("s1"), setting("mine", true)).await.unwrap();
    let error = service.backup(copy.beside("-missing").join("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn one_old_time_among_the_last_does_not_cost_the_whole_history() {
    const EVENTS: u32 = 20_000;
    let database = Database::new();
    let service = database.open_with(SqliteOptions::default().with_readers(1)).await;
    let time = |n: u32| if n == EVENTS - 3 { 1.0 } else { 1000.0 + f64::from(n) };
    let events = (0..EVENTS).map(|n| event(StateDelta::new()).with_timestamp(time(n))).collect();
    let config = CreateSessionConfig::default().with_session_id("s1").with_events(events);
    service.create_session(APP, USER, config).await.unwrap();
    let best = async |config: GetSessionConfig| {
        let mut best = Duration::MAX;
        for _ in 0..10 {
            let started = Instant::now();
            service.get_session(&key("s1"), &config).await.unwrap();
            best = best.min(started.elapsed());
        }
        best
    };
    let last = best(GetSessionConfig::default().with_num_recent_events(10)).await;
    for since in [500.0, f64::from(EVENTS), 1000.0 + f64::from(EVENTS - 6)] {
        let config = GetSessionConfig::default().with_num_recent_events(10).with_after_timestamp(since);
        let time = best(config).await;
        println!("since {since}: {time:?}, the last 10 alone: {last:?}");
        assert!(time < 10 * last, "since {since}: {time:?}, the last 10 alone: {last:?}");
    }
}

/// The lock as another process would hold it: by another open file.
fn held_lock(database: &Database) -> File {
    let lock = File::options().write(true).open(database.beside("-lock")).unwrap();
    lock.lock().unwrap();
    lock
}

type Later<'a> = std::pin::Pin<Box<dyn Future<Output = scratchbook::Result<u64>> + 'a>>;

/// An append that is in the queue when this returns.
fn append_later(service: &SqliteSessionService, event: scratchbook::Event) -> Later<'_> {
    let mut append: Later<'_> = Box::pin(async move { append(service, &key("s1"), event).await });
    assert!(append.as_mut().now_or_never().is_none());
    append
}

/// The smallest executor there is.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Some(ready) = future.as_mut().now_or_never() {
            return ready;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
