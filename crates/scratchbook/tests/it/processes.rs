//! Several processes write to one file.

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use scratchbook::SessionService;
use serde_json::json;

use crate::counting::{self, PROCESSES};
use crate::database::{self, DatabaseFile};
use crate::unique;

const WRITER: &str = "SCRATCHBOOK_TEST_WRITER";

#[tokio::test]
async fn eight_writers_in_four_processes_keep_all_of_a_hundred_keys() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    let session = database::create(&service, "shared", json!({})).await;
    let children = start(|| database.child("processes::a_child_writes_its_keys"));
    for child in children {
        finish(child);
    }
    let session = database::get(&service, session.key()).await.unwrap();
    let kept = (0..100).filter(|n| session.state().get(&format!("key_{n}")) == Some(&json!(n))).count();
    assert_eq!(kept, 100);
    assert_eq!(session.events().len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_writes_its_keys() {
    let Some((path, process)) = database::of_parent().zip(writer()) else {
        return;
    };
    let service = Arc::new(database::open_path(&path).await);
    let writers = [process, process + PROCESSES].map(|writer| {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            for n in (0..100).filter(|n| n % (2 * PROCESSES) == writer) {
                let event = database::setting(&format!("key_{n}"), n);
                database::append(&service, &database::key("shared"), event).await.unwrap();
            }
        })
    });
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn eight_writers_in_four_processes_count_to_exactly_a_thousand() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    counting::begin(&service).await;
    let children = start(|| database.child("processes::a_child_counts"));
    for child in children {
        finish(child);
    }
    counting::check(&service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_counts() {
    let Some((path, process)) = database::of_parent().zip(writer()) else {
        return;
    };
    counting::count(&Arc::new(database::open_path(&path).await), process).await;
}

#[tokio::test]
async fn sixteen_in_four_processes_want_one_id_of_an_app_and_one_gets_it() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    let children = start(|| database.child("processes::a_child_wants_ids"));
    for child in children {
        finish(child);
    }
    unique::check(&service).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_wants_ids() {
    let Some((path, process)) = database::of_parent().zip(writer()) else {
        return;
    };
    unique::want(&Arc::new(database::open_path(&path).await), process).await;
}

mod timing {
    use super::*;

    /// `SCRATCHBOOK_SATURATED_SECONDS` sets the duration.
    #[tokio::test]
    async fn four_saturated_processes_wait_less_than_a_second_for_each_other() {
        let database = DatabaseFile::new();
        let service = database.open().await;
        database::create(&service, "shared", json!({})).await;
        let children = start(|| database.child("processes::a_child_saturates_the_file"));
        let reports = children.into_iter().map(finish);
        let (mut slowest, mut total) = (0, 0);
        for report in reports.collect::<Vec<_>>() {
            let line = report.lines().find_map(|line| line.strip_prefix("slowest ")).unwrap();
            let (micros, count) = line.split_once(" of ").unwrap();
            slowest = slowest.max(micros.parse().unwrap());
            total += count.parse::<u64>().unwrap();
        }
        println!("{total} appends, the slowest took {slowest} microseconds");
        assert!(slowest < 1_000_000, "an append took {slowest} microseconds");
        let session = database::get(&service, &database::key("shared")).await.unwrap();
        assert_eq!(session.seq(), total);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_saturates_the_file() {
    let Some((path, process)) = database::of_parent().zip(writer()) else {
        return;
    };
    let end = Instant::now() + Duration::from_secs(database::number_from_env("SCRATCHBOOK_SATURATED_SECONDS", 2));
    let service = Arc::new(database::open_path(&path).await);
    let writers = (0..16).map(|writer| {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            let (mut slowest, mut count) = (Duration::ZERO, 0);
            while Instant::now() < end {
                let started = Instant::now();
                let event = database::setting(&format!("app:{process}_{writer}"), count);
                database::append(&service, &database::key("shared"), event).await.unwrap();
                slowest = slowest.max(started.elapsed());
                count += 1;
            }
            (slowest, count)
        })
    });
    let (mut slowest, mut total) = (Duration::ZERO, 0);
    for writer in writers.collect::<Vec<_>>() {
        let (time, count) = writer.await.unwrap();
        slowest = slowest.max(time);
        total += count;
    }
    println!("\nslowest {} of {total}", slowest.as_micros());
}

/// `SCRATCHBOOK_OPEN_ROUNDS` sets the number of rounds.
#[tokio::test]
async fn a_fresh_file_may_be_opened_by_many_at_once() {
    let database = DatabaseFile::new();
    for child in start(|| database.child("processes::a_child_opens_fresh_files")) {
        finish(child);
    }
}

#[tokio::test]
async fn a_child_opens_fresh_files() {
    let Some((path, process)) = database::of_parent().zip(writer()) else {
        return;
    };
    for round in 0..database::number_from_env("SCRATCHBOOK_OPEN_ROUNDS", 100) {
        let ready = |process| path.with_extension(format!("{round}.{process}.ready"));
        std::fs::write(ready(process), "").unwrap();
        let started = Instant::now();
        while !(0..PROCESSES).all(|process| ready(process).exists()) {
            assert!(started.elapsed() < Duration::from_secs(10), "another child has failed");
        }
        let service = database::open_path(&path.with_extension(format!("{round}.db"))).await;
        database::create(&service, &format!("{process}"), json!({})).await;
        service.close().await.unwrap();
    }
}

fn start(child: impl Fn() -> Command) -> Vec<Child> {
    (0..PROCESSES).map(|process| child().env(WRITER, process.to_string()).spawn().unwrap()).collect()
}

/// Waits for a child, which must succeed, and returns its output.
fn finish(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    printed
}

fn writer() -> Option<usize> {
    std::env::var(WRITER).ok().map(|number| number.parse().unwrap())
}
