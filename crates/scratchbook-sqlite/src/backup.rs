//! Copies the database while it is in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tokio::sync::{oneshot, watch};

use super::connection::{BUSY_TIMEOUT, literal, open_reader, open_to_copy};
use super::error::{Fallible, StoreFailure};
use super::files::{DatabaseFiles, private, sync_folder_of};
use super::locks::io_error;
use super::read;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Starts a copy of a file that this process need not have open.
pub(super) fn start_of_file(source: PathBuf, destination: PathBuf) -> Result<oneshot::Receiver<Result<()>>> {
    let name = destination.clone();
    read::on_own_thread("scratchbook-backup", &name, move || {
        copy_beside(&destination, |partial| {
            let from = open_to_copy(&source).map_err(|e| e.into_error(&source))?;
            copy_pages(&from, partial).map_err(|e| e.into_error(&destination))
        })
    })
}

/// Starts a copy on its own thread, so that neither the writer nor a reader is kept busy.
pub(super) fn start(
    source: Arc<DatabaseFiles>,
    destination: PathBuf,
    running: watch::Sender<()>,
) -> Result<oneshot::Receiver<Result<()>>> {
    let name = destination.clone();
    read::on_own_thread("scratchbook-backup", &name, move || {
        let result = copy_beside(&destination, |partial| copy(&source, partial, &destination));
        drop(running);
        result
    })
}

/// Copies to a temporary name first, so that a file with the final name is always complete.
fn copy_beside(destination: &Path, copy: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if destination.exists() {
        return Err(taken(destination));
    }
    let mut partial = destination.as_os_str().to_owned();
    partial.push(format!("-partial-{}", SystemEnvironment.new_id()));
    let partial = PathBuf::from(partial);
    private()
        .write(true)
        .create_new(true)
        .open(&partial)
        .map_err(|e| io_error(destination, "the copy cannot be made", e))?;
    let copied = copy(&partial).and_then(|()| give_name(&partial, destination));
    // After a rename this file is gone already. After a failure it is removed: no copy is better than half a copy.
    let _ = fs::remove_file(&partial);
    copied.and_then(|()| sync_folder_of(destination))
}

/// Renames the copy to its final name, unless another file has taken that name in the meantime.
fn give_name(partial: &Path, destination: &Path) -> Result<()> {
    let named = match fs::hard_link(partial, destination) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(taken(destination)),
        // Some file systems have no hard links.
        Err(_) => fs::rename(partial, destination),
        Ok(()) => Ok(()),
    };
    named.map_err(|e| io_error(destination, "the copy cannot be named", e))
}

fn taken(destination: &Path) -> Error {
    let message = format!("{} exists already; name a new file", destination.display());
    Error::new(ErrorKind::AlreadyExists, message)
}

/// Copies all pages in one step from one snapshot, so that no writer has to wait. Each error names its file.
fn copy(files: &DatabaseFiles, partial: &Path, destination: &Path) -> Result<()> {
    let source = files.path();
    let from = open_reader(source, files.access()).map_err(|e| e.into_error(source))?;
    let readable =
        || -> Fallible<i64> { Ok(from.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?) };
    readable().map_err(|e| e.into_error(source))?;
    // Verifies that the file just opened is the one that the writer and the readers have open.
    files.check()?;
    copy_pages(&from, partial).map_err(|e| e.into_error(destination))
}

fn copy_pages(source: &Connection, partial: &Path) -> Fallible<()> {
    let mut copy = Connection::open(literal(partial)?)?;
    copy.busy_timeout(BUSY_TIMEOUT)?;
    let step = Backup::new(source, &mut copy)?.step(-1)?;
    if step != StepResult::Done {
        let message = "the database is locked by another program; try again";
        return Err(StoreFailure::Ours(Error::new(ErrorKind::Unavailable, message)));
    }
    // The copy gets an id of its own: the copy and the original will commit different changes at the same positions, so
    // a cursor of one must not be used with the other.
    // Tables of the first version have no id yet.
    let has_id = copy.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'database_id'")?.exists([])?;
    if has_id {
        copy.execute("UPDATE database_id SET id = lower(hex(randomblob(16)))", [])?;
    }
    Ok(())
}
