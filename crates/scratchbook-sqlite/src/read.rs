//! The threads that read: each with a connection of its own, each read on one snapshot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::oneshot;

use super::error::Fallible;
use super::files::Files;
use super::locks::io_error;
use super::queue::Taker;
use super::transaction::rollback;
use scratchbook_core::error::{Error, Result};

/// A read that waits for a thread.
pub(super) type Read = Box<dyn FnOnce(&Connection, &Files) + Send>;

/// The end of the queue that the readers share.
pub(super) type Reads = Arc<Taker<Read>>;

/// A read, and its answer to come.
pub(super) fn queue<T, W>(work: W) -> (Read, Asked<T>)
where
    T: Send + 'static,
    W: FnOnce(&Connection) -> Fallible<T> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let progress = Arc::new(Mutex::new(Progress::Waiting));
    let asked = Asked { answered, progress: Arc::clone(&progress) };
    let read: Read = Box::new(move |connection, files| {
        // Whoever asked may have gone.
        let Some(running) = Running::begin(&progress, connection) else { return };
        let read = || snapshot(connection, work).map_err(|e| e.into_error(files.path()));
        let result = files.check().and_then(|_| read());
        drop(running);
        let _ = answer.send(result);
    });
    (read, asked)
}

/// How far a read is.
enum Progress {
    Waiting,
    /// On a connection that can be interrupted.
    Running(InterruptHandle),
    /// Done, or given up by its caller.
    Over,
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While a read runs it may be interrupted; no later one on its connection is.
struct Running<'a>(&'a Mutex<Progress>);

impl<'a> Running<'a> {
    fn begin(progress: &'a Mutex<Progress>, connection: &Connection) -> Option<Self> {
        let mut now = lock(progress);
        if matches!(*now, Progress::Over) {
            return None;
        }
        *now = Progress::Running(connection.get_interrupt_handle());
        Some(Self(progress))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *lock(self.0) = Progress::Over;
    }
}

/// The answer to a read. When it is dropped before it is there, the read ends, or never begins.
pub(super) struct Asked<T> {
    answered: oneshot::Receiver<Result<T>>,
    progress: Arc<Mutex<Progress>>,
}

impl<T> Asked<T> {
    pub(super) async fn answer(mut self) -> Result<T> {
        (&mut self.answered).await.map_err(|_| unanswered())?
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        // Under the lock, under which a read ends as well: what is interrupted is this one.
        let mut progress = lock(&self.progress);
        if let Progress::Running(connection) = &*progress {
            connection.interrupt();
        }
        *progress = Progress::Over;
    }
}

/// A read whose outcome nobody waits for. What it reads is to be read on one [snapshot].
pub(super) fn unasked(work: impl FnOnce(&Connection, &Path) + Send + 'static) -> Read {
    Box::new(move |connection, files| work(connection, files.path()))
}

/// Starts a reader; it ends when the queue is closed and everything in it done.
pub(super) fn spawn(connection: Connection, files: Arc<Files>, reads: Reads) -> Result<JoinHandle<()>> {
    let name = files.path().to_owned();
    let reader = thread::Builder::new().name("scratchbook-read".to_owned());
    let spawned = reader.spawn(move || {
        while let Some(read) = reads.take() {
            // The answer's sender is dropped by the panic, which says it all to whoever waits.
            if catch_unwind(AssertUnwindSafe(|| read(&connection, &files))).is_err() {
                rollback(&connection);
            }
        }
    });
    spawned.map_err(|e| io_error(&name, "no thread to read it", e))
}

/// Reads on one snapshot, which is given up at once: a reader that stays keeps the log growing.
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

/// Does something that blocks on a thread of its own; the path names it where there is no thread to be had.
pub(super) fn apart<T: Send + 'static>(
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

/// The error where a thread has gone without an answer.
pub(super) fn unanswered() -> Error {
    Error::internal("the store's thread ended without an answer; this is a defect")
}
