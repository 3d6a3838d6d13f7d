//! Tests of the service as a whole: the order of writes, panics, and reads that are dropped.

use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use super::{CommitScope, SqliteOptions, SqliteSessionService};
use scratchbook_core::error::{Error, ErrorKind};

#[tokio::test]
async fn a_small_write_does_not_wait_for_a_large_one_that_came_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    let service = SqliteSessionService::open(path, SqliteOptions::default()).await.unwrap();
    let ((begin, begun), (go, gone)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let mut first = pin!(service.write(CommitScope::Nothing, 9, move |_| {
        begun.recv().map_err(|_| Error::internal("nobody lets it").into())
    }));
    let mut small = pin!(service.write(CommitScope::Nothing, 9, |tx| tx.next_position()));
    let mut large = pin!(service.write(CommitScope::Nothing, 2 << 20, move |_| {
        gone.recv().map_err(|_| Error::internal("nobody lets it").into())
    }));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(small.as_mut().now_or_never().is_none());
    assert!(large.as_mut().now_or_never().is_none());
    begin.send(()).unwrap();
    first.await.unwrap();
    timeout(Duration::from_secs(9), small).await.expect("the large one is still being written").unwrap();
    go.send(()).unwrap();
    large.await.unwrap();
}

#[tokio::test]
async fn a_panic_in_a_write_or_a_read_is_its_own_error_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(1)).await.unwrap();
    let write = service.write::<()>(CommitScope::Nothing, 0, |tx| {
        tx.execute("INSERT INTO app_states VALUES ('app', 'half', '1', 1, 1)", [])?;
        panic!("a defect")
    });
    let position = service.write(CommitScope::Nothing, 0, |tx| tx.next_position());
    let (broken, position) = tokio::join!(write, position);
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(position.unwrap(), 1);
    let read = service.read::<()>(|_| panic!("a defect")).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Internal);
    let count = "SELECT count(*) FROM app_states";
    let count = service.read(|connection| Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?)).await;
    assert_eq!(count.unwrap(), 0);
}

/// A query that runs for hours if nothing interrupts it.
const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";

#[tokio::test]
async fn a_read_that_nobody_waits_for_ends_and_the_next_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(1)).await.unwrap();
    let query = |sql: &'static str| {
        service.read(move |connection| Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?))
    };
    for pause in [0, 1, 5, 20, 50] {
        let endless = tokio::time::timeout(Duration::from_millis(pause), query(ENDLESS)).await;
        assert!(endless.is_err());
        // Queued reads are dropped like the running one.
        let many = futures_util::future::join_all((0..100).map(|_| query(ENDLESS)));
        assert!(tokio::time::timeout(Duration::from_millis(pause), many).await.is_err());
        let next = tokio::time::timeout(Duration::from_secs(10), query("SELECT 7")).await;
        assert_eq!(next.expect("the reader is free").unwrap(), 7);
    }
}

#[tokio::test]
async fn a_read_that_is_dropped_between_two_statements_ends_at_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(1)).await.unwrap();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let read = service.read(move |connection| {
        begun.send(()).map_err(|()| Error::internal("the test has ended"))?;
        goes_on.recv().map_err(|_| Error::internal("the test has ended"))?;
        Ok(connection.query_row(ENDLESS, [], |row| row.get::<_, i64>(0))?)
    });
    tokio::select! {
        _ = read => panic!("the read has ended"),
        begun = begins => begun.unwrap(),
    }
    go_on.send(()).unwrap();
    let next = service.read(|connection| Ok(connection.query_row("SELECT 7", [], |row| row.get::<_, i64>(0))?));
    assert_eq!(timeout(Duration::from_secs(10), next).await.expect("the reader is free").unwrap(), 7);
}

/// Ending one read never ends another.
#[tokio::test(flavor = "multi_thread")]
async fn reads_beside_those_that_are_dropped_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.db");
    let service = SqliteSessionService::open(path, SqliteOptions::default().with_readers(2)).await.unwrap();
    let count = |most: i64| {
        let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1) SELECT count(*) FROM n";
        service.read(move |connection| Ok(connection.query_row(sql, [most], |row| row.get::<_, i64>(0))?))
    };
    for round in 0..300 {
        let dropped = tokio::time::timeout(Duration::from_micros(round * 7), count(20_000));
        let (_, whole) = tokio::join!(dropped, count(1000));
        assert_eq!(whole.unwrap(), 1000);
    }
}
