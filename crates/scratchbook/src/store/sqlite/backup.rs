//! A copy of the database while it is in use.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tokio::sync::{oneshot, watch};

use super::connection::{BUSY_TIMEOUT, open_reader};
use super::error::{Failure, Fallible};
use super::lock::io_error;
use crate::error::{Error, ErrorKind, Result};

/// Starts a copy on a thread of its own, so that neither the writer nor a reader is kept busy.
pub(super) fn start(
    source: PathBuf,
    destination: PathBuf,
    running: watch::Sender<()>,
) -> Result<oneshot::Receiver<Result<()>>> {
    let (answer, answered) = oneshot::channel();
    let name = destination.clone();
    let thread = thread::Builder::new().name("scratchbook-backup".to_owned());
    let spawned = thread.spawn(move || {
        let result = reserve(&destination).and_then(|()| {
            copy(&source, &destination).map_err(|e| {
                // Better no copy than half of one.
                let _ = fs::remove_file(&destination);
                e.into_error(&destination)
            })
        });
        drop(running);
        let _ = answer.send(result);
    });
    spawned.map_err(|e| io_error(&name, "no thread to write it", e))?;
    Ok(answered)
}

/// Makes the file, empty, if nobody else has.
fn reserve(destination: &Path) -> Result<()> {
    File::create_new(destination).map(drop).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let message = format!("{} exists already; name a new file", destination.display());
            Error::new(ErrorKind::AlreadyExists, message)
        }
        _ => io_error(destination, "the copy cannot be made", e),
    })
}

/// Copies all pages in one step: one snapshot, which writers do not wait for.
fn copy(source: &Path, destination: &Path) -> Fallible<()> {
    let source = open_reader(source)?;
    let mut copy = Connection::open(destination)?;
    copy.busy_timeout(BUSY_TIMEOUT)?;
    let step = Backup::new(&source, &mut copy)?.step(-1)?;
    if step != StepResult::Done {
        let message = "the database is locked by another program; try again";
        return Err(Failure::Ours(Error::new(ErrorKind::Unavailable, message)));
    }
    Ok(())
}
