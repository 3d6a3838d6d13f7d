//! A copy of the database while it is in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use super::connection::{BUSY_TIMEOUT, literal, open_reader};
use super::error::{Failure, Fallible};
use super::files::{Files, private};
use super::locks::io_error;
use super::read;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Starts a copy on a thread of its own, so that neither the writer nor a reader is kept busy.
pub(super) fn start(
    source: Arc<Files>,
    destination: PathBuf,
    running: watch::Sender<()>,
) -> Result<oneshot::Receiver<Result<()>>> {
    let name = destination.clone();
    read::apart("scratchbook-backup", &name, move || {
        let result = copy_beside(&source, &destination);
        drop(running);
        result
    })
}

/// Copies to a name of its own first: what has the final name is complete.
fn copy_beside(source: &Files, destination: &Path) -> Result<()> {
    if destination.exists() {
        return Err(taken(destination));
    }
    let mut partial = destination.as_os_str().to_owned();
    partial.push(format!("-partial-{}", Uuid::now_v7()));
    let partial = PathBuf::from(partial);
    private()
        .write(true)
        .create_new(true)
        .open(&partial)
        .map_err(|e| io_error(destination, "the copy cannot be made", e))?;
    let copied = copy(source, &partial, destination).and_then(|()| give_name(&partial, destination));
    // Gone already where it was renamed; better no copy than half of one.
    let _ = fs::remove_file(&partial);
    copied
}

/// Gives the copy its name, unless somebody else has taken it meanwhile.
fn give_name(partial: &Path, destination: &Path) -> Result<()> {
    let named = match fs::hard_link(partial, destination) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(taken(destination)),
        // Not every file system has links.
        Err(_) => fs::rename(partial, destination),
        Ok(()) => Ok(()),
    };
    named.map_err(|e| io_error(destination, "the copy cannot be named", e))
}

fn taken(destination: &Path) -> Error {
    let message = format!("{} exists already; name a new file", destination.display());
    Error::new(ErrorKind::AlreadyExists, message)
}

/// Copies all pages in one step: one snapshot, which writers do not wait for. An error names the file it is of.
fn copy(files: &Files, partial: &Path, destination: &Path) -> Result<()> {
    let source = files.path();
    let from = open_reader(source).map_err(|e| e.into_error(source))?;
    let readable =
        || -> Fallible<i64> { Ok(from.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?) };
    readable().map_err(|e| e.into_error(source))?;
    // What was opened just now is what the others have open.
    files.check()?;
    copy_pages(&from, partial).map_err(|e| e.into_error(destination))
}

fn copy_pages(source: &Connection, partial: &Path) -> Fallible<()> {
    let mut copy = Connection::open(literal(partial)?)?;
    copy.busy_timeout(BUSY_TIMEOUT)?;
    let step = Backup::new(source, &mut copy)?.step(-1)?;
    if step != StepResult::Done {
        let message = "the database is locked by another program; try again";
        return Err(Failure::Ours(Error::new(ErrorKind::Unavailable, message)));
    }
    // What is committed to the copy is not what is committed to the original at the same position: a cursor of one must
    // not go on in the other.
    copy.execute("UPDATE database_id SET id = lower(hex(randomblob(16)))", [])?;
    Ok(())
}
