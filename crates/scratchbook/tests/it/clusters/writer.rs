//! A process that writes until it has to stop.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scratchbook::{AppendOptions, CreateSessionConfig, Event, SessionKey, SessionService, StateDelta, connect};
use serde_json::json;

use crate::database::{APP, event, key};

pub(super) const URI: &str = "SCRATCHBOOK_TEST_LOAD_URI";
pub(super) const PROCESS: &str = "SCRATCHBOOK_TEST_LOAD_PROCESS";
pub(super) const KEYS: &str = "SCRATCHBOOK_TEST_LOAD_KEYS";

/// The number of writers of a process. Each writer waits for an append before it makes the next.
const WRITERS: usize = 8;

/// Sessions that all processes write to.
pub(super) const SHARED: [&str; 2] = ["shared-0", "shared-1"];

/// A process for [`WriterProcesses`](super::load::WriterProcesses); otherwise this does nothing. Its input ends when it
/// has to stop or its parent ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_writes_until_its_input_ends() {
    let (Ok(uri), Ok(process)) = (std::env::var(URI), std::env::var(PROCESS)) else {
        return;
    };
    let hot = std::env::var(KEYS).is_ok_and(|keys| keys == "hot");
    let service = connect(&uri).await.unwrap().sessions;
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        told.store(true, Relaxed);
    });
    println!();
    let writers = (0..WRITERS).map(|writer| {
        let (service, over, name) = (Arc::clone(&service), Arc::clone(&over), format!("{process}-{writer}"));
        let user = format!("user-{process}");
        tokio::spawn(async move { write(service.as_ref(), &user, &name, hot, &over).await })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    service.close().await.unwrap();
    println!("done");
}

/// Appends to the writer's own session and, every third time, to a shared session.
async fn write(service: &dyn SessionService, user: &str, name: &str, hot: bool, over: &AtomicBool) {
    let config = CreateSessionConfig::default().with_session_id(name);
    service.create_session(APP, user, config).await.unwrap();
    let own = SessionKey::new(APP, user, name).unwrap();
    let shared = SHARED.map(key);
    for n in 0.. {
        if over.load(Relaxed) {
            return;
        }
        let place = if n % 3 == 2 { &shared[n / 3 % 2] } else { &own };
        let event = event(delta(name, n, hot)).with_id(format!("{name}-{n}"));
        let seq = until_acknowledged(service, place, &event).await;
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        println!("acknowledged {} {seq} {micros}", event.id);
    }
}

/// Retries with the same event id while the database cannot be reached.
async fn until_acknowledged(service: &dyn SessionService, key: &SessionKey, event: &Event) -> u64 {
    loop {
        match service.append(key, event.clone(), AppendOptions::default()).await {
            Ok(committed) => return committed.event.seq.unwrap(),
            Err(error) => {
                assert!(error.is_retryable(), "{}: {error:?}", event.id);
                println!("failed {} {error}", event.id);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Keys of every scope, set and removed.
fn delta(name: &str, n: usize, hot: bool) -> StateDelta {
    let mut delta = StateDelta::new();
    delta.set(format!("step_{}", n % 5), json!({"writer": name, "n": n})).unwrap();
    delta.remove(format!("step_{}", (n + 2) % 5)).unwrap();
    delta.set("user:last", json!([name, n])).unwrap();
    if n % 4 == 1 {
        delta.remove(format!("user:gone_{}", n % 3)).unwrap();
    }
    if hot || n % 4 == 2 {
        delta.set("app:last", json!([name, n])).unwrap();
    }
    delta
}
