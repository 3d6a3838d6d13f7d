//! The reader threads: each has its own connection, and each read runs on one snapshot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::{Fallible, StoreFailure};
use super::files::DatabaseFiles;
use super::locks::io_error;
use super::queue::QueueReceiver;
use super::transaction::rollback;
use scratchbook_core::error::{Error, Result};

/// A read that waits for a thread.
pub(super) type QueuedRead = Box<dyn FnOnce(&Reader) + Send>;

/// The receiving end of the queue, which the readers share.
pub(super) type ReadReceiver = Arc<QueueReceiver<QueuedRead>>;

/// How many steps of SQLite's machine pass between two looks at whether anybody waits for the read: about 20 µs.
const STEPS_BETWEEN_LOOKS: i32 = 1000;

/// What a reader thread reads with.
pub(super) struct Reader {
    connection: Connection,
    files: Arc<DatabaseFiles>,
    running: RunningRead,
}

/// Says of the read that runs on a connection whether its caller has dropped it. `None` between reads.
type RunningRead = Arc<Mutex<Option<Arc<AtomicBool>>>>;

fn lock(running: &RunningRead) -> MutexGuard<'_, Option<Arc<AtomicBool>>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a read to queue, and its answer to wait for.
pub(super) fn with_answer<T, W>(work: W) -> (QueuedRead, PendingRead<T>)
where
    T: Send + 'static,
    W: FnOnce(&Connection) -> Fallible<T> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let dropped = Arc::new(AtomicBool::new(false));
    let pending = PendingRead { answered, dropped: Arc::clone(&dropped) };
    let read: QueuedRead = Box::new(move |reader| {
        if dropped.load(Ordering::Relaxed) {
            return;
        }
        *lock(&reader.running) = Some(dropped);
        let result = reader
            .files
            .check()
            .and_then(|_| snapshot(&reader.connection, work).map_err(|e| e.into_error(reader.files.path())));
        let result = result.and_then(|answer| reader.files.check_unchanged().map(|()| answer));
        *lock(&reader.running) = None;
        let _ = answer.send(result);
    });
    (read, pending)
}

/// The answer to a read. Dropping it early ends the read, or keeps it from starting.
pub(super) struct PendingRead<T> {
    answered: oneshot::Receiver<Result<T>>,
    dropped: Arc<AtomicBool>,
}

impl<T> PendingRead<T> {
    pub(super) async fn answer(mut self) -> Result<T> {
        (&mut self.answered).await.map_err(|_| thread_ended())?
    }
}

impl<T> Drop for PendingRead<T> {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

/// Returns a read to queue without an answer. The work has to read within one [snapshot].
pub(super) fn without_answer(work: impl FnOnce(&Connection, &Path) + Send + 'static) -> QueuedRead {
    Box::new(move |reader| work(&reader.connection, reader.files.path()))
}

/// Starts a reader thread, which ends once the queue is closed and empty.
pub(super) fn spawn(
    mut connection: Connection,
    files: Arc<DatabaseFiles>,
    reads: ReadReceiver,
) -> Result<JoinHandle<()>> {
    let path = files.path().to_owned();
    let running = RunningRead::default();
    let looked_at = Arc::clone(&running);
    // Not `sqlite3_interrupt`: it has no effect between two statements, so the read's next one would run to its end.
    let is_dropped = move || lock(&looked_at).as_ref().is_some_and(|dropped| dropped.load(Ordering::Relaxed));
    let handled = connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_dropped));
    handled.map_err(|e| StoreFailure::from(e).into_error(&path))?;
    let reader = Reader { connection, files, running };
    let thread = thread::Builder::new().name("scratchbook-read".to_owned());
    let spawned = thread.spawn(move || {
        while let Some(read) = reads.take() {
            // The panic drops the sender of the answer, so the caller gets an error.
            if catch_unwind(AssertUnwindSafe(|| read(&reader))).is_err() {
                *lock(&reader.running) = None;
                rollback(&reader.connection);
            }
        }
    });
    spawned.map_err(|e| io_error(&path, "no thread to read it", e))
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
