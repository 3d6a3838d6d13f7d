//! Removals that the feed lets go with time, and what those who have missed them get, on every store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scratchbook::{
    CreateSessionConfig, Environment, ErrorKind, FeedCommit, FeedCursor, FeedStart, InMemorySessionService, SessionKey,
    SessionService, SqliteOptions, SqliteSessionService, StateOwner, SystemEnvironment,
};
use serde_json::json;

use crate::database::{append, setting};

const DAY: u64 = 24 * 3600;

/// The clock of the machine, and some days more.
#[derive(Debug, Default)]
struct Later(AtomicU64);

impl Environment for Later {
    fn now(&self) -> f64 {
        SystemEnvironment.now() + self.0.load(Ordering::Relaxed) as f64
    }

    fn new_id(&self) -> String {
        SystemEnvironment.new_id()
    }
}

async fn page(sessions: &dyn SessionService, start: FeedStart, limit: usize) -> (Vec<&'static str>, FeedCursor) {
    let page = sessions.list_feed(&StateOwner::app("app").unwrap(), &start, limit).await.unwrap();
    let kinds = page.entries.iter().map(|entry| match &entry.commit {
        FeedCommit::Removed(removal) => removal.kind.as_str(),
        FeedCommit::Event { .. } => "event",
        FeedCommit::Created { .. } => "created",
        _ => "other",
    });
    (kinds.collect(), page.cursor)
}

async fn removals_go_with_time_and_those_who_missed_them_are_told(sessions: Arc<dyn SessionService>, clock: &Later) {
    let sessions = &*sessions;
    let create = async |id: &str| {
        let config = CreateSessionConfig::default().with_session_id(id).with_state(json!({"a": 1}));
        let session = sessions.create_session("app", "alice", config).await.unwrap();
        append(sessions, session.key(), setting("n", 1)).await.unwrap();
    };
    let key = |id: &str| SessionKey::new("app", "alice", id).unwrap();
    let both = BTreeSet::from(["deleted", "pruned"]);
    for id in ["stays", "goes", "pruned"] {
        create(id).await;
    }
    let (_, before) = page(sessions, FeedStart::Beginning, 100).await;
    sessions.prune_events(&key("pruned"), 9, 9).await.unwrap();
    sessions.delete_session(&key("goes")).await.unwrap();
    let (found, after) = page(sessions, FeedStart::After(before.clone()), 100).await;
    assert_eq!(BTreeSet::from_iter(found), both, "in no order, since they are of two sessions");

    clock.0.store(29 * DAY, Ordering::Relaxed);
    sessions.delete_expired(100).await.unwrap();
    let (found, _) = page(sessions, FeedStart::After(before.clone()), 100).await;
    assert_eq!(BTreeSet::from_iter(found), both, "it is kept for 30 days");

    clock.0.store(31 * DAY, Ordering::Relaxed);
    sessions.delete_expired(100).await.unwrap();
    let app = StateOwner::app("app").unwrap();
    let error = sessions.list_feed(&app, &FeedStart::After(before), 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("begin again"), "{error}");
    let (found, _) = page(sessions, FeedStart::After(after), 100).await;
    assert!(found.is_empty(), "who has read it goes on: {found:?}");

    // Who begins at the beginning has missed nothing, in pages of any size.
    create("later").await;
    for limit in 1..4 {
        let (mut all, mut start) = (Vec::new(), FeedStart::Beginning);
        loop {
            let (found, cursor) = page(sessions, start, limit).await;
            if found.is_empty() {
                break;
            }
            all.extend(found);
            start = FeedStart::After(cursor);
        }
        let pruned = all.iter().filter(|kind| **kind == "pruned").count();
        assert_eq!((pruned, all.contains(&"deleted")), (1, false), "{all:?}");
        assert_eq!(all.iter().filter(|kind| **kind == "event").count(), 2, "{all:?}");
    }
}

#[tokio::test]
async fn in_memory_removals_go_with_time() {
    let clock = Arc::new(Later::default());
    let sessions = InMemorySessionService::with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
    removals_go_with_time_and_those_who_missed_them_are_told(Arc::new(sessions), &clock).await;
}

#[tokio::test]
async fn on_sqlite_removals_go_with_time() {
    let (clock, folder) = (Arc::new(Later::default()), tempfile::tempdir().unwrap());
    let options = SqliteOptions::default().with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
    let sessions = SqliteSessionService::open(folder.path().join("a.db"), options).await.unwrap();
    removals_go_with_time_and_those_who_missed_them_are_told(Arc::new(sessions), &clock).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres_removals_go_with_time() {
    let (clock, schema) = (Arc::new(Later::default()), crate::postgres::server::Schema::new());
    let options = scratchbook::DatabaseOptions::default().with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
    let sessions = scratchbook::PostgresSessionService::open(&schema.uri(""), options).await.unwrap();
    removals_go_with_time_and_those_who_missed_them_are_told(Arc::new(sessions), &clock).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mariadb_removals_go_with_time() {
    let (clock, database) = (Arc::new(Later::default()), crate::mariadb::server::Database::emptied().await);
    let options = scratchbook::DatabaseOptions::default().with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
    let sessions = scratchbook::MySqlSessionService::open(&database.uri(), options).await.unwrap();
    removals_go_with_time_and_those_who_missed_them_are_told(Arc::new(sessions), &clock).await;
}
