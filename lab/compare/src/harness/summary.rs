//! The results of all systems and cells.

use std::collections::BTreeMap;

use scratchbook_compare::protocol::Hello;
use scratchbook_compare::statistics::slope;

use crate::machine::Machine;
use crate::markdown::thousands;
use crate::outcome::CellOutcome;
use crate::results::{ResultLine, ResultRow};
use crate::systems::{FOR_PYTHON, SetupCost, SystemId};

/// A cell by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellKey {
    pub(crate) workload: String,
    pub(crate) size: u64,
    pub(crate) tasks: usize,
}

/// All results, by system and cell.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) machines: Vec<Machine>,
    pub(crate) hellos: Vec<Hello>,
    pub(crate) rounds: usize,
    pub(crate) unavailable: Vec<(String, String)>,
    pub(crate) setups: Vec<(String, SetupCost)>,
    outcomes: BTreeMap<SystemId, BTreeMap<CellKey, CellOutcome>>,
}

impl Summary {
    pub(crate) fn new(lines: &[ResultLine]) -> Self {
        let mut summary = Self::default();
        let mut rows: BTreeMap<SystemId, BTreeMap<CellKey, Vec<&ResultRow>>> = BTreeMap::new();
        // In earlier results, all sessions were created with two keys, and the size of a creation meant nothing.
        let counts_keys =
            lines.iter().any(|line| matches!(line, ResultLine::Row(row) if row.size == 2 && creates(row)));
        for line in lines {
            match line {
                ResultLine::Machine(machine) => {
                    summary.machines.push(machine.clone());
                    // A run that continues determines again what is unavailable.
                    summary.unavailable.clear();
                }
                ResultLine::System(hello) if !summary.hellos.contains(hello) => summary.hellos.push(hello.clone()),
                ResultLine::System(_) => {}
                ResultLine::Unavailable { system, why } => {
                    let pair = (system.clone(), why.clone());
                    if !summary.unavailable.contains(&pair) {
                        summary.unavailable.push(pair);
                    }
                }
                ResultLine::Setup { system, cost } => summary.add_setup(system, cost),
                ResultLine::Row(row) => {
                    summary.rounds = summary.rounds.max(row.round);
                    let size = if creates(row) && !counts_keys { 2 } else { row.size };
                    let key = CellKey { workload: row.workload.clone(), size, tasks: row.tasks };
                    rows.entry(row.id.clone()).or_default().entry(key).or_default().push(row);
                }
            }
        }
        let outcomes = rows
            .into_iter()
            .map(|(id, cells)| (id, cells.into_iter().map(|(key, rows)| (key, CellOutcome::of(&rows))).collect()));
        summary.outcomes = outcomes.collect();
        summary
    }

    /// Adds what a setup took. A run that continues finds everything there, so the time of its first part stays.
    fn add_setup(&mut self, system: &str, cost: &SetupCost) {
        match self.setups.iter_mut().find(|(known, _)| known == system) {
            Some((_, known)) => {
                known.bytes = cost.bytes;
                known.seconds = cost.seconds.or(known.seconds);
            }
            None => self.setups.push((system.to_owned(), cost.clone())),
        }
    }

    /// Returns the systems on a store: scratchbook, then its Python package, then the others, then the limit.
    pub(crate) fn systems(&self, store: &str) -> Vec<&SystemId> {
        let mut systems: Vec<_> = self.outcomes.keys().filter(|id| id.store == store).collect();
        let place = |id: &SystemId| match id.system.as_str() {
            "scratchbook" => 0,
            FOR_PYTHON => 1,
            "limit" => 3,
            _ => 2,
        };
        systems.sort_by_key(|id| place(id));
        systems
    }

    /// Returns a name for tables and plots. It contains the service only if the system has several services on one
    /// store.
    pub(crate) fn label(&self, id: &SystemId) -> String {
        let is_alone = |one: &SystemId| {
            !self
                .outcomes
                .keys()
                .any(|it| it.system == one.system && it.store == one.store && it.service != one.service)
        };
        let mut same = self.outcomes.keys().filter(|it| it.system == id.system);
        if same.all(is_alone) { id.system.clone() } else { id.name() }
    }

    pub(crate) fn outcome(&self, id: &SystemId, key: &CellKey) -> Option<&CellOutcome> {
        self.outcomes.get(id)?.get(key)
    }

    /// Returns the measurements of a cell.
    pub(crate) fn measured(&self, id: &SystemId, key: &CellKey) -> Option<&CellOutcome> {
        self.outcome(id, key).filter(|outcome| outcome.missing.is_none())
    }

    /// Returns the cells of all systems.
    pub(crate) fn cells(&self) -> Vec<CellKey> {
        let mut cells: Vec<_> = self.outcomes.values().flat_map(BTreeMap::keys).cloned().collect();
        cells.sort();
        cells.dedup();
        cells
    }

    /// Returns sizes and costs of a workload with a number of tasks: microseconds for an operation, or bytes.
    pub(crate) fn growth(&self, id: &SystemId, (workload, tasks): (&str, usize)) -> Vec<(f64, f64)> {
        let cells = self.outcomes.get(id).into_iter().flatten();
        let of_workload =
            cells.filter(|(key, outcome)| key.workload == workload && key.tasks == tasks && outcome.missing.is_none());
        let cost = |outcome: &CellOutcome| outcome.bytes.unwrap_or(1e6 / outcome.per_second);
        of_workload
            .map(|(key, outcome)| (key.size as f64, cost(outcome)))
            .filter(|(_, cost)| cost.is_finite())
            .collect()
    }

    /// Returns how the cost of a workload with a number of tasks grows, if it was measured at four or more sizes.
    pub(crate) fn slope(&self, id: &SystemId, workload: (&str, usize)) -> Option<f64> {
        let points = self.growth(id, workload);
        if points.len() < 4 { None } else { slope(&points) }
    }

    /// Returns what could not be measured: system and store, cell, reason.
    pub(crate) fn missing(&self) -> Vec<(&SystemId, &CellKey, &str)> {
        let all =
            self.outcomes.iter().flat_map(|(id, cells)| cells.iter().map(move |(key, outcome)| (id, key, outcome)));
        all.filter_map(|(id, key, outcome)| Some((id, key, outcome.missing.as_deref()?))).collect()
    }
}

fn creates(row: &ResultRow) -> bool {
    ["create", "http_create"].contains(&row.workload.as_str())
}

impl CellKey {
    /// Returns the size with its unit.
    pub(crate) fn size_in_words(&self) -> String {
        let unit = match self.workload.as_str() {
            "list" => "sessions",
            "state" | "create" | "http_create" => "keys",
            _ => "events",
        };
        format!("{} {unit}", thousands(self.size as f64))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use scratchbook_compare::protocol::{Measurement, RunnerAnswer, WrongCounts};

    use super::*;
    use crate::machine::MachineMoment;

    /// Returns the line of a measurement of one second.
    pub(crate) fn row(name: &str, store: &str, workload: &str, size: u64, answer: RunnerAnswer) -> ResultLine {
        let at = MachineMoment { quiet: true, ..MachineMoment::default() };
        let (id, workload) = (SystemId::new(name, None, store), workload.to_owned());
        ResultLine::Row(ResultRow { id, workload, size, tasks: 1, round: 1, at, answer })
    }

    pub(crate) fn measured(operations: u64, lost: u64) -> RunnerAnswer {
        let wrong = WrongCounts { lost, ..WrongCounts::default() };
        RunnerAnswer::Measured(Measurement {
            operations,
            seconds: 1.0,
            wrong,
            attempted: Some(200),
            ..Measurement::default()
        })
    }

    fn key(size: u64) -> CellKey {
        CellKey { workload: "append".to_owned(), size, tasks: 1 }
    }

    #[test]
    fn rounds_become_a_median_and_mistakes_are_summed_up() {
        let rounds = [(100, 1), (120, 0), (110, 2)];
        let lines: Vec<_> =
            rounds.map(|(operations, lost)| row("s", "sqlite", "append", 10, measured(operations, lost))).to_vec();
        let summary = Summary::new(&lines);
        let outcome = summary.measured(&SystemId::new("s", None, "sqlite"), &key(10)).unwrap();
        assert_eq!((outcome.per_second, outcome.wrong.lost, outcome.attempted), (110.0, 3, 600));
        assert!((outcome.spread - 20.0 / 110.0).abs() < 1e-9);
    }

    #[test]
    fn a_slope_takes_four_sizes() {
        let of_sizes = |sizes: &[u64]| {
            let lines: Vec<_> =
                sizes.iter().map(|size| row("s", "sqlite", "get", *size, measured(1_000_000 / size, 0))).collect();
            Summary::new(&lines).slope(&SystemId::new("s", None, "sqlite"), ("get", 1))
        };
        assert_eq!(of_sizes(&[10, 100, 1_000]), None);
        assert!((of_sizes(&[10, 100, 1_000, 10_000]).unwrap() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn creations_of_earlier_results_had_two_keys() {
        let sizes_of = |rows: &[(&str, u64)]| {
            let lines: Vec<_> =
                rows.iter().map(|(workload, size)| row("s", "sqlite", workload, *size, measured(1, 0))).collect();
            Summary::new(&lines).cells().into_iter().map(|key| key.size).collect::<Vec<_>>()
        };
        assert_eq!(sizes_of(&[("append", 10), ("create", 1), ("http_create", 10)]), [10, 2, 2]);
        assert_eq!(sizes_of(&[("append", 10), ("create", 2), ("http_create", 10)]), [10, 2, 10]);
    }

    #[test]
    fn the_time_of_a_setup_is_that_of_the_run_that_began_with_nothing() {
        let setup = |bytes, seconds| ResultLine::Setup { system: "s".to_owned(), cost: SetupCost { bytes, seconds } };
        let summary = Summary::new(&[setup(5, Some(60.0)), setup(7, None)]);
        assert_eq!(summary.setups, [("s".to_owned(), SetupCost { bytes: 7, seconds: Some(60.0) })]);
    }

    #[test]
    fn services_are_named_if_a_store_has_several_of_them() {
        let line = |store: &str, system: &str, service: &str| {
            let ResultLine::Row(mut row) = row(system, store, "append", 10, measured(1, 0)) else {
                panic!("it is a row")
            };
            row.id.service = Some(service.to_owned());
            ResultLine::Row(row)
        };
        let lines =
            [line("memory", "a", "M"), line("sqlite", "a", "S"), line("sqlite", "b", "S"), line("sqlite", "b", "T")];
        let summary = Summary::new(&lines);
        assert_eq!(summary.label(&SystemId::new("a", Some("S"), "sqlite")), "a");
        assert_eq!(summary.label(&SystemId::new("b", Some("T"), "sqlite")), "b, T");
    }

    #[test]
    fn what_failed_is_missing_with_the_reason() {
        let summary =
            Summary::new(&[row("s", "sqlite", "append", 10, RunnerAnswer::Failed { error: "full".to_owned() })]);
        let missing = summary.missing();
        assert_eq!((missing.len(), missing[0].2), (1, "failed: full"));
        assert!(summary.measured(missing[0].0, missing[0].1).is_none());
    }
}
