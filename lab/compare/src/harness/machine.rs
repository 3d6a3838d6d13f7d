//! Describes the machine, and measures how quiet it is.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use scratchbook_compare::protocol::rounded;
use scratchbook_compare::statistics::median;
use serde::{Deserialize, Serialize};

/// How much processor time other programs may use on a quiet machine, as a part of one processor.
const BUSY: f64 = 0.3;
/// How many times as long as the run's quickest flush a flush may take on a quiet machine.
const SLOWER: f64 = 3.0;
/// How long the use of the processors is measured.
const WATCHED: Duration = Duration::from_millis(150);

/// The state of the machine before a measurement, while no runner did anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineMoment {
    /// The load average of the last minute. It includes the run itself.
    pub(crate) load: f64,
    /// How many processors other programs used.
    pub(crate) busy: f64,
    /// How long it took to write and flush 4 KiB, in microseconds.
    pub(crate) flush_us: f64,
    pub(crate) quiet: bool,
}

impl MachineMoment {
    /// Whether this is no moment that was measured: a flush takes time.
    pub(crate) fn is_missing(&self) -> bool {
        *self == Self::default()
    }
}

/// The machine and the build that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) system: String,
    pub(crate) processors: usize,
    pub(crate) processor: String,
    pub(crate) build: String,
    pub(crate) quick: bool,
}

/// Watches the machine, and waits until it is quiet.
pub(crate) struct MachineWatch {
    file: File,
    quickest_us: f64,
    left: Duration,
}

impl MachineWatch {
    /// Creates a file in this folder, which has to be on the disk that is measured. A whole run waits at most for the
    /// time `left`.
    pub(crate) fn new(folder: &Path, left: Duration) -> Result<Self, String> {
        let path = folder.join("flush");
        let failed = |error| format!("{}: {error}", path.display());
        let mut file = File::create(&path).map_err(failed)?;
        // Later writes do not change the file's size, so a flush writes only one block and no metadata.
        file.write_all(&[0; 4096]).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(Self { file, quickest_us: f64::INFINITY, left })
    }

    /// Waits until the machine is quiet, or until the time for waiting is over. Returns the last state of the machine.
    pub(crate) fn wait(&mut self) -> Result<MachineMoment, String> {
        loop {
            let moment = self.look()?;
            if moment.quiet || self.left.is_zero() {
                return Ok(moment);
            }
            let pause = self.left.min(Duration::from_secs(2));
            std::thread::sleep(pause);
            self.left -= pause;
        }
    }

    fn look(&mut self) -> Result<MachineMoment, String> {
        let before = busy_seconds();
        std::thread::sleep(WATCHED);
        let busy = busy_seconds().zip(before).map_or(0.0, |(after, before)| (after - before) / WATCHED.as_secs_f64());
        let flush_us = self.flush().map_err(|error| format!("a flush: {error}"))?;
        self.quickest_us = self.quickest_us.min(flush_us);
        let quiet = busy <= BUSY && flush_us <= SLOWER * self.quickest_us;
        Ok(MachineMoment { load: load(), busy: rounded(busy.max(0.0)), flush_us: rounded(flush_us), quiet })
    }

    /// Returns the median of several flushes, in microseconds.
    fn flush(&mut self) -> std::io::Result<f64> {
        let mut times = Vec::new();
        for n in 0..9 {
            let started = Instant::now();
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&[n; 4096])?;
            self.file.sync_data()?;
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&times).unwrap_or_default())
    }
}

impl Machine {
    pub(crate) fn here(quick: bool) -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            date: said_by("date", &["-u", "+%Y-%m-%d %H:%M"]),
            commit: said_by("git", &["rev-parse", "--short=8", "HEAD"]),
            system: said_by("uname", &["-srm"]),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            processor: model.map_or_else(String::new, |(_, name)| name.trim().to_owned()),
            build: if cfg!(debug_assertions) { "debug".to_owned() } else { "optimized".to_owned() },
            quick,
        }
    }
}

/// Returns what a program prints, or nothing if there is no such program.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// Returns how long all processors together have been in use since the start, in seconds.
fn busy_seconds() -> Option<f64> {
    busy_of(&fs::read_to_string("/proc/stat").ok()?)
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, in hundredths.
fn busy_of(stat: &str) -> Option<f64> {
    let fields: Vec<f64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let used = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| fields.get(*at));
    if fields.len() < 5 { None } else { Some(used.sum::<f64>() / 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_disk_and_doing_nothing_is_not_being_busy() {
        assert_eq!(busy_of("cpu  100 20 30 9999 500 1 2 3 0 0\ncpu0 1 1"), Some(1.56));
        assert_eq!(busy_of("nothing"), None);
    }

    #[test]
    fn a_flush_is_measured_and_a_run_does_not_wait_longer_than_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = MachineWatch::new(folder.path(), Duration::ZERO).unwrap();
        let moment = watch.wait().unwrap();
        assert!(moment.flush_us > 0.0, "{moment:?}");
    }
}
