//! The table of results: a row for each topology, written when the topology is done.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::check::Report;
use crate::faults::FaultCounts;
use crate::history::Note;
use crate::topology::TopologyOutcome;

const HEAD: &str = "\
| topology | seconds | committed | refused | unknown | faults | falsely refused | falsely accepted | violations |
|---|---|---|---|---|---|---|---|---|";

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
        let Report { committed, refused, unknown, false_refusals, false_acceptances, violations, .. } = report;
        let faults = in_words(&outcome.faults, &outcome.notes);
        let (seconds, violations) = (time.as_secs(), violations.len());
        let row = format!(
            "| {topology} | {seconds} | {committed} | {refused} | {unknown} | {faults} | {false_refusals} | \
             {false_acceptances} | {violations} |"
        );
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

/// Returns how many times each fault happened, and to what and when, if this was noted.
fn in_words(faults: &FaultCounts, notes: &[Note]) -> String {
    let part = |(name, count): (&&str, &usize)| {
        let noted = notes.iter().filter(|note| note.what == *name);
        let places: Vec<_> = noted.map(|note| format!("{} at {} s", note.value, note.time / 1_000_000_000)).collect();
        if places.is_empty() { format!("{count} {name}") } else { format!("{count} {name} ({})", places.join("; ")) }
    };
    let parts: Vec<_> = faults.iter().map(part).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::history::Notes;

    #[test]
    fn a_table_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.md");
        let report = Report { committed: 7, violations: vec!["lost".to_owned()], ..Report::default() };
        let outcome = TopologyOutcome { report, faults: FaultCounts::from([("server killed", 2)]), notes: Vec::new() };
        ResultTable::open(Some(&path)).unwrap().add("sqlite", Duration::from_secs(5), &outcome).unwrap();
        let mut table = ResultTable::open(Some(&path)).unwrap();
        assert!(table.has("sqlite") && !table.has("sqlite-4"));
        table.add("sqlite-4", Duration::from_secs(5), &outcome).unwrap();
        let rows =
            ["sqlite", "sqlite-4"].map(|name| format!("| {name} | 5 | 7 | 0 | 0 | 2 server killed | 0 | 0 | 1 |\n"));
        let rows = rows.concat();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEAD}\n{rows}"));
    }

    #[test]
    fn a_fault_of_a_node_has_the_node_and_the_time() {
        let mut notes = Notes::since(Instant::now());
        for (what, value) in [("fault", "leader frozen"), ("leader frozen", "node 1"), ("leader frozen", "node 2")] {
            notes.add(what, value);
        }
        let mut notes = notes.into_inner();
        notes[2].time = 200_300_000_000;
        let faults = FaultCounts::from([("leader frozen", 2), ("server killed", 1)]);
        let words = "2 leader frozen (node 1 at 0 s; node 2 at 200 s), 1 server killed";
        assert_eq!(in_words(&faults, &notes), words);
    }
}
