//! Databases that older versions have made. `tests/fixtures/postgres` has one for each version of the tables: what
//! `pg_dump` wrote of it, and what was to be read in it.

use std::path::PathBuf;

use scratchbook::{
    ArtifactService, ArtifactVersion, CreateSessionConfig, ListSessionsConfig, Part, PostgresSessionService,
    SessionKey, SessionService, StateChange, StateDelta, StateOwner,
};
use serde_json::{Value, json};

use super::server::client;
use crate::database::{append, check_whole, event};

/// The schema that the dumps make.
const SCHEMA: &str = "scratchbook_fixture";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/postgres").join(name)
}

async fn open() -> PostgresSessionService {
    let server = scratchbook_servers::postgres().unwrap();
    PostgresSessionService::connect(&format!("{server}?schema={SCHEMA}")).await.unwrap()
}

#[tokio::test]
async fn tables_of_every_version_are_upgraded_in_place_and_read_as_they_were() {
    let server = client(&scratchbook_servers::postgres().unwrap()).await;
    let version = 1;
    let dump = std::fs::read_to_string(file(&format!("v{version}.sql"))).unwrap();
    server.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; {dump}")).await.unwrap();
    let service = open().await;
    let read: Value =
        serde_json::from_str(&std::fs::read_to_string(file(&format!("v{version}.json"))).unwrap()).unwrap();
    assert_eq!(everything(&service).await, read);
    // And it is written on.
    let key = SessionKey::new("app", "alice", "plain").unwrap();
    let log = service.list_state_changes(&StateOwner::app("app").unwrap(), 0, usize::MAX).await.unwrap();
    let seq = append(&service, &key, event(StateDelta::new().with("app:later", 1).unwrap())).await.unwrap();
    assert_eq!(seq, 4);
    let later = service.list_state_changes(&StateOwner::app("app").unwrap(), 0, usize::MAX).await.unwrap();
    assert_eq!(later[..log.len()], log[..]);
    assert!(later[log.len()].position > log[log.len() - 1].position);
    check_whole(&service, json!({"step": 0}).as_object().unwrap()).await;
    service.close().await.unwrap();
    server.batch_execute(&format!("DROP SCHEMA {SCHEMA} CASCADE")).await.unwrap();
}

/// Names that have gone wrong somewhere.
const ODD: [&str; 4] = ["o'brien; DROP TABLE events; --", "100%_\\", "\u{e9} e\u{301} \u{1f6d2}", " x\"y` "];

/// With `SCRATCHBOOK_WRITE_FIXTURES` set and `pg_dump` in the path, writes the files of the newest version anew. That is
/// for a version that was never published; the others stay as they are.
#[tokio::test]
async fn the_fixture_is_written_when_that_is_asked_for() {
    if std::env::var_os("SCRATCHBOOK_WRITE_FIXTURES").is_none() {
        return;
    }
    let server = scratchbook_servers::postgres().unwrap();
    client(&server).await.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await.unwrap();
    let service = open().await;
    fill(&service).await;
    let version = 1;
    let read = serde_json::to_string_pretty(&everything(&service).await).unwrap();
    std::fs::write(file(&format!("v{version}.json")), read + "\n").unwrap();
    let mut dump = std::process::Command::new("pg_dump");
    dump.args(["--inserts", "--no-owner", "--no-privileges", "--schema", SCHEMA, &server]);
    let dump = dump.output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    // What is for psql alone, and settings that other versions of the server do not have.
    let kept = |line: &&str| !line.starts_with(['\\', '-']) && !line.starts_with("SET ") && !line.is_empty();
    let text: String =
        String::from_utf8(dump.stdout).unwrap().lines().filter(kept).flat_map(|line| [line, "\n"]).collect();
    std::fs::write(file(&format!("v{version}.sql")), text).unwrap();
}

async fn fill(service: &PostgresSessionService) {
    let events = [
        event(StateDelta::new().with("step", 1).unwrap().with("user:theme", "dark").unwrap()),
        event(StateDelta::new().with("app:count", u64::MAX).unwrap().with("user:name", ODD[2]).unwrap()),
    ];
    let events = events.into_iter().zip(1..).map(|(event, n)| event.with_id(format!("e{n}")).with_timestamp(1.5));
    let config =
        CreateSessionConfig::default().with_session_id("plain").with_state(json!({"step": 0, "app:made": true}));
    service.create_session("app", "alice", config.with_events(events.collect())).await.unwrap();
    let key = SessionKey::new("app", "alice", "plain").unwrap();
    let mut removal = StateDelta::new().with("text", "\0 and \u{1f6d2}").unwrap().with("null", Value::Null).unwrap();
    removal.remove("user:theme").unwrap();
    let removal = event(removal).with_id(ODD[0]).with_timestamp(1_700_000_000.123_456_7);
    append(service, &key, removal).await.unwrap();
    for name in ODD {
        let config = CreateSessionConfig::default().with_session_id(name).with_state(json!({name: name}));
        service.create_session(name, name, config).await.unwrap();
    }
    let delta = StateDelta::new().with("count", 0.1).unwrap();
    service.put_state(&StateOwner::app("app").unwrap(), delta, ODD[1].into()).await.unwrap();
    let mut delta = StateDelta::new();
    delta.remove("never").unwrap();
    service.put_state(&StateOwner::user("app", "alice").unwrap(), delta, "admin".into()).await.unwrap();
    for (name, text) in [("a.txt", "one"), ("a.txt", "two"), ("user:b.txt", "three")] {
        let part: Part = serde_json::from_value(json!({"text": text})).unwrap();
        let metadata = json!({"from": ODD[3]}).as_object().unwrap().clone();
        service.save_artifact(&key, name, part, metadata).await.unwrap();
    }
}

/// All that can be read.
async fn everything(service: &PostgresSessionService) -> Value {
    let mut apps = Vec::new();
    for app in ["app"].into_iter().chain(ODD) {
        let mut sessions = Vec::new();
        for listed in service.list_sessions(app, &ListSessionsConfig::default()).await.unwrap().sessions {
            let session = service.get_session(listed.key(), &Default::default()).await.unwrap().unwrap();
            let mut artifacts = Vec::new();
            for name in service.list_artifacts(session.key()).await.unwrap() {
                for version in service.list_artifact_versions(session.key(), &name).await.unwrap() {
                    let part = service.load_artifact(session.key(), &name, Some(version.version)).await.unwrap();
                    let ArtifactVersion { version, custom_metadata, create_time, mime_type, .. } = version;
                    artifacts.push(json!([name, part, version, custom_metadata, create_time, mime_type]));
                }
            }
            sessions.push(json!({"session": session, "seq": session.seq(), "artifacts": artifacts}));
        }
        let mut logs = Vec::new();
        for owner in [StateOwner::app(app).unwrap(), StateOwner::user(app, "alice").unwrap()] {
            let log = service.list_state_changes(&owner, 0, usize::MAX).await.unwrap();
            let log: Vec<_> = log.iter().map(logged).collect();
            logs.push(json!([service.get_state(&owner).await.unwrap(), log]));
        }
        apps.push(json!({"app": app, "sessions": sessions, "logs": logs}));
    }
    Value::Array(apps)
}

fn logged(change: &StateChange) -> Value {
    let StateChange { position, name, version, value, origin, event_id, author, time, .. } = change;
    let origin = origin.as_ref().map(|(key, seq)| json!([key.to_string(), seq]));
    // A removal is told from null by being in an empty list.
    let value: Vec<_> = value.iter().collect();
    json!([position, name, version, value, origin, event_id, author, time])
}
