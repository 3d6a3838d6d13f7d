//! What a file keeps, and what it no longer contains.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::artifact::ArtifactService;
use scratchbook::content::Part;
use scratchbook::environment::Environment;
use scratchbook::session::{ChangeQuery, Prune, StateOwner};
use scratchbook::store::{SqliteOptions, Synchronous};
use scratchbook::{CreateSessionConfig, ErrorKind, GetSessionConfig, SessionService, StateDelta};
use serde_json::{Map, Value, json};

use super::is_in;
use crate::database::{self, APP, DatabaseFile, USER, append, create, event, get, key, setting};
use crate::removals::{DAY, LaterClock};

#[tokio::test]
async fn reopening_shows_everything_exactly() {
    let database = DatabaseFile::new();
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
    let database = DatabaseFile::new();
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
    let (database, clock) = (DatabaseFile::new(), Arc::new(LaterClock::default()));
    let environment = Arc::clone(&clock) as Arc<dyn Environment>;
    let service = database.open_with(SqliteOptions::default().with_environment(environment)).await;
    create(&service, "s1", json!({"note": SECRET, "user:note": SECRET.repeat(2_000)})).await;
    append(&service, &key("s1"), setting("user:note", SECRET.repeat(10)).with_content(SECRET)).await.unwrap();
    append(&service, &key("s1"), setting("app:count", 1)).await.unwrap();
    service.save_artifact(&key("s1"), "user:note", Part::text(SECRET), Map::new()).await.unwrap();
    service.delete_user(APP, USER).await.unwrap();
    let log = service.list_state_changes(&StateOwner::app(APP).unwrap(), &ChangeQuery::After(0), 10).await.unwrap();
    assert_eq!(log.iter().map(|change| change.origin.clone()).collect::<Vec<_>>(), [None]);
    assert!(!is_in(&database.beside("-wal"), SECRET), "still in the log");
    // The user's name stays in the feed for 30 days, for readers that keep copies.
    clock.0.store(31 * DAY, Ordering::Relaxed);
    service.prune(Prune::Expired, 1).await.unwrap();
    service.close().await.unwrap();
    for trace in [SECRET, USER] {
        assert!(!is_in(&database.path, trace), "{trace} is still there");
    }
}

#[tokio::test]
async fn what_was_erased_leaves_the_log_when_its_readers_have_gone() {
    const SECRET: &str = "Q2hyaXN0bWFz";
    let database = DatabaseFile::new();
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
    let database = DatabaseFile::new();
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
    let database = DatabaseFile::new();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_a_whole_database() {
    let (database, copy) = (DatabaseFile::new(), DatabaseFile::new());
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
    let database = DatabaseFile::new();
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
