//! What clients asked for and what they got, in the order in which it happened.
//!
//! The format is that of [Elle](https://github.com/jepsen-io/elle)'s list-append histories: each line is a JSON object,
//! and each transaction has two lines, one for its beginning and one for its end.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Serialize, Serializer};

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// Appends an element. No other step appends the same element to this list.
    Append {
        /// The name of the list.
        list: String,
        /// The element.
        element: u64,
    },
    /// Reads a list.
    Read {
        /// The name of the list.
        list: String,
        /// What it contains; `None` until the transaction has ended.
        elements: Option<Vec<u64>>,
    },
}

impl Serialize for TransactionStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Append { list, element } => ("append", list, element).serialize(serializer),
            Self::Read { list, elements } => ("r", list, elements).serialize(serializer),
        }
    }
}

/// What an entry says about its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// The transaction begins.
    Invoke,
    /// The transaction was committed.
    Ok,
    /// The transaction was not committed.
    Fail,
    /// It is unknown whether the transaction was committed, or will be.
    Info,
}

/// The beginning or the end of a transaction.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryEntry {
    /// The place in the history.
    pub index: usize,
    /// Whether the transaction begins or ends here, and how it ends.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// The process that runs the transaction. A process runs one transaction at a time, and ends after an unknown
    /// outcome.
    pub process: u64,
    /// The time since the history's beginning, in nanoseconds.
    pub time: u64,
    /// Always `txn`.
    pub f: &'static str,
    /// The steps.
    pub value: Vec<TransactionStep>,
}

/// Something that happened to what is attacked. It is no transaction, and the checks do not see it. In the history it is
/// an operation of the process `nemesis`, as in those of Jepsen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    #[serde(rename = "type")]
    kind: EntryKind,
    process: &'static str,
    /// The time since the history's beginning, in nanoseconds.
    pub time: u64,
    /// The time of the machine's clock, in milliseconds since 1970, for a comparison with the logs of servers.
    pub clock: u64,
    /// What happened, such as `leader frozen`.
    #[serde(rename = "f")]
    pub what: &'static str,
    /// To what it happened, such as `node 1`.
    pub value: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s: {}: {}", Duration::from_nanos(self.time).as_secs_f64(), self.what, self.value)
    }
}

/// The notes of a history, in the order in which they were made.
#[derive(Clone, Debug)]
pub struct Notes {
    begun: Instant,
    notes: Vec<Note>,
}

impl Notes {
    /// Begins the notes of a history that began at this time.
    #[must_use]
    pub fn since(begun: Instant) -> Self {
        Self { begun, notes: Vec::new() }
    }

    /// Notes what happens now.
    pub fn add(&mut self, what: &'static str, value: impl Into<String>) {
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (time, clock) = (nanos(self.begun.elapsed()), u64::try_from(clock.as_millis()).unwrap_or(u64::MAX));
        self.notes.push(Note { kind: EntryKind::Info, process: "nemesis", time, clock, what, value: value.into() });
    }

    /// Returns the notes.
    #[must_use]
    pub fn into_inner(self) -> Vec<Note> {
        self.notes
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A history that is being written by several tasks.
#[derive(Debug)]
pub struct HistoryRecorder {
    begun: Instant,
    inner: Mutex<RecordedEntries>,
}

#[derive(Debug, Default)]
struct RecordedEntries {
    entries: Vec<HistoryEntry>,
    processes: u64,
}

impl Default for HistoryRecorder {
    fn default() -> Self {
        Self { begun: Instant::now(), inner: Mutex::default() }
    }
}

impl HistoryRecorder {
    /// Returns the number of a new process.
    pub fn process(&self) -> u64 {
        let mut inner = self.lock();
        inner.processes += 1;
        inner.processes - 1
    }

    /// Records the beginning or the end of a process's transaction, and returns the entry's place in the history.
    pub fn record(&self, process: u64, kind: EntryKind, value: Vec<TransactionStep>) -> usize {
        let mut inner = self.lock();
        // The time is taken under the lock, so that times are in the order of places.
        let time = nanos(self.begun.elapsed());
        let index = inner.entries.len();
        inner.entries.push(HistoryEntry { index, kind, process, time, f: "txn", value });
        index
    }

    /// Returns the time at which the history began.
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns how many entries there are.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the history so far.
    pub fn entries(&self) -> Vec<HistoryEntry> {
        self.lock().entries.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, RecordedEntries> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a history as JSON lines, with its notes at the places of their times.
///
/// # Errors
///
/// The writer fails.
pub fn write_lines(entries: &[HistoryEntry], notes: &[Note], out: &mut impl Write) -> io::Result<()> {
    let mut notes = notes.iter().peekable();
    for entry in entries {
        while let Some(note) = notes.next_if(|note| note.time <= entry.time) {
            write_line(note, out)?;
        }
        write_line(entry, out)?;
    }
    notes.try_for_each(|note| write_line(note, out))
}

/// Writes a history to a file, and creates its folder.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_file(path: &Path, entries: &[HistoryEntry], notes: &[Note]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let mut file = BufWriter::new(File::create(path)?);
    write_lines(entries, notes, &mut file)?;
    file.flush()
}

fn write_line(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_lines_between_the_entries_of_their_time() {
        let entry =
            |index, time| HistoryEntry { index, kind: EntryKind::Ok, process: 0, time, f: "txn", value: Vec::new() };
        let mut notes = Notes::since(Instant::now());
        notes.add("leader frozen", "node 1");
        notes.add("leader elected", "node 2");
        let mut notes = notes.into_inner();
        (notes[0].time, notes[1].time) = (1_500_000_000, 9_000_000_000);
        assert_eq!(notes[0].to_string(), "1.5 s: leader frozen: node 1");
        let mut lines = Vec::new();
        write_lines(&[entry(0, 1_000_000_000), entry(1, 2_000_000_000)], &notes, &mut lines).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let processes: Vec<_> = lines.iter().map(|line| line["process"].to_string()).collect();
        assert_eq!(processes, ["0", "\"nemesis\"", "0", "\"nemesis\""]);
        assert_eq!(
            ["type", "f", "value"].map(|name| lines[1][name].as_str()),
            [Some("info"), Some("leader frozen"), Some("node 1")]
        );
    }
}
