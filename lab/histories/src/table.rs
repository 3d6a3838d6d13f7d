//! The table of results: a row for each topology, written when the topology is done.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::check::Report;
use crate::faults::{FaultCounts, FaultError};
use crate::history::Note;
use crate::topology::TopologyOutcome;

const HEAD: [&str; 2] = [
    "| topology | seconds | writes | reads | refused by key | not done | unknown | faults | falsely refused | \
     falsely accepted | violations |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
];

/// A table that is printed, and also written to a file if a file is given. Topologies with a row in the file are not
/// run again.
#[derive(Debug)]
pub struct ResultTable {
    path: Option<PathBuf>,
    done: Vec<DoneRow>,
}

/// What an earlier run found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierRow {
    /// No promise was broken.
    Whole,
    /// A promise was broken. The number of violations is then bold in the file.
    Broken,
}

/// A row of the file.
#[derive(Debug)]
struct DoneRow {
    topology: String,
    seconds: u64,
    found: EarlierRow,
}

impl ResultTable {
    /// Begins a table, or continues the one in the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or has another table.
    pub fn open(path: Option<&Path>) -> Result<Self, FaultError> {
        let mut table = Self { path: path.map(Path::to_path_buf), done: Vec::new() };
        let Some(path) = path.filter(|path| path.exists()) else {
            HEAD.iter().try_for_each(|line| table.write(line))?;
            return Ok(table);
        };
        let text = fs::read_to_string(path)?;
        // A run that was killed may have left part of a row.
        let text = text.rsplit_once('\n').map_or("", |(whole, _)| whole).to_owned() + "\n";
        fs::write(path, &text)?;
        let mut lines = text.lines();
        if !HEAD.iter().all(|line| lines.next() == Some(line)) {
            return Err(
                format!("{} has another table than this command writes; name another file", path.display()).into()
            );
        }
        for line in lines {
            let row = row_in(line).ok_or_else(|| format!("{} has a line that is no row: {line}", path.display()))?;
            table.done.push(row);
        }
        print!("{text}");
        Ok(table)
    }

    /// Returns what the newest row of this topology with at least as many seconds says.
    #[must_use]
    pub fn earlier(&self, topology: &str, time: Duration) -> Option<EarlierRow> {
        let mut newest = self.done.iter().rev();
        newest.find(|row| row.topology == topology && row.seconds >= time.as_secs()).map(|row| row.found)
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn add(
        &mut self,
        topology: &str,
        time: Duration,
        outcome: &TopologyOutcome,
        is_broken: bool,
    ) -> io::Result<()> {
        let report = &outcome.report;
        let Report { written, read, refused, failed, unknown, false_refusals, false_acceptances, .. } = report;
        let faults = in_words(&outcome.faults, &outcome.notes);
        let (seconds, bold) = (time.as_secs(), if is_broken { "**" } else { "" });
        let violations = report.violations.len();
        let row = format!(
            "| {topology} | {seconds} | {written} | {read} | {refused} | {failed} | {unknown} | {faults} | \
             {false_refusals} | {false_acceptances} | {bold}{violations}{bold} |"
        );
        let found = if is_broken { EarlierRow::Broken } else { EarlierRow::Whole };
        self.done.push(DoneRow { topology: topology.to_owned(), seconds, found });
        self.write(&row)
    }

    fn write(&self, line: &str) -> io::Result<()> {
        println!("{line}");
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = File::options().create(true).append(true).open(path)?;
        // The row has to survive a crash in the runs that follow.
        file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_data())
    }
}

fn row_in(line: &str) -> Option<DoneRow> {
    let cells: Vec<_> = line.split('|').map(str::trim).collect();
    let ["", topology, seconds, _, _, _, _, _, _, _, _, violations, ""] = cells[..] else { return None };
    violations.trim_matches('*').parse::<u64>().ok()?;
    let found = if violations.starts_with("**") { EarlierRow::Broken } else { EarlierRow::Whole };
    Some(DoneRow { topology: topology.to_owned(), seconds: seconds.parse().ok()?, found })
}

/// Returns how many times each fault happened, and to what and when, if this was noted.
fn in_words(faults: &FaultCounts, notes: &[Note]) -> String {
    let part = |(name, count): (&&str, &usize)| {
        if *count == 0 {
            return (*name).to_owned();
        }
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
        let report = Report { written: 7, violations: vec!["lost".to_owned()], ..Report::default() };
        let outcome = TopologyOutcome { report, faults: FaultCounts::from([("server killed", 2)]), notes: Vec::new() };
        let five = Duration::from_secs(5);
        ResultTable::open(Some(&path)).unwrap().add("sqlite", five, &outcome, true).unwrap();
        let mut table = ResultTable::open(Some(&path)).unwrap();
        assert_eq!(table.earlier("sqlite", five), Some(EarlierRow::Broken), "it stays broken after an interruption");
        assert_eq!([table.earlier("sqlite", 2 * five), table.earlier("sqlite-4", five)], [None; 2]);
        table.add("sqlite-4", five, &outcome, false).unwrap();
        let row =
            |name: &str, count: &str| format!("| {name} | 5 | 7 | 0 | 0 | 0 | 0 | 2 server killed | 0 | 0 | {count} |");
        fs::write(&path, fs::read_to_string(&path).unwrap() + "| memory | 5 | 7").unwrap();
        assert_eq!(ResultTable::open(Some(&path)).unwrap().earlier("sqlite-4", five), Some(EarlierRow::Whole));
        let lines = [HEAD[0].to_owned(), HEAD[1].to_owned(), row("sqlite", "**1**"), row("sqlite-4", "1")];
        assert_eq!(fs::read_to_string(&path).unwrap().lines().collect::<Vec<_>>(), lines);
        fs::write(&path, "| topology | seconds |\n").unwrap();
        assert!(ResultTable::open(Some(&path)).unwrap_err().to_string().contains("another table"));
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
