//! Databases of every published version are read, migrated and written to.
//!
//! A fixture is a dump, by the database's own tool, of a database that [`fill`] has filled. To make a fixture for a new
//! version of the tables, run the test of the store that writes it. The old fixtures stay.

use std::path::Path;

use scratchbook::artifact::ListVersionsConfig;
use scratchbook::content::Part;
use scratchbook::session::{ChangeQuery, FeedCommit, FeedStart, ForkConfig, Prune, StateOwner};
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, SessionKey, StateDelta, Store, connect,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// Names that tables, dumps and messages may get wrong.
const ODD: &str = "O'Neil \"100%\" \\ {x} ; DROP TABLE sessions; -- \u{1f600} e\u{301}";

fn key(app: &str, user: &str, session: &str) -> SessionKey {
    SessionKey::new(app, user, session).unwrap()
}

fn odd_values() -> Value {
    json!({
        "null": null, "nul": "a\u{0}b", "emoji": "\u{1f600}", "least": i64::MIN, "most": u64::MAX, "float": 0.1,
        "tiny": 5e-324, "nested": {"": [1.0, {"deep": false}]}, ODD: ODD,
    })
}

/// Fills an empty store with some data of every kind.
pub(crate) async fn fill(store: &Store) {
    let sessions = &store.sessions;
    let mut state = odd_values();
    state["user:theme"] = json!("dark");
    state["user:gone"] = json!(1);
    state["app:limit"] = json!(10);
    let config = CreateSessionConfig::default().with_session_id("s1").with_state(state);
    sessions.create_session("shop", "alice", config).await.unwrap();
    let mut delta = StateDelta::new().with("step", 1).unwrap().with("user:theme", "light").unwrap();
    delta.remove("user:gone").unwrap();
    delta.remove("null").unwrap();
    let first = Event::new("agent").with_id("e1").with_timestamp(1_700_000_000.123_456).with_state_delta(delta);
    let second = Event::new(ODD).with_id(ODD).with_timestamp(1_700_000_001.5);
    for event in [first, second] {
        sessions.append(&key("shop", "alice", "s1"), event, AppendOptions::default()).await.unwrap();
    }
    let config = CreateSessionConfig::default().with_session_id(ODD).with_state(json!({"cart ": 1, "Cart": 2}));
    sessions.create_session(ODD, ODD, config).await.unwrap();
    let app = StateOwner::app("shop").unwrap();
    let delta = StateDelta::new().with("limit", 20).unwrap().with("motd", "hello").unwrap();
    sessions.put_state(&app, delta, "admin".into()).await.unwrap();
    for (name, text) in [("notes.txt", "one"), ("notes.txt", "two"), ("user:photo", "of the user")] {
        let metadata = Map::from_iter([("n".to_owned(), json!(1))]);
        store.artifacts.save_artifact(&key("shop", "alice", "s1"), name, Part::text(text), metadata).await.unwrap();
    }
}

/// Checks that all data of [`fill`] is there, and that the store can be written to.
pub(crate) async fn check(store: &Store) {
    let sessions = &store.sessions;
    let alices = key("shop", "alice", "s1");
    let session = sessions.get_session(&alices, &GetSessionConfig::default()).await.unwrap().unwrap();
    let mut expected = odd_values();
    expected.as_object_mut().unwrap().remove("null");
    expected["step"] = json!(1);
    expected["user:theme"] = json!("light");
    expected["app:limit"] = json!(20);
    expected["app:motd"] = json!("hello");
    assert_eq!(json!(session.state()), expected);
    let events: Vec<_> = session.events().iter().map(|e| (e.id.as_str(), e.author.as_str(), e.timestamp)).collect();
    assert_eq!(events, [("e1", "agent", Some(1_700_000_000.123_456)), (ODD, ODD, Some(1_700_000_001.5))]);
    assert_eq!(session.last_update_time(), 1_700_000_001.5);
    assert_eq!(session.stored_bytes(), Some(crate::quotas::stored(store, &alices).await), "what was there is counted");

    let odd = sessions.get_session(&key(ODD, ODD, ODD), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_eq!(json!(odd.state()), json!({"cart ": 1, "Cart": 2}));

    let user = sessions
        .list_state_changes(&StateOwner::user("shop", "alice").unwrap(), &ChangeQuery::After(0), 100)
        .await
        .unwrap();
    let of_user: Vec<_> = user.iter().map(|c| (c.name.as_str(), c.version, c.value.clone())).collect();
    let light = ("theme", 2, Some(json!("light")));
    assert_eq!(of_user, [("gone", 1, Some(json!(1))), ("theme", 1, Some(json!("dark"))), ("gone", 2, None), light]);
    let app =
        sessions.list_state_changes(&StateOwner::app("shop").unwrap(), &ChangeQuery::After(0), 100).await.unwrap();
    let of_app: Vec<_> = app.iter().map(|c| (c.name.as_str(), c.version, c.author.as_str())).collect();
    assert_eq!(of_app, [("limit", 1, "user"), ("limit", 2, "admin"), ("motd", 1, "admin")]);

    let artifacts = &store.artifacts;
    assert_eq!(artifacts.list_artifacts(&alices).await.unwrap(), ["notes.txt", "user:photo"]);
    let text = |part: Option<Part>| part.unwrap().text.unwrap().to_string();
    assert_eq!(text(artifacts.load_artifact(&alices, "notes.txt", Some(0)).await.unwrap()), "one");
    assert_eq!(text(artifacts.load_artifact(&alices, "notes.txt", None).await.unwrap()), "two");
    let versions =
        artifacts.list_artifact_versions(&alices, "user:photo", &ListVersionsConfig::default()).await.unwrap();
    assert_eq!(versions.iter().map(|v| json!(v.custom_metadata)).collect::<Vec<_>>(), [json!({"n": 1})]);

    assert_eq!(sessions.locate_session("shop", "s1").await.unwrap().as_ref(), Some(&alices));
    assert_eq!(sessions.locate_session(ODD, ODD).await.unwrap(), Some(key(ODD, ODD, ODD)));
    let unique = |id: &str| CreateSessionConfig::default().with_session_id(id).with_id_unique_in_app();
    let refused = sessions.create_session("shop", "bob", unique("s1")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    let made = sessions.create_session("shop", "bob", unique("s2")).await.unwrap();
    sessions.delete_session(made.key()).await.unwrap();

    let again = Event::new(ODD).with_id(ODD).with_timestamp(1_700_000_001.5);
    let again = sessions.append(&alices, again, AppendOptions::default()).await.unwrap();
    assert_eq!((again.outcome, again.event.seq), (scratchbook::session::Outcome::Replayed, Some(2)));
    let next = Event::new("agent").with_state_delta(StateDelta::new().with("app:limit", 30).unwrap());
    let next = sessions.append(&alices, next, AppendOptions::default()).await.unwrap();
    assert_eq!(next.event.seq, Some(3));
    let app =
        sessions.list_state_changes(&StateOwner::app("shop").unwrap(), &ChangeQuery::After(0), 100).await.unwrap();
    assert!(app.windows(2).all(|pair| pair[0].position <= pair[1].position), "{app:?}");
    assert_eq!(app.last().map(|c| (c.name.as_str(), c.version)), Some(("limit", 3)));
}

/// Returns the text of a fixture.
pub(crate) fn fixture(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[tokio::test]
async fn what_is_checked_is_what_was_filled_in() {
    let (store, ()) = crate::stores::memory().await;
    fill(&store).await;
    check(&store).await;
}

#[tokio::test]
async fn sqlite_files_of_every_version_are_read_and_written() {
    for version in VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        check(&connect(&old_file(&folder, version)).await.unwrap()).await;
    }
}

/// The feed, forks and states at events also work for commits of older versions.
#[tokio::test]
async fn the_past_of_old_files_is_known() {
    for version in VERSIONS {
        let folder = tempfile::tempdir().unwrap();
        let sessions = connect(&old_file(&folder, version)).await.unwrap().sessions;
        let alices = key("shop", "alice", "s1");
        let app = StateOwner::app("shop").unwrap();
        let feed = sessions.list_feed(&app, &FeedStart::Beginning, 100).await.unwrap();
        let kinds = feed.entries.iter().map(|entry| match &entry.commit {
            FeedCommit::Event { event, .. } => event.id.clone(),
            FeedCommit::Created { state, .. } => format!("made with {}", state.len()),
            FeedCommit::State { owner, changes } => format!("{} of {:?}", changes.len(), owner.user_id()),
            other => panic!("{other:?}"),
        });
        let made = odd_values().as_object().unwrap().len();
        let expected = ["2 of Some(\"alice\")", "1 of None", &format!("made with {made}"), "e1", ODD, "2 of None"];
        assert_eq!(kinds.collect::<Vec<_>>(), expected, "{version}");
        let mut state = odd_values();
        (state["user:theme"], state["user:gone"], state["app:limit"]) = (json!("dark"), json!(1), json!(10));
        assert_eq!(json!(sessions.get_state_at(&alices, 0).await.unwrap()), state, "{version}");
        let now = sessions.get_session(&alices, &GetSessionConfig::state_only()).await.unwrap().unwrap();
        let mut then = json!(now.state());
        then["app:limit"] = json!(10);
        then.as_object_mut().unwrap().shift_remove("app:motd");
        assert_eq!(json!(sessions.get_state_at(&alices, 2).await.unwrap()), then, "{version}");
        let blame = sessions.blame(&alices).await.unwrap();
        assert_eq!((blame["step"].event_id.as_str(), blame["app:motd"].author.as_str()), ("e1", "admin"));
        let fork = sessions.fork_session(&alices, ForkConfig::at(1)).await.unwrap();
        assert_eq!(fork.state().get("step"), Some(&json!(1)));
        assert_eq!(sessions.prune(Prune::events(&alices, 2), 9).await.unwrap(), 1);
    }
}

/// The versions of SQLite's tables.
const VERSIONS: [&str; 1] = ["v1"];

/// Creates a file with this version of the tables, and returns its URI.
fn old_file(folder: &TempDir, version: &str) -> String {
    let path = folder.path().join("old.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(&fixture(&format!("sqlite/{version}.sql"))).unwrap();
    file.close().unwrap();
    format!("sqlite://{}", path.display())
}

/// Creates the file that `SCRATCHBOOK_NEW_FIXTURE` names, whose dump is the next fixture; otherwise this does nothing.
#[tokio::test]
async fn a_file_is_made_for_the_next_fixture() {
    let Some(path) = std::env::var_os("SCRATCHBOOK_NEW_FIXTURE") else {
        return;
    };
    let store = connect(&format!("sqlite://{}", path.display())).await.unwrap();
    fill(&store).await;
    store.sessions.close().await.unwrap();
}
