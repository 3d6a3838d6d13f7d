//! Faults that happen while transactions run, one after the other, at random times.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use scratchbook_test_servers::Proxy;

use crate::database::{Database, LeaderLoss};
use crate::drive::FailedCalls;
use crate::history::Notes;
use crate::servers::ServerProcess;

/// The error if a fault could not be made or undone.
pub type FaultError = Box<dyn std::error::Error + Send + Sync>;

/// How many times each fault happened.
pub type FaultCounts = BTreeMap<&'static str, usize>;

/// The maximum number of pauses until a server is found that holds the lock of its file.
const PAUSES: usize = 200;

/// How far a clock is set forward or back, in seconds.
const CLOCK_STEP: i64 = 86_400;

/// What can fail.
#[derive(Debug)]
pub struct FaultTargets {
    /// The servers.
    pub servers: Vec<ServerProcess>,
    /// The proxies between the servers and the database, one for each server.
    pub proxies: Vec<Proxy>,
    /// The database.
    pub database: Database,
    /// How many calls of workers have failed.
    pub failures: FailedCalls,
    /// What happened to them.
    pub notes: Notes,
}

/// Faults, which a separate thread makes until they are healed.
#[derive(Debug)]
pub struct Faults {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<(FaultTargets, FaultCounts), FaultError>>,
}

impl Faults {
    /// Starts to make faults, with pauses of up to `pause` between them.
    #[must_use]
    pub fn begin(parts: FaultTargets, pause: Duration, seed: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || make(parts, pause, fastrand::Rng::with_seed(seed), &until));
        Self { is_over, thread }
    }

    /// Ends the faults, so that everything runs again. Returns the parts, and how many times each fault happened.
    ///
    /// # Errors
    ///
    /// A fault could not be made or undone.
    pub fn heal(self) -> Result<(FaultTargets, FaultCounts), FaultError> {
        self.is_over.store(true, Relaxed);
        self.thread.join().map_err(|_| FaultError::from("the thread of the faults has panicked"))?
    }
}

/// A kind of fault.
struct Fault {
    name: &'static str,
    is_possible: fn(&FaultTargets) -> bool,
    /// Makes the fault. Returns whether it happened.
    make: fn(&mut FaultTargets, &mut fastrand::Rng) -> Result<bool, FaultError>,
}

const FAULTS: [Fault; 14] = [
    Fault {
        name: "server killed",
        is_possible: |parts| !parts.servers.is_empty(),
        make: |parts, random| {
            let n = random.usize(..parts.servers.len());
            parts.servers[n].crash()?;
            Ok(true)
        },
    },
    Fault {
        name: "server paused",
        is_possible: |parts| !parts.servers.is_empty(),
        make: |parts, random| {
            let server = &parts.servers[random.usize(..parts.servers.len())];
            server.pause()?;
            thread::sleep(some_time(random));
            server.resume()?;
            Ok(true)
        },
    },
    Fault {
        name: "lock holder paused",
        is_possible: |parts| parts.servers.len() > 1 && parts.database.lock_file().is_some(),
        make: pause_holder,
    },
    Fault {
        name: "clock set",
        is_possible: |parts| parts.servers.iter().any(|server| server.clock().is_some()),
        make: |parts, random| match parts.servers[random.usize(..parts.servers.len())].clock() {
            Some(clock) => clock.set(random.i64(-CLOCK_STEP..CLOCK_STEP)).map(|()| true),
            None => Ok(false),
        },
    },
    Fault {
        name: "connections cut",
        is_possible: |parts| !parts.proxies.is_empty(),
        make: |parts, random| {
            parts.proxies[random.usize(..parts.proxies.len())].cut();
            Ok(true)
        },
    },
    Fault {
        name: "answers lost",
        is_possible: |parts| !parts.proxies.is_empty(),
        make: |parts, random| {
            parts.proxies[random.usize(..parts.proxies.len())].swallow(random.usize(1..4));
            Ok(true)
        },
    },
    Fault {
        name: "database killed",
        is_possible: |parts| {
            matches!(
                parts.database,
                Database::Postgres(_)
                    | Database::PostgresOnSmallDisk { .. }
                    | Database::ReadStandby(_)
                    | Database::MariaDb(_)
                    | Database::MySql(_)
                    | Database::MariaDbOnSmallDisk { .. }
            )
        },
        make: |parts, _| parts.database.kill().map(|()| true),
    },
    Fault {
        name: "primary lost",
        is_possible: |parts| matches!(parts.database, Database::Standby(_)),
        make: |parts, _| parts.database.fail_over(&parts.proxies).map(|()| true),
    },
    Fault {
        name: LeaderLoss::Killed.name(),
        is_possible: |parts| matches!(parts.database, Database::Patroni(_)),
        make: |parts, random| parts.database.lose_leader(LeaderLoss::Killed, some_time(random), &mut parts.notes),
    },
    Fault {
        name: LeaderLoss::Frozen.name(),
        is_possible: |parts| matches!(parts.database, Database::Patroni(_)),
        make: |parts, random| parts.database.lose_leader(LeaderLoss::Frozen, some_time(random), &mut parts.notes),
    },
    Fault {
        name: LeaderLoss::Stalled.name(),
        is_possible: |parts| matches!(parts.database, Database::Patroni(_)),
        make: |parts, random| parts.database.lose_leader(LeaderLoss::Stalled, some_time(random), &mut parts.notes),
    },
    Fault {
        name: LeaderLoss::CutOff.name(),
        is_possible: |parts| matches!(parts.database, Database::Patroni(_)),
        make: |parts, random| parts.database.lose_leader(LeaderLoss::CutOff, some_time(random), &mut parts.notes),
    },
    Fault {
        name: "node killed",
        is_possible: |parts| matches!(parts.database, Database::Galera { .. }),
        make: |parts, random| parts.database.kill_node(&parts.proxies, random).map(|()| true),
    },
    Fault {
        name: "disk full",
        is_possible: |parts| parts.database.disk().is_some(),
        make: |parts, random| parts.database.fill_disk(some_time(random), &parts.failures),
    },
];

fn some_time(random: &mut fastrand::Rng) -> Duration {
    Duration::from_millis(random.u64(200..2_000))
}

/// Pauses servers until it finds a server that holds the lock of the file, and leaves this server paused for some time.
fn pause_holder(parts: &mut FaultTargets, random: &mut fastrand::Rng) -> Result<bool, FaultError> {
    let lock = parts.database.lock_file().ok_or("no lock file")?;
    for _ in 0..PAUSES {
        let server = &parts.servers[random.usize(..parts.servers.len())];
        server.pause()?;
        let is_holder = holds_lock(server.id(), &lock)?;
        if is_holder {
            thread::sleep(some_time(random));
        }
        server.resume()?;
        if is_holder {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a process holds the lock of a file. The kernel lists locks as
/// `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`. Processes that wait for the lock have `->` after the number.
fn holds_lock(process: u32, file: &Path) -> Result<bool, FaultError> {
    let (process, inode) = (process.to_string(), format!(":{}", std::fs::metadata(file)?.ino()));
    let locks = std::fs::read_to_string("/proc/locks")?;
    Ok(locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        matches!(words[..], [_, "FLOCK", _, _, pid, place, ..] if pid == process && place.ends_with(&inode))
    }))
}

fn make(
    mut parts: FaultTargets,
    pause: Duration,
    mut random: fastrand::Rng,
    is_over: &AtomicBool,
) -> Result<(FaultTargets, FaultCounts), FaultError> {
    let mut counts = FaultCounts::new();
    let possible: Vec<_> = FAULTS.iter().filter(|fault| (fault.is_possible)(&parts)).collect();
    while let Some(fault) = random.choice(&possible).filter(|_| !is_over.load(Relaxed)) {
        thread::sleep(pause.mul_f64(random.f64()));
        parts.notes.add("fault", fault.name);
        if (fault.make)(&mut parts, &mut random)? {
            *counts.entry(fault.name).or_default() += 1;
        }
        parts.notes.add("over", fault.name);
    }
    parts.proxies.iter().for_each(|proxy| proxy.swallow(0));
    Ok((parts, counts))
}
