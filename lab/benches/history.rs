//! Measures how long it takes to read the state as it was at any of 100,000 events, in a SQLite file.
//!
//! Prints a table in Markdown. Fails if an event of the appended session takes longer than 10 ms. Each event is read
//! three times and the fastest read counts, so that a busy machine does not look like a slow read. The slowest of all
//! reads is shown as well.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use scratchbook::store::Synchronous;
use scratchbook::{AppendOptions, CreateSessionConfig, SessionKey, SessionService, SqliteSessionService};
use scratchbook_benches::{event, runtime, session, sqlite};

const EVENTS: usize = 100_000;
/// At how many events the state is read.
const ASKED: usize = 1_000;
/// The maximum time of a read in the appended session.
const LIMIT: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
    runtime.block_on(async {
        let service = sqlite(&folder.path().join("bench.db"), Synchronous::Normal).await;
        println!("| a session of {EVENTS} events | the first read | median | 99 of 100 | worst | worst of all reads |");
        println!("|---|---|---|---|---|---|");
        let key = session(service.as_ref(), "appended", 0, 20).await;
        for n in 0..EVENTS {
            service.append(&key, event(n), AppendOptions::default()).await.unwrap();
        }
        let appended = ReadTimes::of(&service, &key).await;
        appended.print("appended one by one");
        let config = CreateSessionConfig::default().with_session_id("imported");
        let imported = config.with_events((0..EVENTS).map(event).collect());
        let key = service.create_session("app", "other", imported).await.unwrap().key().clone();
        ReadTimes::of(&service, &key).await.print("imported at once, read at once");
        ReadTimes::of(&service, &key).await.print("imported at once, read again");
        if appended.worst() <= LIMIT { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

/// How long reads took.
struct ReadTimes {
    first: Duration,
    /// The fastest read of each event, sorted.
    best: Vec<Duration>,
    worst_of_all: Duration,
}

impl ReadTimes {
    async fn of(service: &SqliteSessionService, key: &SessionKey) -> Self {
        let (mut first, mut best, mut worst_of_all) = (None, Vec::new(), Duration::ZERO);
        let mut random: u64 = 0x9E37_79B9_7F4A_7C15;
        for _ in 0..ASKED {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let seq = (random >> 33) % (EVENTS as u64 + 1);
            let mut times = [Duration::ZERO; 3];
            for time in &mut times {
                let started = Instant::now();
                let state = service.get_state_at(key, seq).await.unwrap();
                *time = started.elapsed();
                assert_eq!(state.get_as::<u64>("step").unwrap(), seq.checked_sub(1));
                first.get_or_insert(*time);
                worst_of_all = worst_of_all.max(*time);
            }
            best.extend(times.iter().min());
        }
        best.sort();
        Self { first: first.unwrap_or_default(), best, worst_of_all }
    }

    fn worst(&self) -> Duration {
        self.best.last().copied().unwrap_or_default()
    }

    fn print(&self, name: &str) {
        let millis = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
        let part = |hundredths: usize| millis(self.best[self.best.len() * hundredths / 100]);
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            millis(self.first),
            part(50),
            part(99),
            millis(self.worst()),
            millis(self.worst_of_all)
        );
    }
}
