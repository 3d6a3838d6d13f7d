//! Sessions that expire by the store's clock, and what is left after removals and prunings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use scratchbook::artifact::{ArtifactService, ListVersionsConfig};
use scratchbook::content::Part;
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::session::{ChangeQuery, Expiry, FeedStart, Prune, SessionServiceExt, StateOwner};
use scratchbook::store::SqliteOptions;
use scratchbook::{CreateSessionConfig, ErrorKind, SessionService};
use serde_json::{Map, json};

use super::is_in;
use crate::database::{APP, DatabaseFile, USER, append, create, get, key, setting};

const SECRET: &str = "Q2hyaXN0bWFz";

/// A clock that shows the time to which it was last set.
#[derive(Debug)]
struct SettableClock(AtomicU64);

impl SettableClock {
    fn at(seconds: f64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seconds.to_bits())))
    }

    fn set(&self, seconds: f64) {
        self.0.store(seconds.to_bits(), Ordering::Relaxed);
    }
}

impl Environment for SettableClock {
    fn now(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn new_id(&self) -> String {
        SystemEnvironment.new_id()
    }
}

/// Returns the number of a session's rows in each table.
fn rows(database: &DatabaseFile, session_id: &str) -> Vec<(String, i64)> {
    let connection = Connection::open(&database.path).unwrap();
    let tables = [
        ("sessions", "id"),
        ("initial_states", "session_id"),
        ("session_states", "session_id"),
        ("events", "session_id"),
        ("checkpoints", "session_id"),
        ("artifacts", "session_id"),
    ];
    let count = |(table, column): (&str, &str)| {
        let sql = format!("SELECT count(*) FROM {table} WHERE {column} = ?1");
        (table.to_owned(), connection.query_row(&sql, [session_id], |row| row.get(0)).unwrap())
    };
    tables.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
}

#[tokio::test]
async fn a_session_is_there_until_its_time_comes_by_the_stores_clock() {
    let database = DatabaseFile::new();
    let clock = SettableClock::at(1_000_000.0);
    let service = database.open_with(SqliteOptions::default().with_environment(Arc::clone(&clock) as _)).await;
    let config = || CreateSessionConfig::default().with_session_id("s1").with_time_to_live(Duration::from_secs(60));
    let made = service.create_session(APP, USER, config().with_state(json!({"secret": SECRET}))).await.unwrap();
    assert_eq!(made.expire_time(), Some(1_000_060.0));
    append(&service, &key("s1"), setting("n", 1)).await.unwrap();
    service.save_artifact(&key("s1"), "notes", Part::text(SECRET), Map::new()).await.unwrap();
    service.save_artifact(&key("s1"), "user:notes", Part::text("kept"), Map::new()).await.unwrap();
    clock.set(1_000_059.999_999);
    append(&service, &key("s1"), setting("n", 2)).await.unwrap();
    assert_eq!(get(&service, &key("s1")).await.unwrap().seq(), 2);
    clock.set(1_000_060.0);
    assert!(get(&service, &key("s1")).await.is_none());
    assert_eq!(append(&service, &key("s1"), setting("n", 3)).await.unwrap_err().kind(), ErrorKind::NotFound);
    let feed = service.list_feed(&StateOwner::app(APP).unwrap(), &FeedStart::Beginning, 10).await.unwrap();
    assert_eq!(feed.entries.len(), 0);
    assert_eq!(service.load_artifact(&key("s1"), "notes", None).await.unwrap(), None);
    assert_eq!(service.list_artifacts(&key("s1")).await.unwrap(), ["user:notes"]);
    assert_eq!(
        service.list_artifact_versions(&key("s1"), "notes", &ListVersionsConfig::default()).await.unwrap().len(),
        0
    );
    assert_eq!(rows(&database, "s1").len(), 5, "nothing is gone yet");
    // By an earlier clock, the session still exists.
    clock.set(1_000_000.0);
    service.set_expiry(&key("s1"), Some(Expiry::After(Duration::from_secs(100)))).await.unwrap();
    clock.set(1_000_099.0);
    assert_eq!(get(&service, &key("s1")).await.unwrap().expire_time(), Some(1_000_100.0));
    assert_eq!(service.prune(Prune::Expired, 10).await.unwrap(), 0);
    clock.set(1_000_100.0);
    assert_eq!(service.prune(Prune::Expired, 10).await.unwrap(), 1);
    assert!(rows(&database, "s1").is_empty());
    assert!(!is_in(&database.beside("-wal"), SECRET), "it is still in the log");
    service.close().await.unwrap();
    assert!(!is_in(&database.path, SECRET), "it is still in the file");
}

#[tokio::test]
async fn a_session_made_under_an_expired_ones_id_has_nothing_of_it() {
    let database = DatabaseFile::new();
    let clock = SettableClock::at(1000.0);
    let service = database.open_with(SqliteOptions::default().with_environment(Arc::clone(&clock) as _)).await;
    for round in 0..3 {
        let config = CreateSessionConfig::default().with_session_id("s1").with_state(json!({"round": round}));
        let config = config.with_events((0..600).map(|n| setting("n", n)).collect());
        let made = service.create_session(APP, USER, config.with_expire_time(clock.now() + 1.0)).await.unwrap();
        assert_eq!((made.seq(), made.state().get("round")), (600, Some(&json!(round))));
        assert_eq!(service.list_artifacts(&key("s1")).await.unwrap().len(), 0);
        service.save_artifact(&key("s1"), "notes", Part::text("old"), Map::new()).await.unwrap();
        assert_eq!(json!(service.get_state_at(&key("s1"), 0).await.unwrap()), json!({"round": round}));
        clock.set(clock.now() + 1.0);
    }
    // An artifact that is saved for an expired session is the first artifact of a new session.
    let version = service.save_artifact(&key("s1"), "notes", Part::text("new"), Map::new()).await.unwrap();
    assert_eq!(version, 0);
    assert_eq!(rows(&database, "s1"), [("artifacts".to_owned(), 1)]);
    // A session that has already expired at its creation is returned as created, and cannot be read.
    let config = CreateSessionConfig::default().with_session_id("over").with_expire_time(5.0);
    let over = service.create_session(APP, USER, config.with_events(vec![setting("n", 1)])).await.unwrap();
    assert_eq!((over.expire_time(), over.seq()), (Some(5.0), 1));
    assert!(get(&service, &key("over")).await.is_none());
}

#[tokio::test]
async fn many_expired_sessions_are_deleted_in_small_commits() {
    let database = DatabaseFile::new();
    let clock = SettableClock::at(1000.0);
    let service = database.open_with(SqliteOptions::default().with_environment(Arc::clone(&clock) as _)).await;
    for n in 0..150 {
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_expire_time(1001.0);
        service.create_session(APP, USER, config.with_events(vec![setting("n", 1)])).await.unwrap();
    }
    create(&service, "stays", json!({})).await;
    clock.set(1001.0);
    assert_eq!(service.prune(Prune::Expired, 0).await.unwrap(), 0);
    assert_eq!(service.prune(Prune::Expired, 100).await.unwrap(), 100);
    assert_eq!(service.prune(Prune::Expired, 100).await.unwrap(), 50);
    assert_eq!(service.prune(Prune::Expired, 100).await.unwrap(), 0);
    assert!(get(&service, &key("stays")).await.is_some());
}

#[tokio::test]
async fn what_was_pruned_is_in_the_file_no_more() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    append(&service, &key("s1"), setting("note", SECRET).with_content(SECRET)).await.unwrap();
    append(&service, &key("s1"), setting("user:note", SECRET)).await.unwrap();
    for n in 3..=600 {
        append(&service, &key("s1"), setting("user:note", n)).await.unwrap();
        if n == 3 {
            append(&service, &key("s1"), setting("note", "other")).await.unwrap();
        }
    }
    let user = StateOwner::user(APP, USER).unwrap();
    assert_eq!(service.prune(Prune::events(&key("s1"), 590), 1000).await.unwrap(), 589);
    let end =
        service.list_state_changes(&user, &ChangeQuery::After(0), usize::MAX).await.unwrap().last().unwrap().position;
    assert_eq!(service.prune(Prune::state_log(&user, u64::MAX), 10_000).await.unwrap(), 598);
    assert!(!is_in(&database.beside("-wal"), SECRET), "it is still in the log");
    // Later state can be read, even though the log was pruned up to a position in the future.
    let last = service.get_state_at(&key("s1"), 601).await.unwrap();
    assert_eq!(last.get("user:note"), Some(&json!(600)));
    append(&service, &key("s1"), setting("user:note", "later")).await.unwrap();
    append(&service, &key("s1"), setting("user:note", "last")).await.unwrap();
    assert_eq!(service.get_state_at(&key("s1"), 602).await.unwrap().get("user:note"), Some(&json!("later")));
    let refused = service.get_state_at(&key("s1"), 595).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FailedPrecondition, "{refused}");
    let log = service.list_state_changes(&user, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    assert_eq!(log.first().map(|change| change.position), Some(end));
    service.close().await.unwrap();
    assert!(!is_in(&database.path, SECRET), "it is still in the file");
}
