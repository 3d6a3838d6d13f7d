//! What clients asked for and what they got, in the order in which it happened.
//!
//! The format is that of [Elle](https://github.com/jepsen-io/elle)'s list-append histories: each line is a JSON object,
//! and each transaction has two lines, one for its beginning and one for its end.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::{Serialize, Serializer};

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
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

impl Serialize for Step {
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
pub enum Kind {
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
pub struct Entry {
    /// The place in the history.
    pub index: usize,
    /// Whether the transaction begins or ends here, and how it ends.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The process that runs the transaction. A process runs one transaction at a time, and ends after an unknown
    /// outcome.
    pub process: u64,
    /// The time since the history's beginning, in nanoseconds.
    pub time: u64,
    /// Always `txn`.
    pub f: &'static str,
    /// The steps.
    pub value: Vec<Step>,
}

/// A history that is being written by several tasks.
#[derive(Debug)]
pub struct Recorder {
    begun: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    processes: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { begun: Instant::now(), inner: Mutex::default() }
    }
}

impl Recorder {
    /// Returns the number of a new process.
    pub fn process(&self) -> u64 {
        let mut inner = self.lock();
        inner.processes += 1;
        inner.processes - 1
    }

    /// Records the beginning or the end of a process's transaction, and returns the entry's place in the history.
    pub fn record(&self, process: u64, kind: Kind, value: Vec<Step>) -> usize {
        let mut inner = self.lock();
        // The time is taken under the lock, so that times are in the order of places.
        let time = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let index = inner.entries.len();
        inner.entries.push(Entry { index, kind, process, time, f: "txn", value });
        index
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
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a history as JSON lines.
///
/// # Errors
///
/// The writer fails.
pub fn write_lines(entries: &[Entry], out: &mut impl Write) -> io::Result<()> {
    for entry in entries {
        serde_json::to_writer(&mut *out, entry)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
