//! A server that is killed under load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use scratchbook::session::{FeedStart, StateOwner};
use scratchbook::store::PostgresSessionService;
use scratchbook::{SessionService, StateDelta};
use scratchbook_test_servers::{Postgres, PostgresOptions};
use serde_json::json;

use super::server::{TestSchema, client};
use crate::database::{append, check_whole, create, key, number_from_env, setting};

const WRITERS: usize = 12;
/// The minimum number of appends of a writer, however slow the machine is.
const AT_LEAST: usize = 10;

/// `SCRATCHBOOK_CRASH_ROUNDS` sets the number of rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_or_stopped_under_load_loses_and_doubles_nothing() {
    // Without a flush to the disk, acknowledged writes survive a crash of the server, but not of the machine.
    let server = Arc::new(Postgres::start(&PostgresOptions::default().with_fast_disk()).unwrap());
    let schema = TestSchema::on(&server.uri());
    let service = Arc::new(schema.open().await);
    for session in ["s0", "s1", "s2"] {
        create(service.as_ref(), session, json!({})).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&service), writer, Arc::clone(&over))));
    let writers: Vec<_> = writers.collect();
    for round in 0..number_from_env("SCRATCHBOOK_CRASH_ROUNDS", 3) {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let server = Arc::clone(&server);
        let crash = tokio::task::spawn_blocking(move || {
            if round % 2 == 0 {
                server.kill().unwrap();
            }
            restart(&server);
        });
        crash.await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    over.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeMap::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let sessions = check_whole(service.as_ref(), &Default::default()).await;
    let events = sessions.iter().flat_map(|session| session.events().iter());
    let stored: BTreeMap<_, _> = events.map(|event| (event.id.clone(), event.seq.unwrap())).collect();
    assert_eq!(stored, acknowledged);
    println!("{} appends, each acknowledged and stored once", acknowledged.len());
    assert!(acknowledged.len() >= WRITERS * AT_LEAST);
}

/// If PostgreSQL is killed, it reuses the numbers of transactions that were rolled back and not on the disk yet.
#[tokio::test]
async fn a_reader_of_the_feed_misses_nothing_if_own_postgres_gives_numbers_of_transactions_again() {
    let server = Postgres::start(&PostgresOptions::default().with_setting("wal_writer_delay", "10s")).unwrap();
    let schema = TestSchema::on(&server.uri());
    let service = schema.open().await;
    create(&service, "s", json!({})).await;
    append(&service, &key("s"), setting("n", 0)).await.unwrap();
    let other = client(&server.uri()).await;
    for _ in 0..50 {
        other.batch_execute("BEGIN; SELECT pg_current_xact_id(); ROLLBACK").await.unwrap();
    }
    let app = StateOwner::app("app").unwrap();
    let mut places = vec![service.list_feed(&app, &FeedStart::Now, 1).await.unwrap().cursor];
    places.push(service.list_feed(&app, &FeedStart::Beginning, 100).await.unwrap().cursor);
    server.kill().unwrap();
    restart(&server);
    for n in 1..=80 {
        append(&service, &key("s"), setting("n", n)).await.unwrap();
        let first = service.list_feed(&app, &FeedStart::After(places[0].clone()), 1).await.unwrap();
        assert_eq!(first.entries.len(), 1, "after {n} events");
    }
    for place in places {
        let new = service.list_feed(&app, &FeedStart::After(place), 100).await.unwrap();
        assert_eq!(new.entries.len(), 80);
    }
}

async fn write(service: Arc<PostgresSessionService>, writer: usize, over: Arc<AtomicBool>) -> BTreeMap<String, u64> {
    let mut acknowledged = BTreeMap::new();
    let key = key(&format!("s{}", writer % 3));
    while !over.load(Ordering::Relaxed) || acknowledged.len() < AT_LEAST {
        let n = acknowledged.len();
        let id = format!("{writer}-{n}");
        let delta = StateDelta::new().with("n", n).unwrap().with("user:n", n).unwrap().with("app:n", n).unwrap();
        let seq = append(service.as_ref(), &key, crate::database::event(delta).with_id(&id)).await.unwrap();
        acknowledged.insert(id, seq);
    }
    acknowledged
}

/// Restarts the server. This retries, because on a busy machine a killed process may hold the server's memory for a
/// moment, and until then the server does not start.
fn restart(server: &Postgres) {
    let start = Instant::now();
    while let Err(error) = server.restart() {
        assert!(error.to_string().contains("shared memory block"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20), "{error}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
