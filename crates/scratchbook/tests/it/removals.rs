//! Records of removals, which the feed drops after some time, and readers that have missed such records, on every
//! store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use scratchbook::artifact::ArtifactService;
use scratchbook::content::Part;
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::session::{FeedCommit, FeedCursor, FeedStart, Prune, StateOwner};
use scratchbook::store::{Limits, SqliteOptions};
use scratchbook::{
    CreateSessionConfig, ErrorKind, Event, GetSessionConfig, InMemorySessionService, SessionKey, SessionService,
    SessionServiceExt, SqliteSessionService, StateDelta, Store, conformance,
};
use serde_json::{Map, json};

use crate::database::{self, DatabaseFile, append, setting};

pub(crate) const DAY: u64 = 24 * 3600;

/// The clock of the machine, put forward by some days.
#[derive(Debug, Default)]
pub(crate) struct LaterClock(pub(crate) AtomicU64);

impl Environment for LaterClock {
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

async fn removals_go_with_time_and_those_who_missed_them_are_told(
    sessions: Arc<dyn SessionService>,
    clock: &LaterClock,
) {
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
    sessions.prune(Prune::events(&key("pruned"), 9), 9).await.unwrap();
    sessions.delete_session(&key("goes")).await.unwrap();
    let (found, after) = page(sessions, FeedStart::After(before.clone()), 100).await;
    assert_eq!(BTreeSet::from_iter(found), both, "in no order, since they are of two sessions");

    clock.0.store(29 * DAY, Ordering::Relaxed);
    sessions.prune(Prune::Expired, 100).await.unwrap();
    let (found, _) = page(sessions, FeedStart::After(before.clone()), 100).await;
    assert_eq!(BTreeSet::from_iter(found), both, "it is kept for 30 days");
    settled(sessions).await;
    let (_, after) = page(sessions, FeedStart::After(after), 100).await;

    clock.0.store(31 * DAY, Ordering::Relaxed);
    sessions.prune(Prune::Expired, 100).await.unwrap();
    let app = StateOwner::app("app").unwrap();
    let error = sessions.list_feed(&app, &FeedStart::After(before), 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("begin again"), "{error}");
    let (found, _) = page(sessions, FeedStart::After(after), 100).await;
    assert!(found.is_empty(), "who has read it goes on: {found:?}");

    // A reader that starts at the beginning has missed nothing, with pages of any size.
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

async fn who_began_before_removals_go_reads_on(sessions: Arc<dyn SessionService>, clock: &LaterClock) {
    let sessions = &*sessions;
    let key = |id: &str| SessionKey::new("app", "alice", id).unwrap();
    for id in ["goes", "stays"] {
        let config = CreateSessionConfig::default().with_session_id(id);
        sessions.create_session("app", "alice", config).await.unwrap();
        append(sessions, &key(id), setting("n", 1)).await.unwrap();
    }
    append(sessions, &key("stays"), setting("n", 2)).await.unwrap();
    sessions.delete_session(&key("goes")).await.unwrap();
    append(sessions, &key("stays"), setting("n", 3)).await.unwrap();
    settled(sessions).await;

    clock.0.store(31 * DAY, Ordering::Relaxed);
    let (first, cursor) = page(sessions, FeedStart::Beginning, 1).await;
    sessions.prune(Prune::Expired, 100).await.unwrap();
    let (second, cursor) = page(sessions, FeedStart::After(cursor), 1).await;
    let (rest, _) = page(sessions, FeedStart::After(cursor), 9).await;
    // The removal and the events belong to different sessions, so either may come first.
    let all = [first, second, rest].concat();
    assert_eq!(all.iter().filter(|kind| **kind == "event").count(), 3, "what it has not read is there: {all:?}");

    // The reader misses a removal that is made and dropped after it has begun.
    let (_, cursor) = page(sessions, FeedStart::Beginning, 1).await;
    sessions.delete_session(&key("stays")).await.unwrap();
    settled(sessions).await;
    clock.0.store(62 * DAY, Ordering::Relaxed);
    sessions.prune(Prune::Expired, 100).await.unwrap();
    let app = StateOwner::app("app").unwrap();
    let error = sessions.list_feed(&app, &FeedStart::After(cursor), 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
}

async fn one_call_lets_all_old_removals_go(sessions: Arc<dyn SessionService>, clock: &LaterClock) {
    let remove = async |n: usize| {
        let (id, user) = (format!("s{n}"), format!("user{}", n % 3));
        let config = CreateSessionConfig::default().with_session_id(&id);
        let session = sessions.create_session("app", &user, config).await.unwrap();
        sessions.delete_session(session.key()).await.unwrap();
    };
    for chunk in 0..60 {
        futures_util::future::join_all((0..20).map(|n| remove(chunk * 20 + n))).await;
    }
    let count = async || {
        let (mut count, mut start) = (0, FeedStart::Beginning);
        loop {
            let (found, cursor) = page(&*sessions, start, 1000).await;
            if found.is_empty() {
                return count;
            }
            count += found.len();
            start = FeedStart::After(cursor);
        }
    };
    assert_eq!(count().await, 1200);
    settled(&*sessions).await;
    clock.0.store(31 * DAY, Ordering::Relaxed);
    assert_eq!(sessions.prune(Prune::Expired, 100).await.unwrap(), 0, "none has expired");
    assert_eq!(count().await, 0);
}

/// Waits until no earlier transaction is open on the server, because PostgreSQL's cursors depend on these transactions.
async fn settled(sessions: &dyn SessionService) {
    let place = |cursor: &FeedCursor| {
        let mut parts = cursor.as_str().rsplit(' ').next()?.split(':');
        Some((parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?))
    };
    let (_, first) = page(sessions, FeedStart::Now, 1).await;
    loop {
        let (_, now) = page(sessions, FeedStart::Now, 1).await;
        match (place(&first), place(&now)) {
            (Some((_, end)), Some((from, _))) if from < end => tokio::time::sleep(Duration::from_millis(5)).await,
            _ => return,
        }
    }
}

/// Makes tests of a promise, each on its own store with a clock that can be put forward.
macro_rules! on_every_store {
    ($($promise:ident)*) => {$(
        mod $promise {
            use super::*;

            #[tokio::test]
            async fn in_memory() {
                let clock = Arc::new(LaterClock::default());
                let sessions = InMemorySessionService::with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
                super::$promise(Arc::new(sessions), &clock).await;
            }

            #[tokio::test]
            async fn on_sqlite() {
                let (clock, folder) = (Arc::new(LaterClock::default()), tempfile::tempdir().unwrap());
                let options = SqliteOptions::default().with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
                let sessions = SqliteSessionService::open(folder.path().join("a.db"), options).await.unwrap();
                super::$promise(Arc::new(sessions), &clock).await;
            }

            #[cfg(feature = "postgres")]
            #[tokio::test]
            async fn on_postgres() {
                let schema = crate::postgres::server::TestSchema::new();
                let (sessions, clock) = postgres(&schema).await;
                super::$promise(Arc::new(sessions), &clock).await;
            }

            #[cfg(feature = "mysql")]
            mod mariadb {
                use super::*;

                #[tokio::test]
                async fn kept() {
                let clock = Arc::new(LaterClock::default());
                let database = crate::mariadb::server::TestDatabase::emptied().await;
                let options = scratchbook::store::DatabaseOptions::default();
                let options = options.with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
                let sessions = scratchbook::store::MySqlSessionService::open(&database.uri(), options).await.unwrap();
                super::super::$promise(Arc::new(sessions), &clock).await;
            }
            }
        }
    )*};
}

on_every_store! {
    removals_go_with_time_and_those_who_missed_them_are_told
    who_began_before_removals_go_reads_on
    one_call_lets_all_old_removals_go
}

#[cfg(feature = "postgres")]
async fn postgres(
    schema: &crate::postgres::server::TestSchema,
) -> (scratchbook::store::PostgresSessionService, Arc<LaterClock>) {
    let clock = Arc::new(LaterClock::default());
    let mut options =
        scratchbook::store::DatabaseOptions::default().with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
    options.schema = Some(schema.name().to_owned());
    (scratchbook::store::PostgresSessionService::open(schema.server(), options).await.unwrap(), clock)
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_removal_that_was_slow_to_commit_is_not_missed_in_silence() {
    let schema = crate::postgres::server::TestSchema::new();
    let (sessions, clock) = postgres(&schema).await;
    let create = async |id: &str| {
        let config = CreateSessionConfig::default().with_session_id(id);
        sessions.create_session("app", "alice", config).await.unwrap().key().clone()
    };
    let (first, quick) = (create("first").await, create("quick").await);
    sessions.delete_session(&first).await.unwrap();
    // A transaction that stays open makes another removal, before a removal that is committed at once.
    let slow = crate::postgres::server::client(schema.server()).await;
    let name = schema.name();
    let half = format!(
        "BEGIN; INSERT INTO {name}.removals (app_name, user_id, session_id, kind, count, time, position, xid)
         SELECT app_name, user_id, 'slow', kind, 0, time, nextval('{name}.positions'), pg_current_xact_id()
         FROM {name}.removals WHERE session_id = 'first'"
    );
    slow.batch_execute(&half).await.unwrap();
    sessions.delete_session(&quick).await.unwrap();
    let (found, cursor) = page(&sessions, FeedStart::Beginning, 9).await;
    assert_eq!(found, ["deleted", "deleted"], "the slow one is not there yet");
    slow.batch_execute("COMMIT").await.unwrap();
    let (found, _) = page(&sessions, FeedStart::After(cursor.clone()), 9).await;
    assert_eq!(found, ["deleted"], "the slow one");
    settled(&sessions).await;

    clock.0.store(31 * DAY, Ordering::Relaxed);
    sessions.prune(Prune::Expired, 100).await.unwrap();
    let app = StateOwner::app("app").unwrap();
    let error = sessions.list_feed(&app, &FeedStart::After(cursor), 9).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
}

#[tokio::test]
async fn a_write_over_its_quota_lets_no_removals_go() {
    let (clock, folder) = (Arc::new(LaterClock::default()), tempfile::tempdir().unwrap());
    let options = SqliteOptions::default().with_environment(Arc::clone(&clock) as Arc<dyn Environment>);
    let options = options.with_limits(Limits::default().with_user_sessions(1));
    let sessions = SqliteSessionService::open(folder.path().join("a.db"), options).await.unwrap();
    let create = async || sessions.create_session("app", "alice", CreateSessionConfig::default()).await;
    sessions.delete_session(create().await.unwrap().key()).await.unwrap();
    create().await.unwrap();
    clock.0.store(31 * DAY, Ordering::Relaxed);
    assert_eq!(create().await.unwrap_err().kind(), ErrorKind::ResourceExhausted);
    assert_eq!(page(&sessions, FeedStart::Beginning, 9).await.0, ["deleted"]);
    sessions.prune(Prune::Expired, 9).await.unwrap();
    assert!(page(&sessions, FeedStart::Beginning, 9).await.0.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_services_on_one_file_are_followed_to_an_exact_copy() {
    let folder = tempfile::tempdir().unwrap();
    let mut stores = Vec::new();
    for _ in 0..2 {
        let options = SqliteOptions::default();
        let service = SqliteSessionService::open(folder.path().join("a.db"), options).await.unwrap();
        stores.push(Store::new(Arc::new(service)));
    }
    conformance::many_writers_are_followed(&stores).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_services_on_one_schema_are_followed_to_an_exact_copy() {
    let schema = crate::postgres::server::TestSchema::new();
    let stores = [schema.open().await, schema.open().await].map(|service| Store::new(Arc::new(service)));
    conformance::many_writers_are_followed(&stores).await;
}

#[cfg(feature = "mysql")]
mod mariadb {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn two_services_are_followed_to_an_exact_copy() {
        let database = crate::mariadb::server::TestDatabase::emptied().await;
        let mut stores = Vec::new();
        for _ in 0..2 {
            let service = scratchbook::store::MySqlSessionService::connect(&database.uri()).await.unwrap();
            stores.push(Store::new(Arc::new(service)));
        }
        conformance::many_writers_are_followed(&stores).await;
    }
}

/// An older version took such ids, so they may be there.
#[tokio::test]
async fn what_has_an_id_that_no_url_can_name_is_read_and_removed() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    let session = database::create(&service, "old", json!({"a": 1, "user:b": 2})).await;
    database::append(&service, session.key(), Event::new("agent").with_id("old")).await.unwrap();
    service.save_artifact(session.key(), "old", Part::text("x"), Map::new()).await.unwrap();
    service.close().await.unwrap();
    database.sql(
        "UPDATE sessions SET id = '..', user_id = '..'; UPDATE user_states SET user_id = '..';
         UPDATE events SET session_id = '..', user_id = '..', id = '..', event = replace(event, '\"id\":\"old\"', '\"id\":\"..\"');
         UPDATE session_states SET session_id = '..', user_id = '..';
         UPDATE initial_states SET session_id = '..', user_id = '..';
         UPDATE artifacts SET session_id = '..', user_id = '..', filename = '..'",
    );
    let service = database.open().await;
    let key = SessionKey::new("app", "..", "..").unwrap();
    let found = service.get_session(&key, &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(
        (json!(found.state()), found.events().get(0).unwrap().id.as_str()),
        (json!({"a": 1, "user:b": 2}), "..")
    );
    assert!(service.load_artifact(&key, "..", None).await.unwrap().is_some());
    service.delete_artifact(&key, "..").await.unwrap();
    assert_eq!(service.load_artifact(&key, "..", None).await.unwrap(), None);
    let mut delta = StateDelta::new();
    delta.remove("b").unwrap();
    service.put_state(&key.user(), delta, "admin".into()).await.unwrap();
    assert_eq!(json!(service.get_user_state("app", "..").await.unwrap()), json!({}));
    service.delete_session(&key).await.unwrap();
    service.delete_user("app", "..").await.unwrap();
    assert!(service.get_session(&key, &GetSessionConfig::default()).await.unwrap().is_none());
    service.close().await.unwrap();
}
