//! Eight processes write to one session, to one user's keys and to one app's keys.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;

use scratchbook::session::{ChangeQuery, StateOwner};
use scratchbook::store::MySqlSessionService;
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, GetSessionConfig, SessionKey, SessionService, StateDelta, connect,
};
use serde_json::json;

use super::server::TestDatabase;
use crate::counting;
use crate::database::number_from_env;
use crate::unique;

const PROCESSES: u64 = 8;
/// Environment variables of a child process: where it writes, and its number among the writers.
const URI: &str = "SCRATCHBOOK_TEST_MYSQL_CHILD";
const WRITER: &str = "SCRATCHBOOK_TEST_WRITER";

/// How many appends each process makes.
fn appends() -> u64 {
    number_from_env("SCRATCHBOOK_PROCESS_APPENDS", 100)
}

fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "alice", session).unwrap()
}

/// Where a process writes: to a shared session or to its own session, and to the keys of a scope.
const STORIES: [(&str, &str); 3] = [("shared", ""), ("own", "user:"), ("own", "app:")];

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_lose_nothing() {
    let database = TestDatabase::emptied().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    for n in 0..PROCESSES {
        create(&service, &format!("own{n}")).await;
    }
    create(&service, "shared").await;
    run(&database.uri(), "mariadb::processes::a_child_appends", PROCESSES);
    let (all, each) = (PROCESSES * appends(), appends());
    let shared = service.get_session(&key("shared"), &GetSessionConfig::default()).await.unwrap().unwrap();
    assert_whole(&shared, all);
    assert_eq!(shared.state().iter().filter(|(name, _)| name.starts_with('k')).count() as u64, all);
    for n in 0..PROCESSES {
        let own = service.get_session(&key(&format!("own{n}")), &GetSessionConfig::default()).await.unwrap().unwrap();
        assert_whole(&own, 2 * each);
    }
    for owner in [StateOwner::user("app", "alice").unwrap(), StateOwner::app("app").unwrap()] {
        let state = service.get_state(&owner).await.unwrap();
        let expected: BTreeSet<_> = (0..PROCESSES).flat_map(|p| (0..each).map(move |n| format!("k{p}_{n}"))).collect();
        let mut names: BTreeSet<_> = state.keys().cloned().collect();
        assert_eq!(state["hot"].as_u64().map(|n| n < each), Some(true));
        names.remove("hot");
        assert_eq!(names, expected);
        // Each append writes two keys at a position of its own, and the state is the fold of the log.
        let log = service.list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
        let positions: BTreeSet<_> = log.iter().map(|change| change.position).collect();
        assert!(positions.iter().copied().eq(1..=all), "{} positions", positions.len());
        assert_eq!(log.len() as u64, 2 * all);
        let mut hot = log.iter().filter(|change| change.name == "hot");
        assert!(hot.clone().map(|change| change.version).eq(1..=all));
        assert_eq!(hot.next_back().unwrap().value.as_ref(), state.get("hot"));
    }
}

fn assert_whole(session: &scratchbook::Session, events: u64) {
    assert!(session.events().iter().map(|event| event.seq.unwrap()).eq(1..=events), "gaps in {}", session.key());
    let deltas = session.events().iter().map(|event| &event.actions.state_delta);
    let folded = scratchbook::state::fold(serde_json::Map::new(), deltas);
    let is_own = |name: &&String| !name.contains(':');
    let own = session.state().to_map();
    let expected: BTreeSet<_> =
        folded.iter().filter(|(name, _)| is_own(name)).map(|(k, v)| (k, v.to_string())).collect();
    let own: BTreeSet<_> = own.iter().filter(|(name, _)| is_own(name)).map(|(k, v)| (k, v.to_string())).collect();
    assert_eq!(own, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_appends() {
    let Some((uri, writer)) = std::env::var(URI).ok().zip(std::env::var(WRITER).ok()) else {
        return;
    };
    let service = Arc::new(MySqlSessionService::connect(&uri).await.unwrap());
    let tasks = STORIES.map(|(session, prefix)| {
        let (service, writer) = (Arc::clone(&service), writer.clone());
        tokio::spawn(async move {
            let key = if session == "own" { key(&format!("own{writer}")) } else { key(session) };
            for n in 0..appends() {
                let delta = StateDelta::new().with(format!("{prefix}k{writer}_{n}"), n).unwrap();
                let event = Event::new("agent").with_state_delta(delta.with(format!("{prefix}hot"), n).unwrap());
                service.append(&key, event, AppendOptions::default()).await.unwrap();
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_writers_in_four_processes_count_to_exactly_a_thousand() {
    let database = TestDatabase::emptied().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    counting::begin(&service).await;
    run(&database.uri(), "mariadb::processes::a_child_counts", counting::PROCESSES as u64);
    counting::check(&service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_counts() {
    let Some((uri, process)) = std::env::var(URI).ok().zip(std::env::var(WRITER).ok()) else {
        return;
    };
    let service = Arc::new(MySqlSessionService::connect(&uri).await.unwrap());
    counting::count(&service, process.parse().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_in_four_processes_want_one_id_of_an_app_and_one_gets_it() {
    let database = TestDatabase::emptied().await;
    let service = MySqlSessionService::connect(&database.uri()).await.unwrap();
    run(&database.uri(), "mariadb::processes::a_child_wants_ids", unique::PROCESSES as u64);
    unique::check(&service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_wants_ids() {
    let Some((uri, process)) = std::env::var(URI).ok().zip(std::env::var(WRITER).ok()) else {
        return;
    };
    let service = Arc::new(MySqlSessionService::connect(&format!("{uri}?pool_size=4")).await.unwrap());
    unique::want(&service, process.parse().unwrap()).await;
}

#[tokio::test]
async fn a_fresh_database_may_be_opened_by_processes_at_once() {
    let database = TestDatabase::new().await;
    run(&database.uri(), "mariadb::processes::a_child_opens", PROCESSES);
    let store = connect(&database.uri()).await.unwrap();
    let listed = store.sessions.list_sessions("app", &Default::default()).await.unwrap();
    assert_eq!(listed.sessions.len() as u64, PROCESSES);
}

#[tokio::test]
async fn a_child_opens() {
    if let Ok(uri) = std::env::var(URI) {
        let store = connect(&uri).await.unwrap();
        store.sessions.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    }
}

async fn create(service: &MySqlSessionService, session: &str) {
    let config = CreateSessionConfig::default().with_session_id(session).with_state(json!({}));
    service.create_session("app", "alice", config).await.unwrap();
}

/// Runs a test in this many processes.
fn run(uri: &str, test: &str, processes: u64) {
    let child = |writer: u64| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        child.env(URI, uri).env(WRITER, writer.to_string()).stdout(Stdio::piped()).spawn().unwrap()
    };
    for child in (0..processes).map(child).collect::<Vec<_>>() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
