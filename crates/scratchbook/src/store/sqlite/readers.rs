//! The threads that read: each with a connection of its own, each read on one snapshot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::Fallible;
use super::files::Files;
use super::lock::io_error;
use super::queue::Taker;
use super::transaction::rollback;
use crate::error::{Error, Result};

/// A read that waits for a thread.
pub(super) type Read = Box<dyn FnOnce(&Connection, &Files) + Send>;

/// The end of the queue that the readers share.
pub(super) type Reads = Arc<Taker<Read>>;

/// A read, and its answer to come.
pub(super) fn queue<T, W>(work: W) -> (Read, oneshot::Receiver<Result<T>>)
where
    T: Send + 'static,
    W: FnOnce(&Connection) -> Fallible<T> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let read: Read = Box::new(move |connection, files| {
        // Whoever asked may have gone.
        if !answer.is_closed() {
            let read = || snapshot(connection, work).map_err(|e| e.into_error(files.path()));
            let result = files.check().and_then(|()| read());
            let _ = answer.send(result);
        }
    });
    (read, answered)
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
