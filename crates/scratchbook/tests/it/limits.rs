//! Limits that differ from the default.

use std::sync::Arc;

use scratchbook::content::Part;
use scratchbook::session::{ForkConfig, Outcome, SessionUpdate, StateOwner};
use scratchbook::store::{Limits, SqliteOptions};
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, InMemorySessionService, Session,
    SessionKey, SessionService, SqliteSessionService, StateDelta, Store, connect,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Makes a test of each promise for each store, which allows three events per session and four keys per scope.
macro_rules! on_every_store {
    ($($promise:ident)*) => {
        on_every_store!(memory, crate::limits::memory, $($promise)*);
        on_every_store!(sqlite, crate::limits::sqlite, $($promise)*);
        #[cfg(feature = "mysql")]
        on_every_store!(mariadb, crate::limits::mariadb, $($promise)*);
        #[cfg(feature = "postgres")]
        on_every_store!(postgres, crate::limits::postgres, $($promise)*);
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
    a_session_has_no_more_events_than_it_may
    small_limits_are_exact
    racing_appends_stop_at_the_last_event
    a_session_made_again_is_counted_anew
}

const LIMITS: &str =
    "events_per_session=3&keys_per_scope=4&value_bytes=20&delta_bytes=61&event_bytes=1000&artifact_bytes=20";

async fn memory() -> (Store, ()) {
    let limits = Limits::default().with_events_per_session(3).with_keys_per_scope(4);
    let limits = limits.with_value_bytes(20).with_delta_bytes(61).with_event_bytes(1000).with_artifact_bytes(20);
    (Store::new(Arc::new(InMemorySessionService::new().with_limits(limits))), ())
}

async fn sqlite() -> (Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    (connect(&format!("sqlite://{}?{LIMITS}", path.display())).await.unwrap(), folder)
}

#[cfg(feature = "mysql")]
async fn mariadb() -> (Store, crate::mariadb::server::TestDatabase) {
    let database = crate::mariadb::server::TestDatabase::emptied().await;
    (connect(&format!("{}?{LIMITS}", database.uri())).await.unwrap(), database)
}

#[cfg(feature = "postgres")]
async fn postgres() -> (Store, crate::postgres::server::TestSchema) {
    let schema = crate::postgres::server::TestSchema::new();
    (connect(&schema.uri(&format!("&pool_size=4&{LIMITS}"))).await.unwrap(), schema)
}

fn event(state: Value) -> Event {
    Event::new("agent").with_timestamp(1.0).with_state_delta(StateDelta::try_from(state).unwrap())
}

fn removing(key: &str) -> Event {
    let mut delta = StateDelta::new();
    delta.remove(key).unwrap();
    Event::new("agent").with_state_delta(delta)
}

async fn refused(sessions: &dyn SessionService, key: &SessionKey, event: Event, word: &str) {
    let error = sessions.append(key, event, AppendOptions::default()).await.unwrap_err();
    let kind = if word.ends_with("_bytes") { ErrorKind::PayloadTooLarge } else { ErrorKind::ResourceExhausted };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(word), "'{word}' is to be in: {error}");
}

fn renaming() -> AppendOptions {
    AppendOptions::default().with_update(SessionUpdate::default().with_title("new"))
}

async fn append(sessions: &dyn SessionService, key: &SessionKey, event: Event) -> Outcome {
    sessions.append(key, event, AppendOptions::default()).await.unwrap().outcome
}

async fn get(sessions: &dyn SessionService, key: &SessionKey) -> Session {
    sessions.get_session(key, &GetSessionConfig::default()).await.unwrap().unwrap()
}

/// The fourth event is refused, a retry of the third is accepted, and a session that is created again starts from zero.
async fn a_session_has_no_more_events_than_it_may(store: Store) {
    let sessions = store.sessions.as_ref();
    let hello = |id: &str| Event::new("user").with_id(id).with_timestamp(1.0);
    let config = |count: usize| {
        let events = (0..count).map(|n| hello(&format!("e{n}"))).chain([hello("e0")]).collect();
        CreateSessionConfig::default().with_session_id("s").with_events(events)
    };
    let error = sessions.create_session("app", "alice", config(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    let key = sessions.create_session("app", "alice", config(3)).await.unwrap().key().clone();
    refused(sessions, &key, hello("e3"), "events_per_session").await;
    refused(sessions, &key, event(json!({"a": 1, "user:a": 1})), "events_per_session").await;
    let increment = StateDelta::new().with_increment("app:n", 1).unwrap();
    refused(sessions, &key, Event::new("agent").with_state_delta(increment), "number 4").await;
    let error = sessions.append(&key, hello("e3"), renaming()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    assert_eq!(append(sessions, &key, hello("e2")).await, Outcome::Replayed);
    let session = get(sessions, &key).await;
    assert_eq!((session.events().len(), session.state().len(), session.title()), (3, 0, None));
    sessions.delete_session(&key).await.unwrap();
    sessions.create_session("app", "alice", config(0)).await.unwrap();
    assert_eq!(append(sessions, &key, hello("e1")).await, Outcome::Stored);
}

/// Each limit is met exactly, and one byte or key more is refused.
async fn small_limits_are_exact(store: Store) {
    let sessions = store.sessions.as_ref();
    let session = |id: &str| CreateSessionConfig::default().with_session_id(id);
    let key = sessions.create_session("app", "alice", session("s1")).await.unwrap().key().clone();
    refused(sessions, &key, event(json!({"a": "x".repeat(19)})), "value_bytes").await;
    refused(sessions, &key, event(json!({"a": "x".repeat(18), "b": "x".repeat(18), "cc": [1, 2]})), "delta_bytes")
        .await;
    refused(sessions, &key, Event::new("agent").with_content("x".repeat(1000)), "event_bytes").await;
    let save = |text: &str| store.artifacts.save_artifact(&key, "f", Part::text(text), Default::default());
    // {"text":"1234567"} and {}
    let error = save("12345678").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PayloadTooLarge, "{error}");
    assert_eq!(save("12345678").await.unwrap_err().to_string(), error.to_string(), "nothing was saved");
    assert_eq!(save("1234567").await.unwrap(), 0);
    let most = json!({"a": "x".repeat(18), "b": "x".repeat(18), "c": [1, 2]});
    assert_eq!(most.to_string().len(), 61);
    append(sessions, &key, event(most)).await;
    append(sessions, &key, event(json!({"d": 1}))).await;
    refused(sessions, &key, event(json!({"e": 1})), "'e'").await;
    let error = sessions.append(&key, event(json!({"e": 1})), renaming()).await.unwrap_err();
    assert_eq!((error.kind(), get(sessions, &key).await.title()), (ErrorKind::ResourceExhausted, None), "{error}");
    append(sessions, &key, removing("d")).await;

    // A removed key counts like a key that never existed.
    let app = StateOwner::app("app").unwrap();
    let put = |state: Value| sessions.put_state(&app, StateDelta::try_from(state).unwrap(), "me".into());
    put(json!({"a": 1, "b": 2, "c": 3, "d": 4})).await.unwrap();
    for round in 0..3 {
        assert_eq!(put(json!({"e": round})).await.unwrap_err().kind(), ErrorKind::ResourceExhausted);
        let mut removal = StateDelta::new();
        removal.remove("d").unwrap();
        sessions.put_state(&app, removal, "me".into()).await.unwrap();
        put(json!({"d": round})).await.unwrap();
    }
    assert_eq!(Value::from(sessions.get_state(&app).await.unwrap()), json!({"a": 1, "b": 2, "c": 3, "d": 2}));
}

/// The counts of a deleted session do not apply to a session that is created at its address, or forked to it.
async fn a_session_made_again_is_counted_anew(store: Store) {
    let sessions = store.sessions.as_ref();
    let config = |state: Value| CreateSessionConfig::default().with_session_id("s").with_state(state);
    let key = sessions.create_session("app", "alice", config(json!({}))).await.unwrap().key().clone();
    append(sessions, &key, event(json!({"a": 1}))).await;
    sessions.delete_session(&key).await.unwrap();
    let four = json!({"a": 1, "b": 2, "c": 3, "d": 4});
    sessions.create_session("app", "alice", config(four.clone())).await.unwrap();
    refused(sessions, &key, event(json!({"e": 5})), "'e'").await;

    let other = CreateSessionConfig::default().with_session_id("other").with_state(four);
    let other = sessions.create_session("app", "alice", other).await.unwrap().key().clone();
    sessions.delete_session(&key).await.unwrap();
    sessions.create_session("app", "alice", config(json!({}))).await.unwrap();
    append(sessions, &key, event(json!({"a": 1}))).await;
    sessions.delete_session(&key).await.unwrap();
    sessions.fork_session(&other, ForkConfig::default().with_session_id("s")).await.unwrap();
    refused(sessions, &key, event(json!({"e": 5})), "'e'").await;
}

/// After concurrent appends, the session has the maximum number of events, without a gap.
async fn racing_appends_stop_at_the_last_event(store: Store) {
    let created = store.sessions.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    let mut appends = JoinSet::new();
    for n in 0..12 {
        let (sessions, key) = (Arc::clone(&store.sessions), created.key().clone());
        appends.spawn(async move {
            match sessions.append(&key, event(json!({"n": n})), AppendOptions::default()).await {
                Ok(_) => 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
                    0
                }
            }
        });
    }
    assert_eq!(appends.join_all().await.into_iter().sum::<usize>(), 3);
    let session = get(store.sessions.as_ref(), created.key()).await;
    assert_eq!(session.events().iter().map(|event| event.seq.unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Data from before a limit was lowered can be read, written again and removed; only growth is refused.
#[tokio::test]
async fn a_lowered_limit_refuses_only_growth() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    let state =
        json!({"a": 1, "b": 2, "c": 3, "large": "x".repeat(100), "user:a": 1, "user:b": 2, "app:a": 1, "app:b": 2});
    let service = SqliteSessionService::open(&path, SqliteOptions::default()).await.unwrap();
    let config = CreateSessionConfig::default().with_state(state.clone());
    let key = service.create_session("app", "alice", config).await.unwrap().key().clone();
    service.close().await.unwrap();

    let limits = Limits::default().with_keys_per_scope(1).with_value_bytes(50);
    let service = SqliteSessionService::open(&path, SqliteOptions::default().with_limits(limits)).await.unwrap();
    assert_eq!(json!(get(&service, &key).await.state()), state);
    append(&service, &key, event(json!({"a": 2, "user:a": 2, "app:a": 2}))).await;
    for new in ["d", "user:d", "app:d"] {
        refused(&service, &key, event(json!({"a": 3, new: 1})), &format!("'{new}'")).await;
    }
    refused(&service, &key, event(json!({"large": "x".repeat(99)})), "value_bytes").await;
    append(&service, &key, removing("b")).await;
    refused(&service, &key, event(json!({"b": 1})), "there would be 4 keys").await;
    let mut swap = StateDelta::new().with("d", 4).unwrap();
    swap.remove("c").unwrap();
    append(&service, &key, Event::new("agent").with_state_delta(swap)).await;
    append(&service, &key, removing("large")).await;
    let session = get(&service, &key).await;
    assert_eq!(json!(session.state()), json!({"a": 2, "d": 4, "user:a": 2, "user:b": 2, "app:a": 2, "app:b": 2}));
}

/// Services that share a file, like processes, count each other's keys. Removals and deletions by another service make
/// room.
#[tokio::test]
async fn services_on_one_file_keep_one_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    let options = || SqliteOptions::default().with_limits(Limits::default().with_keys_per_scope(6));
    let first = SqliteSessionService::open(&path, options()).await.unwrap();
    let second = SqliteSessionService::open(&path, options()).await.unwrap();
    let key = first.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap().key().clone();
    for n in 0..6 {
        let service = if n % 3 == 0 { &first } else { &second };
        append(service, &key, event(json!({&format!("user:k{n}"): n}))).await;
    }
    for service in [&first, &second] {
        refused(service, &key, event(json!({"user:k6": 6})), "'user:k6'").await;
    }
    append(&second, &key, removing("user:k0")).await;
    append(&first, &key, event(json!({"user:k6": 6}))).await;
    refused(&second, &key, event(json!({"user:k0": 0})), "'user:k0'").await;
    second.delete_user("app", "alice").await.unwrap();
    let config = CreateSessionConfig::default().with_state(json!({"user:k0": 0, "user:k1": 1}));
    let key = first.create_session("app", "alice", config).await.unwrap().key().clone();
    append(&first, &key, event(json!({"user:k2": 2, "user:k3": 3, "user:k4": 4, "user:k5": 5}))).await;
    refused(&second, &key, event(json!({"user:k6": 6})), "'user:k6'").await;
}

#[tokio::test]
async fn a_limit_in_a_uri_is_a_number() {
    for parameter in [
        "value_bytes=4MB",
        "keys_per_scope=-1",
        "events_per_session=",
        "event_bytes=1.5",
        "delta_bytes",
        "artifact_bytes=10MB",
    ] {
        let name = parameter.split('=').next().unwrap();
        let error = connect(&format!("sqlite:///nowhere/agents.db?{parameter}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains("whole number"), "{error}");
    }
}
