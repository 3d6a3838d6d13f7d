//! Checks every promise about speed, as a ratio of two measurements in the same run: the median of interleaved rounds.
//!
//! Prints a table in Markdown. Fails if a target is missed. `--bench` and other arguments of the harness are ignored. A
//! word on the command line selects rows by name.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot run has nothing to report")]

mod mariadb;
mod memory;
mod postgres;
mod runs;
mod side;
mod sqlite;

use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Measures a comparison with this name, and returns its row.
pub(crate) type CompareFn = fn(&'static str) -> ComparisonRow;

/// The number of rounds of a comparison. Each round measures one side after the other.
const ROUNDS: usize = 5;
/// The number of rounds of a comparison with many short rounds.
const FINE_ROUNDS: usize = 41;

/// A comparison: the measurements and the target.
pub(crate) struct ComparisonRow {
    name: &'static str,
    /// For each round, the seconds that one unit of work took on each side.
    rounds: Vec<(f64, f64)>,
    target: RatioTarget,
    unit: &'static str,
}

/// The target for the ratio of side `a` to side `b`.
#[derive(Clone, Copy)]
pub(crate) enum RatioTarget {
    /// `a` costs at most this many times as much as `b`.
    CostAtMost(f64),
    /// `a` is at least this many times as fast as `b`.
    SpeedAtLeast(f64),
}

/// Measures one side after the other, round by round. `a` and `b` return the seconds that one unit of work took.
pub(crate) fn compare(
    name: &'static str,
    target: RatioTarget,
    unit: &'static str,
    a: impl FnMut() -> f64,
    b: impl FnMut() -> f64,
) -> ComparisonRow {
    compare_in(ROUNDS, name, target, unit, a, b)
}

/// Does the same as [`compare`] in many short rounds. This is for targets of a few percent, which is less than the
/// difference between two rounds.
pub(crate) fn compare_finely(
    name: &'static str,
    target: RatioTarget,
    unit: &'static str,
    a: impl FnMut() -> f64,
    b: impl FnMut() -> f64,
) -> ComparisonRow {
    compare_in(FINE_ROUNDS, name, target, unit, a, b)
}

fn compare_in(
    count: usize,
    name: &'static str,
    target: RatioTarget,
    unit: &'static str,
    mut a: impl FnMut() -> f64,
    mut b: impl FnMut() -> f64,
) -> ComparisonRow {
    // Both sides run once before they are measured.
    let _ = (a(), b());
    let rounds = (0..count).map(|_| (a(), b())).collect();
    ComparisonRow { name, rounds, target, unit }
}

/// Returns the mean time of `count` repetitions, in seconds.
pub(crate) fn time_each(count: usize, mut work: impl FnMut()) -> f64 {
    let started = Instant::now();
    (0..count).for_each(|_| work());
    started.elapsed().as_secs_f64() / count as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl ComparisonRow {
    fn ratio(&self) -> f64 {
        median(
            self.rounds
                .iter()
                .map(|(a, b)| if let RatioTarget::CostAtMost(_) = self.target { a / b } else { b / a })
                .collect(),
        )
    }

    fn is_met(&self) -> bool {
        match self.target {
            RatioTarget::CostAtMost(limit) => self.ratio() <= limit,
            RatioTarget::SpeedAtLeast(limit) => self.ratio() >= limit,
        }
    }

    fn print(&self) {
        let per_second = |side: fn(&(f64, f64)) -> f64| 1.0 / median(self.rounds.iter().map(side).collect());
        let target = match self.target {
            RatioTarget::CostAtMost(limit) => format!("cost at most {limit}"),
            RatioTarget::SpeedAtLeast(limit) => format!("speed at least {limit}"),
        };
        let met = if self.is_met() { "yes" } else { "**no**" };
        println!(
            "| {} | {:.0} | {:.0} | {} | {:.2} | {target} | {met} |",
            self.name,
            per_second(|round| round.0),
            per_second(|round| round.1),
            self.unit,
            self.ratio(),
        );
    }
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .map_or("unknown".to_owned(), |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// Returns the median time of many flushes of small writes.
fn flush_time() -> Duration {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(folder.path().join("flush")).unwrap();
    let times = (0..50).map(|_| {
        file.write_all(&[7; 4096]).unwrap();
        let started = Instant::now();
        file.sync_data().unwrap();
        started.elapsed().as_secs_f64()
    });
    Duration::from_secs_f64(median(times.collect()))
}

fn main() -> ExitCode {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, load {}, one flush {} us\n", load(), flush_time().as_micros());
    println!("| a against b | a, per s | b, per s | what | ratio | target | met |");
    println!("|---|---|---|---|---|---|---|");
    let comparisons = memory::COMPARISONS
        .iter()
        .chain(sqlite::COMPARISONS)
        .chain(runs::COMPARISONS)
        .chain(postgres::COMPARISONS)
        .chain(mariadb::COMPARISONS);
    let mut missed = 0;
    for (name, comparison) in comparisons.filter(|(name, _)| name.contains(&filter)) {
        let row = comparison(name);
        row.print();
        missed += usize::from(!row.is_met());
    }
    println!("\nload afterwards {}; {missed} targets missed", load());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
