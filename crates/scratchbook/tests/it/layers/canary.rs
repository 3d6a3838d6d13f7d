//! A word is written in every possible way, and must not be found in the database.

use std::path::Path;
use std::sync::Arc;

use scratchbook::artifact::ArtifactService;
use scratchbook::content::Part;
use scratchbook::layer::{Keyring, WithEncryption};
use scratchbook::session::{ForkConfig, Prune, StateOwner};
use scratchbook::store::SqliteOptions;
use scratchbook::{
    AppendOptions, Content, CreateSessionConfig, ErrorKind, Event, SessionService, SessionServiceExt,
    SqliteSessionService, StateDelta, Store,
};
use serde_json::json;

use super::delta;

const CANARY: &str = "tangerine-canary";

/// Returns whether the word is in any file of the folder: the database, its write-ahead log, and other files.
fn is_found(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
    })
}

fn event(id: &str) -> Event {
    let mut event = Event::new("agent").with_id(id).with_invocation_id(format!("inv-{id}"));
    let args = json!({"query": CANARY}).as_object().cloned().unwrap();
    event.content = Some(Content::new("model", vec![Part::text(CANARY), Part::function_call("tool", args)]));
    event.error_code = Some("E".to_owned());
    event.error_message = Some(format!("it failed: {CANARY}"));
    event.custom_metadata = json!({"note": [CANARY]}).as_object().cloned().map(Box::new);
    event.output = Some(json!({ "said": CANARY }).into());
    event.with_state_delta(delta(json!({"k": CANARY, "user:k": {"deep": [CANARY]}, "app:k": CANARY, "temp:k": CANARY})))
}

/// Writes the word in every possible way. After each write, calls `done` with a description of it.
async fn write_everything(store: &Store, mut done: impl FnMut(&str)) {
    let sessions = &store.sessions;
    let config = CreateSessionConfig::default()
        .with_session_id("s")
        .with_state(json!({"at creation": CANARY, "user:at creation": CANARY, "app:at creation": CANARY}))
        .with_events(vec![event("imported")]);
    let session = sessions.create_session("app", "alice", config).await.unwrap();
    done("create, import");
    let key = session.key();
    sessions.append(key, event("1"), AppendOptions::default()).await.unwrap();
    done("append");
    let work =
        StateDelta::new().with_append("list", CANARY).unwrap().with_merge_patch("user:map", json!({"a": CANARY}));
    let work = work.unwrap().with_set_if_absent("app:new", CANARY).unwrap().with_expect("k", CANARY).unwrap();
    let work = Event::new("agent").with_state_delta(work);
    sessions.append(key, work, AppendOptions::default()).await.unwrap();
    done("operations");
    for owner in [StateOwner::user("app", "alice").unwrap(), StateOwner::app("app").unwrap()] {
        sessions.put_state(&owner, delta(json!({"put": CANARY})), "admin".into()).await.unwrap();
        let more = StateDelta::new().with_append("list", CANARY).unwrap();
        sessions.put_state(&owner, more, "admin".into()).await.unwrap();
    }
    done("put_state");
    let guarded = StateDelta::new().with_expect("k", "other").unwrap().with("k", CANARY).unwrap();
    let refused = sessions.append(key, Event::new("agent").with_state_delta(guarded), AppendOptions::default()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(refused.conflicts()[0].found, Some(json!(CANARY)), "the caller may know");
    assert!(!format!("{refused} {refused:?}").contains(CANARY));
    let late = AppendOptions::by_key(session.seen().clone());
    let refused = sessions.append(key, event("late"), late).await.unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains(CANARY));
    assert!(refused.conflicts().iter().any(|conflict| conflict.found == Some(json!(CANARY))));
    done("conflicts");
    let metadata = json!({"label": CANARY}).as_object().cloned().unwrap();
    for part in [Part::text(CANARY), Part::bytes(CANARY.as_bytes(), "text/plain")] {
        store.artifacts.save_artifact(key, "a.txt", part, metadata.clone()).await.unwrap();
    }
    done("artifacts");
    sessions.append(key, event("2"), AppendOptions::default()).await.unwrap();
    store.rewind(key, "inv-2").await.unwrap();
    done("rewind");
    let fork = sessions.fork_session(key, ForkConfig::default().with_session_id("fork")).await.unwrap();
    assert_eq!(fork.state().get("k"), Some(&json!(CANARY)));
    let forked = store.artifacts.load_artifact(fork.key(), "a.txt", Some(0)).await.unwrap();
    assert_eq!(forked, Some(Part::text(CANARY)), "a fork's copies can be read");
    done("fork");
    assert_eq!(sessions.prune(Prune::events(key, 3), 100).await.unwrap(), 2);
    sessions.prune(Prune::state_log(&key.user(), u64::MAX), 100).await.unwrap();
    assert_eq!(sessions.get_initial_state(key).await.unwrap().unwrap().state["k"], CANARY);
    done("prune");
    sessions.verify_session(key).await.unwrap().unwrap();
    sessions.verify_session(fork.key()).await.unwrap().unwrap();
}

async fn open(folder: &Path) -> Arc<SqliteSessionService> {
    Arc::new(SqliteSessionService::open(folder.join("sessions.db"), SqliteOptions::default()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sealed_is_nowhere_in_the_raw_database() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let keys = Keyring::new("2026-11", [7; 32]).unwrap();
    let artifacts: Arc<dyn ArtifactService> = Arc::new(WithEncryption::new(Arc::clone(&store), keys.clone()));
    let sealed = Store::of(Arc::new(WithEncryption::new(store, keys)), artifacts);
    write_everything(&sealed, |done| assert!(!is_found(folder.path()), "found after: {done}")).await;
    sealed.sessions.close().await.unwrap();
    assert!(!is_found(folder.path()), "found after closing");
}

/// Without encryption the word is found after each step, so the test above would notice it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_sealed_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(open(folder.path()).await);
    write_everything(&store, |done| assert!(is_found(folder.path()), "not found after: {done}")).await;
}
