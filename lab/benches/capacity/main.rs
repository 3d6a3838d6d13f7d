//! Measures what a session, an event and a key cost: bytes on the disk, bytes logged, processor time. Prints the
//! figures of the capacity plan in docs/scale.md, in Markdown. A word on the command line selects stores by name.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

mod disk;
mod stores;

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use scratchbook::session::ListSessionsConfig;
use scratchbook::{AppendOptions, CreateSessionConfig, GetSessionConfig, SessionKey, SessionService};
use scratchbook_benches::{cpu, event};
use serde_json::{Map, json};
use tokio::runtime::Runtime;

use stores::MeasuredStore;

/// How many sessions there are. Each session has its own user.
const SESSIONS: usize = 1_000;
/// How many events each session gets. An event writes a key of the session and a key of the user.
const EVENTS: usize = 100;
/// How many keys a session begins with, in addition to the keys that its events write.
const KEYS: usize = 10;
/// How many callers there are in measurements with several callers.
const CALLERS: usize = 64;
/// How many calls one caller makes alone.
const ALONE: usize = 3_000;

/// The cost of a number of calls.
struct Cost {
    calls: usize,
    seconds: f64,
    /// The processor time of the client, in seconds.
    client: f64,
    /// The processor time of the server, in seconds.
    server: f64,
    /// How many bytes were written to the log that makes commits durable.
    logged: u64,
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("load before {}\n", load());
    for (name, open) in stores::STORES {
        if name.contains(&filter) {
            measure(name, open);
        }
    }
    println!("load afterwards {}", load());
}

fn measure(name: &str, open: &dyn Fn(&Runtime) -> MeasuredStore) {
    let runtime = scratchbook_benches::runtime();
    let measured = open(&runtime);
    let create: Vec<usize> = (0..SESSIONS).collect();
    let (keys, created) = run(&runtime, &measured, CALLERS, create, |service, n| async move {
        let state: Map<_, _> = (0..KEYS).map(|k| (format!("key{k}"), json!("a value of some length"))).collect();
        let config = CreateSessionConfig::default().with_state(state);
        let session = service.create_session("shop", &format!("user-{n:06}"), config).await.unwrap();
        session.key().clone()
    });
    let append = |service: Arc<dyn SessionService>, (key, n): (SessionKey, usize)| async move {
        service.append(&key, event(n), AppendOptions::default()).await.unwrap();
    };
    let get = |service: Arc<dyn SessionService>, key: SessionKey| async move {
        let config = GetSessionConfig::default().with_num_recent_events(20);
        service.get_session(&key, &config).await.unwrap();
    };
    let many = (0..EVENTS).flat_map(|n| keys.iter().map(move |key| (key.clone(), n)));
    let (_, batched) = run(&runtime, &measured, CALLERS, many.collect(), append);
    let sizes = measured.sizes();
    let alone = keys.iter().cycle().take(ALONE).map(|key| (key.clone(), EVENTS));
    let (_, single) = run(&runtime, &measured, 1, alone.collect(), append);
    let (_, read) = run(&runtime, &measured, CALLERS, keys.iter().cycle().take(10 * ALONE).cloned().collect(), get);

    let (_, listed) = run(&runtime, &measured, CALLERS, vec![(); ALONE], |service, ()| async move {
        service.list_sessions("shop", &ListSessionsConfig::default().with_page_size(20)).await.unwrap();
    });

    println!("### {name}\n\n| table | rows | bytes a row | of that its indexes |\n|---|---|---|---|");
    for size in sizes.iter().filter(|size| size.rows > 0) {
        let (rows, all) = (size.rows, size.table + size.indexes);
        println!("| {} | {rows} | {} | {} |", size.name, all / rows, size.indexes / rows);
    }
    println!("\n| what | a second | client, us each | server, us each | logged, bytes each |\n|---|---|---|---|---|");
    for (what, cost) in [
        (format!("sessions made by {CALLERS} callers"), created),
        (format!("appends by {CALLERS} callers"), batched),
        ("appends by one caller".to_owned(), single),
        (format!("reads of state and the last 20 events by {CALLERS} callers"), read),
        (format!("pages of 20 of the app's sessions by {CALLERS} callers"), listed),
    ] {
        let calls = cost.calls as f64;
        let each = |seconds: f64| seconds / calls * 1e6;
        let (client, server) = (each(cost.client), each(cost.server));
        let (rate, logged) = (calls / cost.seconds, cost.logged / cost.calls as u64);
        println!("| {what} | {rate:.0} | {client:.0} | {server:.0} | {logged} |");
    }
    println!();
}

/// Makes calls by this many callers. Each caller waits for a call before it makes the next one.
fn run<W, A, F>(
    runtime: &Runtime,
    measured: &MeasuredStore,
    callers: usize,
    work: Vec<W>,
    call: impl Fn(Arc<dyn SessionService>, W) -> F + Copy + Send + 'static,
) -> (Vec<A>, Cost)
where
    W: Send + 'static,
    A: Send + 'static,
    F: Future<Output = A> + Send,
{
    let calls = work.len();
    let mut shares: Vec<Vec<W>> = (0..callers).map(|_| Vec::new()).collect();
    for (n, work) in work.into_iter().enumerate() {
        shares[n % callers].push(work);
    }
    let (logged, client, server) = (measured.logged(), cpu::own(), measured.cpu());
    let start = Instant::now();
    let answers = runtime.block_on(async {
        let tasks = shares.into_iter().map(|share| {
            let service = measured.service();
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for work in share {
                    answers.push(call(Arc::clone(&service), work).await);
                }
                answers
            })
        });
        let mut answers = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            answers.extend(task.await.unwrap());
        }
        answers
    });
    let seconds = start.elapsed().as_secs_f64();
    let (client, server) = (cpu::own() - client, measured.cpu() - server);
    (answers, Cost { calls, seconds, client, server, logged: measured.logged() - logged })
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .map_or("unknown".to_owned(), |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}
