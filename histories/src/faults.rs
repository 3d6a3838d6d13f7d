//! Faults that happen while transactions run, one after the other, at random times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use scratchbook_test_servers::{MariaDb, Postgres, Proxy};

use crate::servers::{ServerProcess, until_started};

/// An error of a fault that could not be made or undone.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// How many times each fault happened.
pub type Counts = BTreeMap<&'static str, usize>;

/// The database behind the servers.
#[derive(Debug)]
pub enum Database {
    /// A file, or memory: there is no process to kill.
    Embedded,
    /// A PostgreSQL server.
    Postgres(Postgres),
    /// A MariaDB server.
    MariaDb(MariaDb),
}

/// What can fail.
#[derive(Debug)]
pub struct Parts {
    /// The servers.
    pub servers: Vec<ServerProcess>,
    /// The proxies between the servers and the database, one for each server.
    pub proxies: Vec<Proxy>,
    /// The database.
    pub database: Database,
}

/// Faults that happen in a thread of their own until they are healed.
#[derive(Debug)]
pub struct Faults {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<(Parts, Counts), Error>>,
}

impl Faults {
    /// Begins to make faults, with pauses of up to `pause` between them.
    #[must_use]
    pub fn begin(parts: Parts, pause: Duration, seed: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || make(parts, pause, fastrand::Rng::with_seed(seed), &until));
        Self { is_over, thread }
    }

    /// Ends the faults: everything runs again. Returns the parts, and how many times each fault happened.
    ///
    /// # Errors
    ///
    /// A fault could not be made or undone.
    pub fn heal(self) -> Result<(Parts, Counts), Error> {
        self.is_over.store(true, Relaxed);
        self.thread.join().map_err(|_| Error::from("the thread of the faults has panicked"))?
    }
}

/// One of the faults.
type Fault = fn(&mut Parts, &mut fastrand::Rng) -> Result<(), Error>;

/// The faults by their names.
const FAULTS: [(&str, Fault); 5] = [
    ("server killed", |parts, random| {
        let n = random.usize(..parts.servers.len());
        Ok(parts.servers[n].crash()?)
    }),
    ("server paused", |parts, random| {
        let server = &parts.servers[random.usize(..parts.servers.len())];
        server.pause()?;
        thread::sleep(Duration::from_millis(random.u64(200..2_000)));
        Ok(server.resume()?)
    }),
    ("connections cut", |parts, random| {
        parts.proxies[random.usize(..parts.proxies.len())].cut();
        Ok(())
    }),
    ("answers lost", |parts, random| {
        parts.proxies[random.usize(..parts.proxies.len())].swallow(random.usize(1..4));
        Ok(())
    }),
    ("database killed", |parts, _| match &parts.database {
        Database::Embedded => Ok(()),
        Database::Postgres(server) => Ok(server.kill().and_then(|()| until_started(|| server.restart()))?),
        Database::MariaDb(server) => Ok(server.kill().and_then(|()| until_started(|| server.restart()))?),
    }),
];

fn make(
    mut parts: Parts,
    pause: Duration,
    mut random: fastrand::Rng,
    is_over: &AtomicBool,
) -> Result<(Parts, Counts), Error> {
    let mut counts = Counts::new();
    let possible: Vec<_> = FAULTS.iter().filter(|(name, _)| is_possible(name, &parts)).collect();
    while let Some((name, fault)) = random.choice(&possible).filter(|_| !is_over.load(Relaxed)) {
        thread::sleep(pause.mul_f64(random.f64()));
        fault(&mut parts, &mut random)?;
        *counts.entry(name).or_default() += 1;
    }
    parts.proxies.iter().for_each(|proxy| proxy.swallow(0));
    Ok((parts, counts))
}

fn is_possible(fault: &str, parts: &Parts) -> bool {
    match fault {
        "database killed" => !matches!(parts.database, Database::Embedded),
        "connections cut" | "answers lost" => !parts.proxies.is_empty(),
        _ => !parts.servers.is_empty(),
    }
}
