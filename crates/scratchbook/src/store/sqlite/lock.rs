//! The queue of processes that write to one file: an operating system's lock on a file beside it.
//!
//! SQLite's own lock is polled by its waiters, and under load some wait for seconds. The kernel wakes those
//! who wait for this one as soon as it is free.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::error::Fallible;
use crate::error::{Error, ErrorKind, Result};

/// A lock between processes; within this one a single writer holds it.
#[derive(Debug)]
pub(super) struct FileLock {
    path: PathBuf,
    timeout: Duration,
    file: Option<File>,
}

impl FileLock {
    /// The lock of a database, for which a write waits at most this long.
    pub(super) fn beside(database: &Path, timeout: Duration) -> Result<Self> {
        let mut path = OsString::from(database);
        path.push("-lock");
        let mut lock = Self { path: path.into(), timeout, file: None };
        lock.file = Some(lock.open()?);
        Ok(lock)
    }

    fn take(&mut self) -> Result<File> {
        self.file.take().map_or_else(|| self.open(), Ok)
    }

    fn open(&self) -> Result<File> {
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&self.path);
        opened.map_err(|e| io_error(&self.path, "the lock file cannot be opened", e))
    }

    /// Waits until the lock is ours, for a write that has waited since then.
    pub(super) fn acquire(&mut self, since: Instant) -> Result<()> {
        if !self.try_acquire()? {
            let file = self.wait(self.timeout.saturating_sub(since.elapsed()))?;
            self.file = Some(file);
        }
        Ok(())
    }

    /// Takes the lock where nobody holds it.
    pub(super) fn try_acquire(&mut self) -> Result<bool> {
        let file = self.take()?;
        let locked = file.try_lock();
        self.file = Some(file);
        match locked {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(io_error(&self.path, "the file cannot be locked", e)),
        }
    }

    /// Does something while the lock is ours.
    pub(super) fn hold<T>(&mut self, work: impl FnOnce() -> Fallible<T>) -> Fallible<T> {
        self.acquire(Instant::now())?;
        let done = work();
        self.release();
        done
    }

    /// Gives the lock back.
    pub(super) fn release(&mut self) {
        // Closing the file gives the lock back as well.
        if self.file.as_ref().is_some_and(|file| file.unlock().is_err()) {
            self.file = None;
        }
    }

    /// Waits on another thread, because the kernel's wait has no timeout. The lock belongs to the open file,
    /// which is handed over: if nobody waits any more when it comes, dropping the file gives it back.
    fn wait(&mut self, timeout: Duration) -> Result<File> {
        if timeout.is_zero() {
            return Err(self.held());
        }
        let file = self.take()?;
        let (granted, wait) = mpsc::channel();
        let waiter = thread::Builder::new().name("scratchbook-lock".to_owned());
        let spawned = waiter.spawn(move || {
            let locked = file.lock();
            // Nobody to tell: the wait was given up.
            let _ = granted.send(locked.map(|()| file));
        });
        spawned.map_err(|e| io_error(&self.path, "no thread to wait for the lock", e))?;
        match wait.recv_timeout(timeout) {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(e)) => Err(io_error(&self.path, "the file cannot be locked", e)),
            Err(_) => Err(self.held()),
        }
    }

    fn held(&self) -> Error {
        let (path, seconds) = (self.path.display(), self.timeout.as_secs_f64());
        let message = format!("another process holds the lock {path} for more than {seconds} s; try again");
        Error::new(ErrorKind::Unavailable, message)
    }
}

/// An error of the file system.
pub(super) fn io_error(path: &Path, what: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::ResourceExhausted,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{}: {what}", path.display())).with_source(error)
}
