//! Exports and imports between stores, with content that the command line cannot create: artifacts, long sessions and
//! several authors.

use std::path::Path;

use scratchbook::artifact::ArtifactService;
use scratchbook::content::Part;
use scratchbook::session::StateOwner;
use scratchbook::{AppendOptions, CreateSessionConfig, Event, SessionKey, SessionService, StateDelta, connect};
use serde_json::{Map, Value, json};

use super::exporter::Exporter;
use super::writer::LineWriter;
use crate::database::OpenDatabase;
use crate::import;
use crate::output::Format;
use crate::progress::Progress;
use crate::walk::Selection;

async fn export(database: &OpenDatabase, file: &Path) -> String {
    let mut lines = LineWriter::create(file, Progress::new("exporting", Format::Json)).unwrap();
    Exporter::new(database, &mut lines).all(&Selection::Everything).await.unwrap();
    lines.end().unwrap();
    std::fs::read_to_string(file).unwrap()
}

async fn fill(database: &OpenDatabase) {
    let (sessions, artifacts) = (&database.sessions, &database.artifacts);
    let state = json!({"a": 1, "user:given": 1, "app:given": 1});
    let config = CreateSessionConfig::default().with_session_id("long").with_state(state);
    let long = sessions.create_session("app", "alice", config).await.unwrap();
    for n in 0..2_001 {
        let delta = StateDelta::new().with("a", n).unwrap().with("user:n", n).unwrap();
        let event = Event::new("agent").with_timestamp(f64::from(3_000 - n) + 0.1).with_state_delta(delta);
        sessions.append(long.key(), event, AppendOptions::default()).await.unwrap();
    }
    // The deepest possible event: the line around it must still be readable.
    let deep = (0..99).fold(json!("deep"), |value, _| json!([value]));
    let event = Event::new("agent").with_state_delta(StateDelta::new().with("deep", deep).unwrap());
    sessions.append(long.key(), event, AppendOptions::default()).await.unwrap();
    let orphan = SessionKey::new("app", "bob", "none").unwrap();
    for (key, name) in [(long.key(), "bill.pdf"), (long.key(), "user:photo"), (&orphan, "user:alone")] {
        for version in 0..3_u8 {
            let metadata = json!({"by": "test", "n": version}).as_object().cloned().unwrap();
            artifacts.save_artifact(key, name, Part::bytes([version, 0, 255], "image/png"), metadata).await.unwrap();
        }
    }
    artifacts.save_artifact(long.key(), "note", Part::text("ü\0"), Map::new()).await.unwrap();
}

#[tokio::test]
async fn an_export_of_one_store_is_the_same_in_every_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let first = OpenDatabase::of(connect("memory:").await.unwrap());
    fill(&first).await;
    let exported = export(&first, &path("first.jsonl")).await;
    assert!(exported.lines().last().unwrap().contains(r#""users":2,"#), "{}", exported.lines().last().unwrap());
    let mut file = path("first.jsonl");
    for (n, uri) in [format!("sqlite://{}", path("one.db").display()), "memory:".to_owned()].iter().enumerate() {
        let next = OpenDatabase::of(connect(uri).await.unwrap());
        for again in [false, true] {
            let report = import::lines(file.to_str().unwrap(), &next).await.unwrap();
            assert_eq!(report["refused"], json!([]));
            assert_eq!(report["events"], if again { json!(0) } else { json!(2_002) });
            assert_eq!(report["artifacts"], if again { json!(0) } else { json!(10) });
        }
        file = path(&format!("next{n}.jsonl"));
        assert_eq!(export(&next, &file).await, exported, "{uri}");
        next.close().await.unwrap();
    }
}

/// The session has more events than fit in one commit. An interrupted import is completed.
#[tokio::test]
async fn a_very_long_session_comes_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let [from, to] = [0, 1].map(|_| async { OpenDatabase::of(connect("memory:").await.unwrap()) });
    let (from, to) = (from.await, to.await);
    let event = |n: u32| Event::new("agent").with_id(n.to_string()).with_timestamp(f64::from(n));
    let config =
        |events: u32| CreateSessionConfig::default().with_session_id("s").with_events((0..events).map(event).collect());
    from.sessions.create_session("app", "alice", config(12_345)).await.unwrap();
    let exported = export(&from, &file).await;
    to.sessions.create_session("app", "alice", config(10_007)).await.unwrap();
    let report = import::lines(file.to_str().unwrap(), &to).await.unwrap();
    assert_eq!((&report["events"], &report["sessions"]["completed"]), (&json!(12_345 - 10_007), &json!(1)));
    to.sessions.delete_user("app", "alice").await.unwrap();
    let report = import::lines(file.to_str().unwrap(), &to).await.unwrap();
    assert_eq!((&report["events"], &report["sessions"]["created"]), (&json!(12_345), &json!(1)));
    assert_eq!(export(&to, &folder.path().join("b.jsonl")).await, exported);
}

#[tokio::test]
async fn user_with_artifacts_alone_is_selected() {
    let folder = tempfile::tempdir().unwrap();
    let database = OpenDatabase::of(connect("memory:").await.unwrap());
    fill(&database).await;
    let mut lines = LineWriter::create(&folder.path().join("bob"), Progress::new("exporting", Format::Json)).unwrap();
    let bob = Selection::new(Some("app"), Some("bob")).unwrap();
    Exporter::new(&database, &mut lines).all(&bob).await.unwrap();
    assert_eq!((lines.counts().users, lines.counts().artifacts), (1, 3));
}

/// Imports that were interrupted have written events of the source behind a change that somebody made in between. The
/// next import still keeps the change.
#[tokio::test]
async fn change_between_interrupted_imports_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("source.jsonl");
    let from = OpenDatabase::of(connect("memory:").await.unwrap());
    let owners = [StateOwner::user("app", "alice").unwrap(), StateOwner::app("app").unwrap()];
    for n in 1..=4 {
        write_session(&from, n).await;
    }
    export(&from, &file).await;
    // The second import ends before it has written the source's last values, or just after.
    for last in [2, 4] {
        let to = OpenDatabase::of(connect("memory:").await.unwrap());
        write_session(&to, 1).await;
        for owner in &owners {
            let mut delta = StateDelta::new().with("changed", "operator").unwrap();
            delta.remove("removed").unwrap();
            to.sessions.put_state(owner, delta, "operator".into()).await.unwrap();
        }
        let own = CreateSessionConfig::default().with_session_id("own");
        let own = to.sessions.create_session("app", "alice", own).await.unwrap();
        let delta = StateDelta::new().with("user:by_event", "live").unwrap().with("app:by_event", "live").unwrap();
        let event = Event::new("agent").with_state_delta(delta);
        to.sessions.append(own.key(), event, AppendOptions::default()).await.unwrap();
        for n in 2..=last {
            write_session(&to, n).await;
        }
        for _ in 0..2 {
            let report = import::lines(file.to_str().unwrap(), &to).await.unwrap();
            assert_eq!(report["refused"].as_array().unwrap().len(), 6, "{report}");
            for owner in &owners {
                let state = to.sessions.get_state(owner).await.unwrap();
                assert_eq!(json!(state), json!({"by_event": "live", "changed": "operator", "source": 4}), "{owner:?}");
            }
            let blame = to.sessions.blame(own.key()).await.unwrap();
            assert_eq!((&*blame["user:changed"].author, &*blame["app:changed"].author), ("operator", "operator"));
        }
    }
}

/// Writes a session of the source, as an import does that is interrupted after it.
async fn write_session(database: &OpenDatabase, n: u32) {
    let keys = ["changed", "removed", "by_event", "source"];
    let keys = keys.iter().flat_map(|key| [format!("user:{key}"), format!("app:{key}")]);
    let delta = keys.fold(StateDelta::new(), |delta, key| delta.with(key, n).unwrap());
    let event = Event::new("agent").with_id(format!("e{n}")).with_timestamp(f64::from(n)).with_state_delta(delta);
    let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_events(vec![event]);
    database.sessions.create_session("app", "alice", config).await.unwrap();
}

/// An event that the source has no longer is not taken for a change that somebody made in the database.
#[tokio::test]
async fn event_that_left_the_source_is_not_kept_over_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let [from, to] = [0, 1].map(|_| async { OpenDatabase::of(connect("memory:").await.unwrap()) });
    let (from, to) = (from.await, to.await);
    for n in 1..=2 {
        let delta = StateDelta::new().with("user:k", n).unwrap();
        let event = Event::new("agent").with_id(format!("e{n}")).with_timestamp(f64::from(n)).with_state_delta(delta);
        let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_events(vec![event]);
        from.sessions.create_session("app", "alice", config).await.unwrap();
    }
    export(&from, &file("first")).await;
    import::lines(file("first").to_str().unwrap(), &to).await.unwrap();
    let [first, second] = ["s1", "s2"].map(|id| SessionKey::new("app", "alice", id).unwrap());
    from.sessions.delete_session(&first).await.unwrap();
    let event = Event::new("agent").with_id("e3").with_timestamp(3.0);
    let event = event.with_state_delta(StateDelta::new().with("user:k", 3).unwrap());
    from.sessions.append(&second, event, AppendOptions::default()).await.unwrap();
    export(&from, &file("second")).await;
    let report = import::lines(file("second").to_str().unwrap(), &to).await.unwrap();
    assert_eq!(report["refused"], json!([]));
    assert_eq!(to.sessions.get_state(&first.user()).await.unwrap()["k"], json!(3));
}

#[tokio::test]
async fn another_artifact_of_the_same_name_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let [from, to] = [0, 1].map(|_| async { OpenDatabase::of(connect("memory:").await.unwrap()) });
    let (from, to) = (from.await, to.await);
    let key = SessionKey::new("app", "alice", "s").unwrap();
    for (database, text) in [(&from, "one"), (&to, "another")] {
        let config = CreateSessionConfig::default().with_session_id("s").with_create_time(1.0);
        database.sessions.create_session("app", "alice", config).await.unwrap();
        database.artifacts.save_artifact(&key, "f", Part::text(text), Map::new()).await.unwrap();
        database.artifacts.save_artifact(&key, "g", Part::text("same"), Map::new()).await.unwrap();
    }
    export(&from, &file).await;
    let report: Value = import::lines(file.to_str().unwrap(), &to).await.unwrap();
    assert_eq!(report["refused"][0]["row"], "artifact f, version 0, of app/alice/s");
    assert_eq!(report["refused"].as_array().unwrap().len(), 1);
    assert_eq!(report["artifacts"], json!(0));
}
