//! Several processes write to one database.

use std::process::Child;
use std::sync::Arc;

use futures_util::future::join_all;
use scratchbook::SessionService;
use scratchbook::session::{ChangeQuery, StateOwner};
use scratchbook::store::PostgresSessionService;
use serde_json::json;

use super::server::{TestSchema, of_parent};
use crate::counting;
use crate::database::{APP, USER, append, check_whole, create, get, key, number_from_env, setting};
use crate::unique;

const PROCESSES: usize = 8;
const WRITER: &str = "SCRATCHBOOK_TEST_WRITER";
const KEYS: &str = "SCRATCHBOOK_TEST_KEYS";

fn appends() -> u64 {
    number_from_env("SCRATCHBOOK_PROCESS_APPENDS", 100)
}

/// `SCRATCHBOOK_PROCESS_APPENDS` sets how many appends each process makes.
async fn eight_processes_write(prefix: &str) {
    let schema = TestSchema::new();
    let service = schema.open().await;
    create(&service, "shared", json!({})).await;
    let child = |process: usize| {
        let mut child = schema.child("postgres::processes::a_child_writes_its_keys");
        child.env(WRITER, process.to_string()).env(KEYS, prefix).spawn().unwrap()
    };
    finish((0..PROCESSES).map(child).collect());
    let all = PROCESSES as u64 * appends();
    let session = get(&service, &key("shared")).await.unwrap();
    assert_eq!((session.seq(), session.events().len() as u64), (all, all));
    for process in 0..PROCESSES {
        for n in 0..appends() {
            assert_eq!(session.state().get(&format!("{prefix}{process}-{n}")), Some(&json!(n)), "{process}-{n}");
        }
        assert!(session.state().get(&format!("{prefix}last")).is_some());
    }
    check_whole(&service, &Default::default()).await;
    if prefix.is_empty() {
        return;
    }
    let owner = if prefix == "app:" { StateOwner::app(APP) } else { StateOwner::user(APP, USER) }.unwrap();
    let log = service.list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    let versions: Vec<_> = log.iter().filter(|change| change.name == "last").map(|change| change.version).collect();
    assert_eq!(versions, (1..=all).collect::<Vec<_>>(), "of the key that all write");
}

/// Waits for children, which must succeed.
fn finish(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[tokio::test]
async fn eight_processes_write_to_one_session() {
    eight_processes_write("").await;
}

#[tokio::test]
async fn eight_processes_write_to_one_users_keys() {
    eight_processes_write("user:").await;
}

#[tokio::test]
async fn eight_processes_write_to_one_apps_keys() {
    eight_processes_write("app:").await;
}

/// The child process of the tests above; otherwise this does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_writes_its_keys() {
    let (Some(uri), Ok(process), Ok(prefix)) = (of_parent(), std::env::var(WRITER), std::env::var(KEYS)) else {
        return;
    };
    let service = PostgresSessionService::connect(&format!("{uri}&pool_size=2")).await.unwrap();
    let key = key("shared");
    let numbers: Vec<u64> = (0..appends()).collect();
    for some in numbers.chunks(8) {
        let appends = some.iter().map(|n| {
            let event = setting(&format!("{prefix}{process}-{n}"), n);
            let event = event.with_id(format!("{process}-{n}"));
            let mut delta = event.actions.state_delta.clone();
            delta.set(format!("{prefix}last"), n).unwrap();
            append(&service, &key, event.with_state_delta(delta))
        });
        join_all(appends).await.into_iter().for_each(|done| assert!(done.is_ok(), "{done:?}"));
    }
    service.close().await.unwrap();
}

#[tokio::test]
async fn eight_writers_in_four_processes_count_to_exactly_a_thousand() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    counting::begin(&service).await;
    let child = |process: usize| {
        let mut child = schema.child("postgres::processes::a_child_counts");
        child.env(WRITER, process.to_string()).spawn().unwrap()
    };
    finish((0..counting::PROCESSES).map(child).collect());
    counting::check(&service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_counts() {
    let (Some(uri), Ok(process)) = (of_parent(), std::env::var(WRITER)) else {
        return;
    };
    let service = Arc::new(PostgresSessionService::connect(&format!("{uri}&pool_size=2")).await.unwrap());
    counting::count(&service, process.parse().unwrap()).await;
    service.close().await.unwrap();
}

#[tokio::test]
async fn sixteen_in_four_processes_want_one_id_of_an_app_and_one_gets_it() {
    let schema = TestSchema::new();
    let service = schema.open().await;
    let child = |process: usize| {
        let mut child = schema.child("postgres::processes::a_child_wants_ids");
        child.env(WRITER, process.to_string()).spawn().unwrap()
    };
    finish((0..unique::PROCESSES).map(child).collect());
    unique::check(&service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_wants_ids() {
    let (Some(uri), Ok(process)) = (of_parent(), std::env::var(WRITER)) else {
        return;
    };
    let service = Arc::new(PostgresSessionService::connect(&format!("{uri}&pool_size=4")).await.unwrap());
    unique::want(&service, process.parse().unwrap()).await;
    service.close().await.unwrap();
}
