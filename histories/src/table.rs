//! The table of results: a row for each topology, written when the topology is done.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::faults::FaultCounts;
use crate::topology::TopologyOutcome;

const HEAD: &str =
    "| topology | seconds | committed | refused | unknown | faults | violations |\n|---|---|---|---|---|---|---|";

/// A table that is printed, and also written to a file if a file is given. Topologies with a row in the file are not
/// run again.
#[derive(Debug)]
pub struct ResultTable {
    path: Option<PathBuf>,
    done: Vec<String>,
}

impl ResultTable {
    /// Begins a table, or continues the one in the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let mut table = Self { path: path.map(Path::to_path_buf), done: Vec::new() };
        match path.filter(|path| path.exists()) {
            Some(path) => {
                let text = fs::read_to_string(path)?;
                table.done = text.lines().skip(2).filter_map(name_in).collect();
                print!("{text}");
            }
            None => table.write(HEAD)?,
        }
        Ok(table)
    }

    /// Returns whether the table has a row for this topology.
    #[must_use]
    pub fn has(&self, topology: &str) -> bool {
        self.done.iter().any(|done| done == topology)
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn add(&mut self, topology: &str, time: Duration, outcome: &TopologyOutcome) -> io::Result<()> {
        let report = &outcome.report;
        let (committed, refused, unknown) = (report.committed, report.refused, report.unknown);
        let (seconds, faults, violations) = (time.as_secs(), in_words(&outcome.faults), report.violations.len());
        let row = format!("| {topology} | {seconds} | {committed} | {refused} | {unknown} | {faults} | {violations} |");
        self.done.push(topology.to_owned());
        self.write(&row)
    }

    fn write(&self, line: &str) -> io::Result<()> {
        println!("{line}");
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = File::options().create(true).append(true).open(path)?;
        // The row has to survive a crash in the runs that follow.
        writeln!(file, "{line}").and_then(|()| file.sync_data())
    }
}

fn name_in(row: &str) -> Option<String> {
    row.split('|').nth(1).map(|name| name.trim().to_owned())
}

fn in_words(faults: &FaultCounts) -> String {
    let parts: Vec<_> = faults.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Report;

    #[test]
    fn a_table_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.md");
        let report = Report { committed: 7, violations: vec!["lost".to_owned()], ..Report::default() };
        let outcome = TopologyOutcome { report, faults: FaultCounts::from([("server killed", 2)]) };
        ResultTable::open(Some(&path)).unwrap().add("sqlite", Duration::from_secs(5), &outcome).unwrap();
        let mut table = ResultTable::open(Some(&path)).unwrap();
        assert!(table.has("sqlite") && !table.has("sqlite-4"));
        table.add("sqlite-4", Duration::from_secs(5), &outcome).unwrap();
        let rows =
            "| sqlite | 5 | 7 | 0 | 0 | 2 server killed | 1 |\n| sqlite-4 | 5 | 7 | 0 | 0 | 2 server killed | 1 |\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEAD}\n{rows}"));
    }
}
