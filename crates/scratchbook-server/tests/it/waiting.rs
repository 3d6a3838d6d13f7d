//! Writes that wait for a lock in the store, and reads of other sessions meanwhile.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use scratchbook::connect;
use scratchbook_server::ServerLimits;
use scratchbook_test_servers::{Postgres, PostgresOptions};
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::support::{Answer, TestClient, answer};

/// How many PATCHes wait at a time.
const PATCHES: usize = 16;

/// How long a read may take while the PATCHes wait. A machine with many tests at a time is slow.
const AT_ONCE: Duration = Duration::from_secs(1);

async fn client(uri: &str) -> TestClient {
    let limits = ServerLimits::default().with_heavy_reads(1);
    let client = TestClient::new(connect(uri).await.unwrap(), |server| server.limits(limits));
    for n in 0..PATCHES {
        client.session("demo", "u", &format!("s{n}")).await;
    }
    for user in ["u", "v"] {
        client.session("demo", user, "other").await;
    }
    client
}

/// Sends PATCHes to one session or to one of its own each.
fn patches(client: &TestClient, sessions: usize) -> Vec<JoinHandle<Answer>> {
    let patch = |n| {
        let request = Request::patch(format!("/apps/demo/users/u/sessions/s{}", n % sessions));
        let body = json!({"stateDelta": {format!("k{n}"): n, "user:last": n}}).to_string();
        let request = request.header(CONTENT_TYPE, "application/json").body(Body::from(body)).unwrap();
        let router = client.router.clone();
        tokio::spawn(async move { answer(&router, request).await })
    };
    (0..PATCHES).map(patch).collect()
}

/// Reads other sessions of the same user and of another one for a while. Returns how long the slowest read took.
async fn slowest_read(client: &TestClient, time: Duration) -> Duration {
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < time {
        for path in
            ["/apps/demo/users/u/sessions/other", "/apps/demo/users/v/sessions/other", "/v1/apps/demo/users/v/state"]
        {
            let asked = Instant::now();
            assert_eq!(client.get(path).await.0, 200, "{path}");
            slowest = slowest.max(asked.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    slowest
}

/// Asserts that every PATCH is stored, and answers with its session.
async fn assert_stored(patches: Vec<JoinHandle<Answer>>) {
    for (n, patch) in patches.into_iter().enumerate() {
        let answer = patch.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["state"][format!("k{n}")], n, "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_that_wait_for_a_lock_of_the_file_leave_reads_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let client = client(&format!("sqlite://{}", path.display())).await;
    // Another process that writes holds this lock.
    let lock = File::open(folder.path().join("s.db-lock")).unwrap();
    lock.lock().unwrap();
    let patches = patches(&client, 1);
    let slowest = slowest_read(&client, Duration::from_millis(1500)).await;
    assert!(patches.iter().all(|patch| !patch.is_finished()), "nothing was waited for");
    lock.unlock().unwrap();
    assert!(slowest < AT_ONCE, "{slowest:?}");
    assert_stored(patches).await;
}

mod own_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn patches_that_wait_for_a_row_leave_reads_their_places_and_connections() {
        let server = Arc::new(Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap());
        for pool in [2, 8] {
            let client = client(&format!("{}?pool_size={pool}&schema=pool{pool}", server.uri())).await;
            let first = json!({"stateDelta": {"user:last": 0}});
            let made = client.send("PATCH", "/apps/demo/users/u/sessions/other", Some(&first));
            assert_eq!(made.await.status, 200);
            for (row, sessions) in [("sessions WHERE id = 's0'", 1), ("user_states WHERE user_id = 'u'", PATCHES)] {
                let sql = format!("SELECT 1 FROM pool{pool}.{row} FOR UPDATE; SELECT pg_sleep(5)");
                let locking = Arc::clone(&server);
                let lock = spawn_blocking(move || locking.ask(&format!("BEGIN; {sql}; COMMIT")).unwrap());
                tokio::time::sleep(Duration::from_millis(300)).await;
                let patches = patches(&client, sessions);
                let slowest = slowest_read(&client, Duration::from_millis(3500)).await;
                assert!(patches.iter().all(|patch| !patch.is_finished()), "nothing was waited for");
                lock.await.unwrap();
                assert_stored(patches).await;
                assert!(slowest < AT_ONCE, "{row} with {pool} connections: {slowest:?}");
            }
        }
    }
}
