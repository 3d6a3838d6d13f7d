//! Counted bytes, and quotas.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use scratchbook::artifact::ListVersionsConfig;
use scratchbook::content::Part;
use scratchbook::session::{Expiry, ForkConfig, ListSessionsConfig, Outcome, Prune, SessionServiceExt, StateOwner};
use scratchbook::store::Limits;
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, InMemorySessionService, Result, Session,
    SessionKey, SessionService, StateDelta, Store, connect,
};
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Makes a test of each promise for each store, all with the same quotas.
macro_rules! on_every_store {
    ($($promise:ident)*) => {
        on_every_store!(memory, crate::quotas::memory, $($promise)*);
        on_every_store!(sqlite, crate::quotas::sqlite, $($promise)*);
        #[cfg(feature = "mysql")]
        on_every_store!(mariadb, crate::quotas::mariadb, $($promise)*);
        #[cfg(feature = "postgres")]
        on_every_store!(postgres, crate::quotas::postgres, $($promise)*);
    };
    ($store:ident, $open:path, $($promise:ident)*) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                let (store, _guard) = $open().await;
                super::$promise(store).await;
            })*
        }
    };
}

on_every_store! {
    what_a_session_stores_is_counted_to_the_byte
    sessions_end_at_their_quota_and_come_back_with_what_is_deleted
    a_fork_is_charged
    appends_end_at_the_quota_of_bytes_and_a_retry_needs_no_room
    artifacts_end_at_their_quota
    racing_appends_stay_within_a_quota
    writes_whose_callers_have_left_stay_within_a_quota
}

const QUOTAS: &str = "user_sessions=3&app_sessions=4&user_bytes=4000&app_bytes=6000&user_artifacts=2&app_artifacts=3&artifact_bytes=3000";

async fn memory() -> (Store, ()) {
    let limits = Limits::default().with_user_sessions(3).with_app_sessions(4).with_user_bytes(4000);
    let limits = limits.with_app_bytes(6000).with_user_artifacts(2).with_app_artifacts(3).with_artifact_bytes(3000);
    (Store::new(Arc::new(InMemorySessionService::new().with_limits(limits))), ())
}

async fn sqlite() -> (Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    (connect(&format!("sqlite://{}?{QUOTAS}", path.display())).await.unwrap(), folder)
}

#[cfg(feature = "mysql")]
async fn mariadb() -> (Store, crate::mariadb::server::TestDatabase) {
    let database = crate::mariadb::server::TestDatabase::emptied().await;
    (connect(&format!("{}?{QUOTAS}", database.uri())).await.unwrap(), database)
}

#[cfg(feature = "postgres")]
async fn postgres() -> (Store, crate::postgres::server::TestSchema) {
    let schema = crate::postgres::server::TestSchema::new();
    (connect(&schema.uri(&format!("&pool_size=4&{QUOTAS}"))).await.unwrap(), schema)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) {
    let error = result.expect_err("there is room");
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    let message = error.to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} are to be in: {message}");
}

/// Returns an event of about this many bytes.
fn event(id: &str, bytes: usize) -> Event {
    let delta = StateDelta::new().with("text", "x".repeat(bytes)).unwrap();
    Event::new("agent").with_id(id).with_timestamp(1.0).with_state_delta(delta)
}

async fn append(store: &Store, key: &SessionKey, event: Event) -> Result<Outcome> {
    Ok(store.sessions.append(key, event, AppendOptions::default()).await?.outcome)
}

async fn create(store: &Store, user: &str, id: &str) -> Result<Session> {
    store.sessions.create_session("app", user, CreateSessionConfig::default().with_session_id(id)).await
}

async fn get(store: &Store, key: &SessionKey) -> Session {
    store.sessions.get_session(key, &GetSessionConfig::default()).await.unwrap().unwrap()
}

/// Returns the size of a session's rows, computed from what is read.
pub(crate) async fn stored(store: &Store, key: &SessionKey) -> u64 {
    let (session, initial) = (get(store, key).await, store.sessions.get_initial_state(key).await.unwrap().unwrap());
    let text = |event: &Event| {
        let mut event = event.clone();
        event.seq = None;
        serde_json::to_string(&event).unwrap().len()
    };
    let events: usize = session.events().iter().map(|event| text(event)).sum();
    let initial = if initial.state.is_empty() { 0 } else { json!(initial.state).to_string().len() };
    (events + initial) as u64
}

async fn what_a_session_stores_is_counted_to_the_byte(store: Store) {
    let assert_counted = async |key: &SessionKey| {
        let (bytes, session) = (stored(&store, key).await, get(&store, key).await);
        assert_eq!(session.stored_bytes(), Some(bytes), "{key}");
        let listed = store.sessions.list_sessions("app", &ListSessionsConfig::default()).await.unwrap().sessions;
        let listed = listed.iter().find(|listed| listed.key() == key).unwrap();
        assert_eq!(listed.stored_bytes(), Some(bytes), "{key} in a list");
        bytes
    };
    let config = CreateSessionConfig::default().with_session_id("s").with_state(json!({"a \"b\"": "\u{1f4da}\n"}));
    let events = vec![event("e1", 10), event("e1", 10), event("e2", 20)];
    let made = store.sessions.create_session("app", "alice", config.with_events(events)).await.unwrap();
    assert!(made.stored_bytes().unwrap() > 100);
    let key = made.key().clone();
    assert_counted(&key).await;
    assert_eq!(append(&store, &key, event("e3", 300)).await.unwrap(), Outcome::Stored);
    assert_eq!(append(&store, &key, event("e3", 300)).await.unwrap(), Outcome::Replayed);
    let counting = StateDelta::new().with_increment("n", 1).unwrap().with("user:u", "theirs").unwrap();
    append(&store, &key, Event::new("agent").with_state_delta(counting)).await.unwrap();
    let all = assert_counted(&key).await;
    for (id, at) in [("whole", None), ("part", Some(2))] {
        let config = at.map_or_else(ForkConfig::default, ForkConfig::at).with_session_id(id);
        let fork = store.sessions.fork_session(&key, config).await.unwrap();
        let bytes = assert_counted(fork.key()).await;
        assert!(if at.is_none() { bytes == all } else { bytes < all }, "{id}");
    }
    assert_eq!(store.sessions.prune(Prune::events(&key, 3), 1).await.unwrap(), 1);
    assert_counted(&key).await;
    assert_eq!(store.sessions.prune(Prune::events(&key, 9), 9).await.unwrap(), 3);
    assert_counted(&key).await;
    store.sessions.delete_session(&key).await.unwrap();
    let plain = create(&store, "alice", "s").await.unwrap();
    assert_eq!(plain.stored_bytes(), Some(0), "a session made again is counted again");
    assert_counted(plain.key()).await;
}

async fn sessions_end_at_their_quota_and_come_back_with_what_is_deleted(store: Store) {
    for id in ["a", "b", "c"] {
        create(&store, "alice", id).await.unwrap();
    }
    assert_refused(create(&store, "alice", "d").await, &["'alice'", "user_sessions is 3", "would be 4"]);
    let there = create(&store, "alice", "a").await.unwrap_err();
    assert_eq!(there.kind(), ErrorKind::AlreadyExists, "one that is there is told as such: {there}");
    let key = SessionKey::new("app", "alice", "a").unwrap();
    assert_refused(store.sessions.fork_session(&key, ForkConfig::default()).await, &["user_sessions"]);
    create(&store, "bob", "a").await.unwrap();
    assert_refused(create(&store, "carol", "a").await, &["the app 'app'", "app_sessions is 4"]);
    let other = store.sessions.create_session("other", "carol", CreateSessionConfig::default()).await;
    other.expect("another app has a quota of its own");
    store.sessions.delete_session(&key).await.unwrap();
    create(&store, "alice", "d").await.unwrap();
    assert_refused(create(&store, "alice", "e").await, &["user_sessions"]);
    let key = SessionKey::new("app", "alice", "d").unwrap();
    store.sessions.set_expiry(&key, Some(Expiry::At(1.0))).await.unwrap();
    create(&store, "alice", "e").await.expect("one that has expired is as if deleted");
    store.sessions.delete_user("app", "alice").await.unwrap();
    for id in ["a", "b", "c"] {
        create(&store, "alice", id).await.expect("nothing is left of a user who was deleted");
    }
}

async fn a_fork_is_charged(store: Store) {
    let key = create(&store, "alice", "s").await.unwrap().key().clone();
    append(&store, &key, event("e1", 1500)).await.unwrap();
    let fork = store.sessions.fork_session(&key, ForkConfig::default()).await.unwrap();
    let again = store.sessions.fork_session(&key, ForkConfig::default().with_session_id("again"));
    assert_refused(again.await, &["user_bytes is 4000"]);
    let again = SessionKey::new("app", "alice", "again").unwrap();
    assert!(store.sessions.get_session(&again, &GetSessionConfig::default()).await.unwrap().is_none());
    store.sessions.fork_session(&key, ForkConfig::at(0).with_session_id("empty")).await.expect("it has no events");
    store.sessions.delete_session(fork.key()).await.unwrap();
    let again = store.sessions.fork_session(&key, ForkConfig::default().with_session_id("again"));
    again.await.expect("a deleted fork gives its bytes back");
}

async fn appends_end_at_the_quota_of_bytes_and_a_retry_needs_no_room(store: Store) {
    let key = create(&store, "alice", "s").await.unwrap().key().clone();
    for id in ["e1", "e2"] {
        append(&store, &key, event(id, 1500)).await.unwrap();
    }
    let bytes = get(&store, &key).await.stored_bytes().unwrap();
    assert_refused(append(&store, &key, event("e3", 1500)).await, &["'alice'", "user_bytes", &bytes.to_string()]);
    let counting = StateDelta::new().with("text", "x".repeat(1500)).unwrap().with_increment("n", 1).unwrap();
    let resolved = append(&store, &key, Event::new("agent").with_state_delta(counting)).await;
    assert_refused(resolved, &["user_bytes"]);
    assert_eq!(append(&store, &key, event("e2", 1500)).await.unwrap(), Outcome::Replayed);
    assert_eq!(get(&store, &key).await.events().len(), 2, "what was refused left nothing");
    append(&store, &key, event("small", 1)).await.expect("what fits is written");
    let config = CreateSessionConfig::default().with_session_id("t").with_state(json!({"text": "x".repeat(1500)}));
    assert_refused(store.sessions.create_session("app", "alice", config.clone()).await, &["user_bytes"]);
    store.sessions.create_session("app", "bob", config.with_session_id("u")).await.unwrap();
    let bobs = create(&store, "bob", "v").await.unwrap().key().clone();
    assert_refused(append(&store, &bobs, event("e1", 1500)).await, &["app_bytes is 6000"]);
    assert_eq!(store.sessions.prune(Prune::events(&key, 3), 9).await.unwrap(), 2);
    append(&store, &key, event("e3", 1000)).await.expect("pruning gives back");
    let owner = StateOwner::user("app", "alice").unwrap();
    let delta = StateDelta::new().with("theirs", 1).unwrap();
    store.sessions.put_state(&owner, delta, "me".into()).await.expect("state outside of sessions has no quota");
}

async fn artifacts_end_at_their_quota(store: Store) {
    let save = async |user: &str, session: &str, name: &str, bytes: usize| {
        let key = SessionKey::new("app", user, session).unwrap();
        store.artifacts.save_artifact(&key, name, Part::text("x".repeat(bytes)), Map::new()).await
    };
    let key = create(&store, "alice", "s").await.unwrap().key().clone();
    assert_eq!(save("alice", "s", "a.txt", 1900).await.unwrap(), 0);
    assert_refused(save("alice", "s", "a.txt", 2900).await, &["user_bytes"]);
    assert_refused(append(&store, &key, event("e", 2900)).await, &["user_bytes"]);
    assert_eq!(save("alice", "s", "user:b.txt", 1).await.unwrap(), 0);
    assert_refused(save("alice", "s", "a.txt", 1).await, &["user_artifacts is 2"]);
    let fork = store.sessions.fork_session(&key, ForkConfig::default()).await;
    assert_refused(fork, &["user_artifacts"]);
    assert_eq!(save("bob", "s", "user:b.txt", 1).await.unwrap(), 0);
    assert_refused(save("bob", "s", "user:b.txt", 1).await, &["app_artifacts is 3"]);
    store.artifacts.delete_artifact(&key, "a.txt").await.unwrap();
    assert_eq!(save("alice", "s", "a.txt", 1900).await.unwrap(), 0);
    store.sessions.delete_session(&key).await.unwrap();
    assert_eq!(save("alice", "t", "c.txt", 1900).await.unwrap(), 0);
}

async fn racing_appends_stay_within_a_quota(store: Store) {
    let key = create(&store, "alice", "s").await.unwrap().key().clone();
    let mut writers = JoinSet::new();
    for n in 0..40 {
        let (store, key) = (store.clone(), key.clone());
        writers.spawn(async move { append(&store, &key, event(&format!("e{n}"), 200)).await });
    }
    let done = writers.join_all().await;
    let (stored, refused): (Vec<_>, Vec<_>) = done.into_iter().partition(|result| result.is_ok());
    let bytes = get(&store, &key).await.stored_bytes().unwrap();
    assert!(bytes <= 4000, "{bytes}");
    assert!(stored.len() > 5 && refused.len() > 5, "{} were stored", stored.len());
    refused.into_iter().for_each(|refused| assert_refused(refused, &["user_bytes is 4000"]));
}

async fn writes_whose_callers_have_left_stay_within_a_quota(store: Store) {
    let key = create(&store, "alice", "s").await.unwrap().key().clone();
    append(&store, &key, event("e", 100)).await.unwrap();
    // The total is cached for a while now, so each of these writes has begun when its caller drops it.
    for n in 0..30 {
        drop(create(&store, "alice", &format!("s{n}")).now_or_never());
        drop(append(&store, &key, event(&format!("e{n}"), 200)).now_or_never());
        let counting = StateDelta::new().with("text", "x".repeat(200)).unwrap().with_increment("n", 1).unwrap();
        let resolved = Event::new("agent").with_id(format!("r{n}")).with_timestamp(1.0).with_state_delta(counting);
        drop(append(&store, &key, resolved).now_or_never());
        let artifact = store.artifacts.save_artifact(&key, "a.txt", Part::text("x"), Map::new());
        drop(artifact.now_or_never());
        tokio::task::yield_now().await;
    }
    let config = ListSessionsConfig::default().with_user_id("alice");
    for _ in 0..40 {
        sleep(Duration::from_millis(25)).await;
        let sessions = store.sessions.list_sessions("app", &config).await.unwrap().sessions.len();
        let artifacts =
            store.artifacts.list_artifact_versions(&key, "a.txt", &ListVersionsConfig::default()).await.unwrap().len();
        let bytes = get(&store, &key).await.stored_bytes().unwrap();
        assert!(sessions <= 3 && artifacts <= 2 && bytes <= 4000, "{sessions} {artifacts} {bytes}");
    }
    let there = store.sessions.list_sessions("app", &config).await.unwrap().sessions;
    assert_eq!(there.len(), 3, "what has room is written, whether its caller is there or not");
    for session in there {
        store.sessions.delete_session(session.key()).await.unwrap();
    }
    create(&store, "alice", "s").await.expect("nothing is charged for what has gone");
    append(&store, &key, event("last", 3500)).await.expect("nothing is charged for what has gone");
}

/// Removes the counts of all sessions. An older program that still runs after the migration leaves such rows, because
/// it does not count what it appends.
async fn uncounted<T>(store: (Store, T), lose: impl AsyncFnOnce(&T)) {
    let (store, place) = store;
    let session = create(&store, "alice", "s").await.unwrap();
    for n in 1..=6 {
        append(&store, session.key(), event(&format!("e{n}"), 100 * n)).await.unwrap();
    }
    lose(&place).await;
    assert_eq!(get(&store, session.key()).await.stored_bytes(), Some(0));
    assert_eq!(store.sessions.prune(Prune::events(session.key(), 4), 2).await.unwrap(), 2, "not the last step");
    assert_eq!(store.sessions.prune(Prune::events(session.key(), 4), 2).await.unwrap(), 1);
    let bytes = stored(&store, session.key()).await;
    assert_eq!(get(&store, session.key()).await.stored_bytes(), Some(bytes), "counted again");
}

#[tokio::test]
async fn pruning_counts_on_sqlite_what_an_older_program_did_not() {
    let database = crate::database::DatabaseFile::new();
    let uri = format!("sqlite://{}", database.path.display());
    uncounted((connect(&uri).await.unwrap(), database), async |database| {
        database.sql("UPDATE sessions SET bytes = 0");
    })
    .await;
}
