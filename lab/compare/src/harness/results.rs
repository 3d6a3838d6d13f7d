//! The file of results: a line of JSON for each measurement, written as soon as it is made. A run that is started again
//! does not repeat the measurements in the file.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use scratchbook_compare::protocol::{Hello, RunnerAnswer};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::cells::Cell;
use crate::machine::{Machine, MachineMoment};
use crate::systems::{SetupCost, SystemId};

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ResultLine {
    /// The run was started, or continued.
    Machine(Machine),
    /// A runner was started for the first time.
    System(Hello),
    /// A system cannot be measured.
    Unavailable {
        system: String,
        why: String,
    },
    /// What it takes to build or install a system.
    Setup {
        system: String,
        #[serde(flatten)]
        cost: SetupCost,
    },
    Row(ResultRow),
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResultRow {
    #[serde(flatten)]
    pub(crate) id: SystemId,
    pub(crate) workload: String,
    pub(crate) size: u64,
    pub(crate) tasks: usize,
    pub(crate) round: usize,
    /// In a published file, a row lacks the moment if it is that of the row before.
    #[serde(default, skip_serializing_if = "MachineMoment::is_missing")]
    pub(crate) at: MachineMoment,
    pub(crate) answer: RunnerAnswer,
}

/// The lines of a file, to which more are appended.
#[derive(Debug)]
pub(crate) struct Results {
    file: Option<File>,
    lines: Vec<ResultLine>,
    measured: HashSet<(SystemId, String, u64, usize, usize)>,
    unsupported: HashSet<(SystemId, String, u64, usize)>,
}

impl Results {
    /// Opens a file for appending. It is emptied if the run is to begin again.
    pub(crate) fn open(path: &Path, fresh: bool) -> Result<Self> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        if fresh && path.exists() {
            fs::remove_file(path).map_err(failed)?;
        }
        let text = if path.exists() { fs::read_to_string(path).map_err(failed)? } else { String::new() };
        let mut file = File::options().create(true).append(true).open(path).map_err(failed)?;
        if !text.is_empty() && !text.ends_with('\n') {
            // An earlier run ended in the middle of this line.
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { file: Some(file), ..Self::of(&text) })
    }

    /// Reads a file that stays as it is.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}; `cargo xtask bench --publish` writes it", path.display()))?;
        Ok(Self::of(&text))
    }

    /// Reads lines. A line that is cut off is left out, so that its measurement is made again.
    fn of(text: &str) -> Self {
        let mut results = Self { file: None, lines: Vec::new(), measured: HashSet::new(), unsupported: HashSet::new() };
        let mut last = MachineMoment::default();
        for mut line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            if let ResultLine::Row(row) = &mut line {
                row.at = if row.at.is_missing() { last } else { row.at };
                last = row.at;
            }
            results.add(line);
        }
        results
    }

    pub(crate) fn lines(&self) -> &[ResultLine] {
        &self.lines
    }

    /// Appends a line to the file.
    pub(crate) fn append(&mut self, line: ResultLine) -> Result<()> {
        let mut text = serde_json::to_string(&line).map_err(|error| format!("a result: {error}"))?;
        text.push('\n');
        if let Some(file) = &mut self.file {
            file.write_all(text.as_bytes()).map_err(|error| format!("the file of results: {error}"))?;
        }
        self.add(line);
        Ok(())
    }

    fn add(&mut self, line: ResultLine) {
        if let ResultLine::Row(row) = &line {
            let cell = (row.id.clone(), row.workload.clone(), row.size, row.tasks);
            match row.answer {
                RunnerAnswer::Measured(_) => {
                    self.measured.insert((cell.0, cell.1, cell.2, cell.3, row.round));
                }
                RunnerAnswer::Unsupported { .. } => {
                    self.unsupported.insert(cell);
                }
                // The measurement is tried again when the run is started again.
                RunnerAnswer::Failed { .. } => {}
            }
        }
        self.lines.push(line);
    }

    /// Returns whether there is nothing to measure: the measurement exists, or the system cannot do it.
    pub(crate) fn has(&self, id: &SystemId, cell: &Cell, round: usize) -> bool {
        let workload = cell.workload.to_owned();
        self.measured.contains(&(id.clone(), workload.clone(), cell.size, cell.tasks, round))
            || self.unsupported.contains(&(id.clone(), workload, cell.size, cell.tasks))
    }

    /// Returns whether a runner of this system has been started before.
    pub(crate) fn knows(&self, hello: &Hello) -> bool {
        self.lines.iter().any(|line| matches!(line, ResultLine::System(known) if known == hello))
    }

    /// Returns the text of all lines. Failures of cells that were measured later are left out, and moments of the machine
    /// that are those of the row before.
    pub(crate) fn shortened(&self) -> Result<String> {
        let (mut text, mut last) = (String::new(), MachineMoment::default());
        for line in &self.lines {
            let mut line = line.clone();
            if let ResultLine::Row(row) = &mut line {
                if self.is_overtaken(row) {
                    continue;
                }
                let at = std::mem::take(&mut row.at);
                row.at = if at == last { MachineMoment::default() } else { at };
                last = at;
            }
            text.push_str(&serde_json::to_string(&line).map_err(|error| format!("a result: {error}"))?);
            text.push('\n');
        }
        Ok(text)
    }

    fn is_overtaken(&self, row: &ResultRow) -> bool {
        let key = (row.id.clone(), row.workload.clone(), row.size, row.tasks, row.round);
        matches!(row.answer, RunnerAnswer::Failed { .. }) && self.measured.contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use scratchbook_compare::protocol::Measurement;

    use super::*;

    const CELL: Cell = Cell { workload: "append", size: 10, tasks: 1 };

    fn id() -> SystemId {
        SystemId::new("s", Some("service"), "sqlite")
    }

    fn row(round: usize, answer: RunnerAnswer) -> ResultLine {
        let (workload, at) = ("append".to_owned(), MachineMoment::default());
        ResultLine::Row(ResultRow { id: id(), workload, size: 10, tasks: 1, round, at, answer })
    }

    fn measured() -> RunnerAnswer {
        RunnerAnswer::Measured(Measurement { operations: 3, seconds: 1.5, ..Measurement::default() })
    }

    #[test]
    fn a_run_that_is_started_again_leaves_out_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/results.jsonl");
        let mut results = Results::open(&path, false).unwrap();
        results.append(row(1, measured())).unwrap();
        results.append(row(2, RunnerAnswer::Failed { error: "full".to_owned() })).unwrap();
        drop(results);

        let again = Results::open(&path, false).unwrap();
        assert_eq!(again.lines().len(), 2);
        assert_eq!([1, 2, 3].map(|round| again.has(&id(), &CELL, round)), [true, false, false]);
        assert!(!again.has(&SystemId::new("s", None, "sqlite"), &CELL, 1));
        assert!(Results::open(&path, true).unwrap().lines().is_empty());
    }

    #[test]
    fn what_a_system_cannot_do_is_not_asked_for_again() {
        let mut results = Results::of("");
        results.append(row(1, RunnerAnswer::Unsupported { unsupported: "no".to_owned() })).unwrap();
        assert!(results.has(&id(), &CELL, 3));
    }

    #[test]
    fn a_line_that_was_cut_off_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let line = serde_json::to_string(&row(1, measured())).unwrap();
        fs::write(&path, format!("{line}\n{}", &line[..line.len() / 2])).unwrap();
        let mut results = Results::open(&path, false).unwrap();
        results.append(row(2, measured())).unwrap();
        drop(results);
        let again = Results::read(&path).unwrap();
        assert_eq!(again.lines().len(), 2);
        assert!(again.has(&id(), &CELL, 2));
    }

    #[test]
    fn a_failure_that_was_measured_later_is_not_published() {
        let failed = RunnerAnswer::Failed { error: "full".to_owned() };
        let mut results = Results::of("");
        for line in [row(1, failed.clone()), row(1, measured()), row(2, failed)] {
            results.append(line).unwrap();
        }
        assert_eq!(results.shortened().unwrap().lines().count(), 2);
    }

    #[test]
    fn a_published_moment_is_written_once_and_read_for_each_row() {
        let moments = [94.0, 94.0, 101.5, 94.0].map(|flush_us| MachineMoment { flush_us, ..MachineMoment::default() });
        let mut results = Results::of("");
        for (round, at) in (1..).zip(moments) {
            let ResultLine::Row(row) = row(round, measured()) else { continue };
            results.append(ResultLine::Row(ResultRow { at, ..row })).unwrap();
        }
        let text = results.shortened().unwrap();
        assert_eq!(text.matches("flush_us").count(), 3);
        assert_eq!(Results::of(&text).lines(), results.lines());
    }
}
