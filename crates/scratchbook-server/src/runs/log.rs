//! The events of a run so far, for any number of readers.
//!
//! Each reader has its own backlog. The run adds events to the backlogs and never waits for readers. A fast reader sees
//! every event. A slow reader sees every whole event, but loses pieces when too many wait. A late reader begins with
//! the whole events, and with the pieces of replies that are still in progress.

use std::collections::BTreeMap;

use scratchbook::{Error, Event};

use super::backlog::Backlog;
use super::sync::{Arc, Mutex, MutexGuard, PoisonError, watch};

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) enum RunOutcome {
    Completed,
    Failed(Arc<Error>),
    Cancelled,
}

impl RunOutcome {
    /// Returns the outcome's name, in frames, spans and metrics.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The events of a run.
#[derive(Debug)]
pub(crate) struct RunLog {
    inner: Mutex<LogState>,
    /// Wakes readers when something is new; the value itself is empty.
    news: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LogState {
    /// The events that a new reader begins with.
    kept: Backlog,
    readers: BTreeMap<u64, Backlog>,
    next_reader: u64,
    outcome: Option<RunOutcome>,
}

impl RunLog {
    pub(super) fn new() -> Self {
        Self { inner: Mutex::default(), news: watch::Sender::new(()) }
    }

    /// Adds an event.
    pub(super) fn push(&self, event: Event) {
        let event = Arc::new(event);
        let mut inner = self.lock();
        if !event.is_partial() {
            inner.kept.settle(&event);
        }
        inner.kept.push(Arc::clone(&event));
        inner.readers.values_mut().for_each(|backlog| backlog.push(Arc::clone(&event)));
        drop(inner);
        self.news.send_replace(());
    }

    /// Records how the run ended; no event is added afterwards.
    pub(super) fn end(&self, outcome: RunOutcome) {
        self.lock().outcome.get_or_insert(outcome);
        self.news.send_replace(());
    }

    /// Returns how the run ended, if it has.
    pub(crate) fn outcome(&self) -> Option<RunOutcome> {
        self.lock().outcome.clone()
    }

    /// Waits for the end of the run.
    pub(super) async fn ended(&self) -> RunOutcome {
        let mut news = self.news.subscribe();
        loop {
            news.mark_unchanged();
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            // The sender is part of the log, which is borrowed, so waiting cannot fail.
            let _ = news.changed().await;
        }
    }

    /// Adds a reader, which begins with the first event.
    pub(crate) fn read(self: &Arc<Self>) -> RunReader {
        let mut inner = self.lock();
        let id = inner.next_reader;
        inner.next_reader += 1;
        let kept = inner.kept.clone();
        inner.readers.insert(id, kept);
        drop(inner);
        RunReader { news: self.news.subscribe(), log: Arc::clone(self), id, seen: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a run. Dropping the reader does not affect the run.
#[derive(Debug)]
pub(crate) struct RunReader {
    log: Arc<RunLog>,
    id: u64,
    /// The number of the last event that the reader skips, because that event was read from the session.
    seen: u64,
    news: watch::Receiver<()>,
}

impl RunReader {
    /// Waits for the next event. Returns `None` when the run has ended. Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            // The mark is set before the backlog is read, so an event that is added in between counts as new.
            self.news.mark_unchanged();
            {
                let mut inner = self.log.lock();
                while let Some(event) = inner.readers.get_mut(&self.id).and_then(Backlog::pop) {
                    if event.seq.is_none_or(|seq| seq > self.seen) {
                        return Some(event);
                    }
                }
                if inner.outcome.is_some() {
                    return None;
                }
            }
            let _ = self.news.changed().await;
        }
    }

    /// Returns how the run ended, if it has.
    pub(crate) fn outcome(&self) -> Option<RunOutcome> {
        self.log.outcome()
    }

    /// Returns the number of a whole event in the reader's backlog, by its id.
    pub(super) fn seq_of(&self, event_id: &str) -> Option<u64> {
        self.log.lock().readers.get(&self.id)?.seq_of(event_id)
    }

    /// Skips the whole events up to an event number of the session.
    pub(super) fn skip_to(&mut self, seq: u64) {
        self.seen = seq;
    }
}

impl Drop for RunReader {
    fn drop(&mut self) {
        self.log.lock().readers.remove(&self.id);
    }
}
