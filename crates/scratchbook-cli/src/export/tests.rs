//! Exports and imports between stores, with content that the command line cannot create: artifacts, long sessions and
//! several authors.

use std::path::Path;

use scratchbook::artifact::ArtifactService;
use scratchbook::content::Part;
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
