//! The medians of all rounds of a cell.

use scratchbook_compare::protocol::{Latencies, RunnerAnswer, WrongCounts};
use scratchbook_compare::statistics::{median, spread};

use crate::results::ResultRow;

/// The results of a cell in all rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellOutcome {
    /// The median of the operations per second.
    pub(crate) per_second: f64,
    /// The distance between the slowest and the fastest round, as a part of the median.
    pub(crate) spread: f64,
    pub(crate) latencies: Option<Latencies>,
    pub(crate) bytes: Option<f64>,
    /// The sum over the rounds.
    pub(crate) wrong: WrongCounts,
    pub(crate) attempted: u64,
    /// Whether the machine was quiet in all rounds.
    pub(crate) quiet: bool,
    /// The reason why the cell has no measurement; `None` if it has a measurement.
    pub(crate) missing: Option<String>,
}

impl CellOutcome {
    pub(crate) fn of(rows: &[&ResultRow]) -> Self {
        let measured: Vec<_> = rows
            .iter()
            .filter_map(|row| match &row.answer {
                RunnerAnswer::Measured(measured) => Some((row.at.quiet, measured)),
                _ => None,
            })
            .collect();
        if measured.is_empty() {
            let why = rows.last().map(|row| match &row.answer {
                RunnerAnswer::Unsupported { unsupported } => unsupported.clone(),
                RunnerAnswer::Failed { error } => format!("failed: {error}"),
                RunnerAnswer::Measured(_) => String::new(),
            });
            return Self { missing: why, ..Self::default() };
        }
        let rates: Vec<_> = measured.iter().map(|(_, measured)| measured.per_second()).collect();
        let latencies: Vec<_> = measured.iter().filter_map(|(_, measured)| measured.latencies_us).collect();
        let bytes: Vec<_> = measured.iter().filter_map(|(_, measured)| measured.bytes).collect();
        let mut wrong = WrongCounts::default();
        measured.iter().for_each(|(_, measured)| wrong.add(&measured.wrong));
        Self {
            per_second: median(&rates).unwrap_or_default(),
            spread: spread(&rates).unwrap_or_default(),
            latencies: percentiles(&latencies),
            bytes: median(&bytes),
            wrong,
            attempted: measured.iter().map(|(_, it)| it.attempted.unwrap_or(it.operations)).sum(),
            quiet: measured.iter().all(|(quiet, _)| *quiet),
            missing: None,
        }
    }
}

fn percentiles(rounds: &[Latencies]) -> Option<Latencies> {
    let middle = |of: fn(&Latencies) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    Some(Latencies {
        p50: middle(|it| it.p50)?,
        p90: middle(|it| it.p90)?,
        p99: middle(|it| it.p99)?,
        max: middle(|it| it.max)?,
    })
}
