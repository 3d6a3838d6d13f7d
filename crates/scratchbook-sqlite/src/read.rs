//! The reader threads: each has its own connection, and each read runs on one snapshot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::oneshot;

use super::error::Fallible;
use super::files::DatabaseFiles;
use super::locks::io_error;
use super::queue::QueueReceiver;
use super::transaction::rollback;
use scratchbook_core::error::{Error, Result};

/// A read that waits for a thread.
pub(super) type QueuedRead = Box<dyn FnOnce(&Connection, &DatabaseFiles) + Send>;

/// The receiving end of the queue, which the readers share.
pub(super) type ReadReceiver = Arc<QueueReceiver<QueuedRead>>;

/// Returns a read to queue, and its answer to wait for.
pub(super) fn with_answer<T, W>(work: W) -> (QueuedRead, PendingRead<T>)
where
    T: Send + 'static,
    W: FnOnce(&Connection) -> Fallible<T> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let progress = Arc::new(Mutex::new(ReadProgress::Waiting));
    let pending = PendingRead { answered, progress: Arc::clone(&progress) };
    let read: QueuedRead = Box::new(move |connection, files| {
        // The caller may no longer be waiting.
        let Some(running) = RunningRead::begin(&progress, connection) else { return };
        let read = || snapshot(connection, work).map_err(|e| e.into_error(files.path()));
        let result = files.check().and_then(|_| read());
        let result = result.and_then(|answer| files.check_unchanged().map(|()| answer));
        drop(running);
        let _ = answer.send(result);
    });
    (read, pending)
}

/// The progress of a read.
enum ReadProgress {
    Waiting,
    /// The read runs on this connection, which can be interrupted.
    Running(InterruptHandle),
    /// The read is finished, or its caller has given it up.
    Over,
}

fn lock(progress: &Mutex<ReadProgress>) -> MutexGuard<'_, ReadProgress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the time during which a read may be interrupted. Dropping the mark ends that time, so that a later read on the
/// connection is not interrupted.
struct RunningRead<'a>(&'a Mutex<ReadProgress>);

impl<'a> RunningRead<'a> {
    fn begin(progress: &'a Mutex<ReadProgress>, connection: &Connection) -> Option<Self> {
        let mut now = lock(progress);
        if matches!(*now, ReadProgress::Over) {
            return None;
        }
        *now = ReadProgress::Running(connection.get_interrupt_handle());
        Some(Self(progress))
    }
}

impl Drop for RunningRead<'_> {
    fn drop(&mut self) {
        *lock(self.0) = ReadProgress::Over;
    }
}

/// The answer to a read. Dropping it early interrupts the read, or keeps it from starting.
pub(super) struct PendingRead<T> {
    answered: oneshot::Receiver<Result<T>>,
    progress: Arc<Mutex<ReadProgress>>,
}

impl<T> PendingRead<T> {
    pub(super) async fn answer(mut self) -> Result<T> {
        (&mut self.answered).await.map_err(|_| thread_ended())?
    }
}

impl<T> Drop for PendingRead<T> {
    fn drop(&mut self) {
        // A read also ends under this lock, so only this read can be interrupted.
        let mut progress = lock(&self.progress);
        if let ReadProgress::Running(connection) = &*progress {
            connection.interrupt();
        }
        *progress = ReadProgress::Over;
    }
}

/// Returns a read to queue without an answer. The work has to read within one [snapshot].
pub(super) fn without_answer(work: impl FnOnce(&Connection, &Path) + Send + 'static) -> QueuedRead {
    Box::new(move |connection, files| work(connection, files.path()))
}

/// Starts a reader thread, which ends once the queue is closed and empty.
pub(super) fn spawn(connection: Connection, files: Arc<DatabaseFiles>, reads: ReadReceiver) -> Result<JoinHandle<()>> {
    let name = files.path().to_owned();
    let reader = thread::Builder::new().name("scratchbook-read".to_owned());
    let spawned = reader.spawn(move || {
        while let Some(read) = reads.take() {
            // The panic drops the sender of the answer, so the caller gets an error.
            if catch_unwind(AssertUnwindSafe(|| read(&connection, &files))).is_err() {
                rollback(&connection);
            }
        }
    });
    spawned.map_err(|e| io_error(&name, "no thread to read it", e))
}

/// Runs a read on one snapshot and ends the snapshot at once, because a long-lived reader keeps the log growing.
pub(super) fn snapshot<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Fallible<T>) -> Fallible<T> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let result = work(connection);
    match connection.prepare_cached("COMMIT").and_then(|mut end| end.execute([])) {
        Ok(_) => result,
        Err(error) => {
            rollback(connection);
            result.and(Err(error.into()))
        }
    }
}

/// Runs blocking work on its own thread. The path appears in the error if no thread can be started.
pub(super) fn on_own_thread<T: Send + 'static>(
    name: &str,
    path: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>> {
    let (answer, answered) = oneshot::channel();
    let thread = thread::Builder::new().name(name.to_owned());
    let spawned = thread.spawn(move || {
        let _ = answer.send(work());
    });
    spawned.map_err(|e| io_error(path, "no thread to do it", e))?;
    Ok(answered)
}

/// Returns the error for a thread that has ended without an answer.
pub(super) fn thread_ended() -> Error {
    Error::internal("the store's thread ended without an answer; this is a defect")
}
