//! Locks, queues, groups of writes, and closing.

use std::fs::File;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use scratchbook::artifact::ArtifactService;
use scratchbook::store::SqliteOptions;
use scratchbook::{ErrorKind, GetSessionConfig, SessionService};
use serde_json::{Map, json};

use super::{append_later, held_lock, wait};
use crate::database::{self, DatabaseFile, append, create, get, key, setting};

#[tokio::test]
async fn a_write_that_does_not_fit_fails_alone() {
    let database = DatabaseFile::new();
    let service = database.open_with(SqliteOptions::default().with_max_size_bytes(1 << 20)).await;
    create(&service, "s1", json!({})).await;
    // All writes are in one group, because nothing runs while the lock is held.
    let lock = held_lock(&database);
    let sizes = (0..40).map(|n| if n == 20 { 2 << 20 } else { 10 });
    let appends = sizes.map(|size| append_later(&service, setting("pad", "x".repeat(size)))).collect::<Vec<_>>();
    lock.unlock().unwrap();
    let results = join_all(appends).await;
    for (n, result) in results.into_iter().enumerate() {
        match n {
            20 => assert_eq!(result.unwrap_err().kind(), ErrorKind::ResourceExhausted),
            _ => assert!(result.is_ok(), "{n}: {result:?}"),
        }
    }
    assert_eq!(database::check_whole(&service, &Map::new()).await[0].seq(), 39);
}

#[tokio::test]
async fn a_refused_write_leaves_the_rest_of_its_group_alone() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    append(&service, &key("s1"), setting("a", 1).with_id("taken")).await.unwrap();
    let lock = held_lock(&database);
    let good = |n: i32| append_later(&service, setting(&format!("app:{n}"), n));
    let bad = || append_later(&service, setting("app:lost", 1).with_id("taken"));
    let appends = vec![good(0), bad(), good(1), bad(), bad(), good(2)];
    lock.unlock().unwrap();
    let kinds = join_all(appends).await.into_iter().map(|result| result.err().map(|e| e.kind()));
    let taken = Some(ErrorKind::AlreadyExists);
    assert_eq!(kinds.collect::<Vec<_>>(), [None, taken, None, taken, taken, None]);
    let session = database::check_whole(&service, &Map::new()).await.remove(0);
    assert_eq!(session.seq(), 4);
    assert!(!session.state().contains("app:lost"));
}

#[tokio::test]
async fn a_lock_held_elsewhere_makes_writes_unavailable_after_a_while() {
    let database = DatabaseFile::new();
    let service = database.open_with(SqliteOptions::default().with_lock_timeout(Duration::from_millis(100))).await;
    create(&service, "s1", json!({})).await;
    let lock = held_lock(&database);
    let results = join_all((0..3).map(|n| append_later(&service, setting("n", n)))).await;
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("agents.db-lock"), "{error}");
        assert!(error.is_retryable());
    }
    assert_eq!(get(&service, &key("s1")).await.unwrap().seq(), 0, "reads go on");
    lock.unlock().unwrap();
    assert_eq!(append(&service, &key("s1"), setting("n", 3)).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_sqlites_held_elsewhere_fails_all_that_waits_in_its_time() {
    let database = DatabaseFile::new();
    let service = database.open_with(SqliteOptions::default().with_lock_timeout(Duration::from_millis(300))).await;
    create(&service, "s1", json!({})).await;
    let other = rusqlite::Connection::open(&database.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let appends = (0..10).map(|n| append_later(&service, setting("n", n))).collect::<Vec<_>>();
    let path = database.path.clone();
    let free = tokio::task::spawn_blocking(move || {
        let lock = File::options().write(true).open(path.with_file_name("agents.db-lock")).unwrap();
        lock.lock().unwrap();
        started.elapsed()
    });
    for result in join_all(appends).await {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("another program"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(free.await.unwrap() < Duration::from_millis(300), "the lock beside the file was kept meanwhile");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(append(&service, &key("s1"), setting("n", 3)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_full_queue_refuses_after_a_while_and_keeps_what_it_took() {
    let database = DatabaseFile::new();
    let options = SqliteOptions::default().with_queue_capacity(2).with_queue_timeout(Duration::from_millis(100));
    let service = database.open_with(options).await;
    create(&service, "s1", json!({})).await;
    let lock = held_lock(&database);
    let mut taken = vec![append_later(&service, setting("n", 0))];
    // The writer has taken the first write; the queue has room for two more.
    tokio::time::sleep(Duration::from_millis(50)).await;
    taken.extend((1..3).map(|n| append_later(&service, setting("n", n))));
    let error = append(&service, &key("s1"), setting("n", 3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    lock.unlock().unwrap();
    let numbers: Vec<_> = join_all(taken).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn the_wait_for_a_place_ends_on_any_executor() {
    let database = DatabaseFile::new();
    let options = SqliteOptions::default().with_queue_capacity(1).with_queue_timeout(Duration::from_millis(100));
    let service = wait(database.open_with(options));
    wait(create(&service, "s1", json!({})));
    let lock = held_lock(&database);
    let _taken = append_later(&service, setting("n", 0));
    std::thread::sleep(Duration::from_millis(50));
    let _queued = append_later(&service, setting("n", 1));
    let error = wait(append(&service, &key("s1"), setting("n", 2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    let without_a_timer = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = without_a_timer.block_on(append(&service, &key("s1"), setting("n", 3))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    lock.unlock().unwrap();
}

#[tokio::test]
async fn closing_waits_for_no_one_who_does_not_come_back() {
    let database = DatabaseFile::new();
    let service = database.open_with(SqliteOptions::default().with_queue_capacity(1)).await;
    create(&service, "s1", json!({})).await;
    let lock = held_lock(&database);
    let first = append_later(&service, setting("n", 0));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = append_later(&service, setting("n", 1));
    // This was polled once and waits for a place in the queue. Only the next poll sees that it has got one.
    let waiting = append_later(&service, setting("n", 2));
    lock.unlock().unwrap();
    assert_eq!(first.await.unwrap(), 1);
    tokio::time::timeout(Duration::from_secs(5), service.close()).await.expect("closing takes for ever").unwrap();
    assert_eq!(second.await.unwrap(), 2);
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::FailedPrecondition);
}

#[tokio::test]
async fn a_closed_service_has_finished_what_it_took_and_refuses_the_rest() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    let taken: Vec<_> = (0..20).map(|n| append_later(&service, setting("n", n))).collect();
    let (first, second) = tokio::join!(service.close(), service.close());
    first.and(second).unwrap();
    join_all(taken).await.into_iter().for_each(|result| assert!(result.is_ok()));
    let refused = [
        append(&service, &key("s1"), setting("n", 0)).await.unwrap_err(),
        service.get_session(&key("s1"), &GetSessionConfig::default()).await.unwrap_err(),
        service.list_artifacts(&key("s1")).await.unwrap_err(),
        service.backup(database.beside("-copy")).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    }
    service.close().await.unwrap();
    assert_eq!(get(&database.open().await, &key("s1")).await.unwrap().seq(), 20);
}

#[tokio::test]
async fn dropping_the_service_or_a_future_finishes_what_was_accepted() {
    let database = DatabaseFile::new();
    let service = database.open().await;
    create(&service, "s1", json!({})).await;
    for n in 0..50 {
        drop(append(&service, &key("s1"), setting("user:n", n)).now_or_never());
    }
    drop(service);
    let service = database.open().await;
    assert_eq!(database::check_whole(&service, &Map::new()).await[0].seq(), 50);
}

#[test]
fn any_executor_will_do() {
    // `close` is polled by hand, without a runtime.
    let database = DatabaseFile::new();
    let service = wait(database.open());
    wait(create(&service, "s1", json!({"a": 1})));
    assert_eq!(wait(append(&service, &key("s1"), setting("a", 2))).unwrap(), 1);
    assert_eq!(wait(get(&service, &key("s1"))).unwrap().state().get("a"), Some(&json!(2)));
    wait(service.close()).unwrap();
}
