//! The queue of processes that write to one file: an operating system's lock on a file beside it.
//!
//! SQLite's own lock is polled by its waiters, and under load some wait for seconds. The kernel wakes those
//! who wait for this one as soon as it is free.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::Fallible;
use super::files::{beside, open_beside};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// A lock between processes; within this one a single writer holds it.
#[derive(Debug)]
pub(super) struct FileLock {
    database: PathBuf,
    path: PathBuf,
    timeout: Duration,
    file: Option<File>,
    /// The wait that is under way in the kernel. At most one: whoever waits after a wait was given up takes it
    /// over, so that no wait leaves more than one thread and one open file behind.
    waiter: Option<Arc<Waiter>>,
}

/// A thread that waits in the kernel, and what it came back with.
#[derive(Debug)]
struct Waiter {
    turn: Mutex<Turn>,
    came: Condvar,
}

#[derive(Debug)]
enum Turn {
    /// Not yet; and whether anybody wants it now.
    Waiting {
        wanted: bool,
    },
    /// The lock is ours.
    Granted(File),
    /// It came when nobody wanted it and was given back at once; other processes do not wait for the idle.
    Unwanted(File),
    Failed(io::Error),
    Taken,
}

impl FileLock {
    /// The lock of a database, for which a write waits at most this long.
    pub(super) fn beside(database: &Path, timeout: Duration) -> Result<Self> {
        let path = beside(database, "-lock");
        let mut lock = Self { database: database.to_owned(), path, timeout, file: None, waiter: None };
        lock.file = Some(lock.open()?);
        Ok(lock)
    }

    /// How much time is left to a write that has waited since then.
    pub(super) fn left(&self, since: Instant) -> Duration {
        self.timeout.saturating_sub(since.elapsed())
    }

    fn take(&mut self) -> Result<File> {
        self.file.take().map_or_else(|| self.open(), Ok)
    }

    fn open(&self) -> Result<File> {
        open_beside(&self.database, &self.path).map_err(|e| io_error(&self.path, "the lock file cannot be opened", e))
    }

    /// Waits until the lock is ours, for a write that has waited since then.
    pub(super) fn acquire(&mut self, since: Instant) -> Result<()> {
        // Again only where a former wait ended in between.
        while !self.try_acquire()? {
            if self.wait(self.left(since))? {
                break;
            }
        }
        Ok(())
    }

    /// Takes the lock where nobody holds it.
    pub(super) fn try_acquire(&mut self) -> Result<bool> {
        if let Some(waiter) = self.waiter.take() {
            match waiter.take() {
                Turn::Waiting { .. } => {
                    self.waiter = Some(waiter);
                    return Ok(false);
                }
                Turn::Granted(file) => {
                    self.file = Some(file);
                    return Ok(true);
                }
                Turn::Unwanted(file) => self.file = Some(file),
                Turn::Failed(_) | Turn::Taken => {}
            }
        }
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

    /// Waits on another thread, because the kernel's wait has no timeout. Whether the lock is ours then; if not,
    /// it may be free.
    fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if timeout.is_zero() {
            return Err(self.held());
        }
        let waiter = match self.waiter.take() {
            Some(waiter) => waiter,
            None => self.start_waiter()?,
        };
        let (file, ours) = match waiter.wait(timeout) {
            Turn::Granted(file) => (file, true),
            Turn::Unwanted(file) => (file, false),
            Turn::Failed(e) => return Err(io_error(&self.path, "the file cannot be locked", e)),
            Turn::Waiting { .. } | Turn::Taken => {
                self.waiter = Some(waiter);
                return Err(self.held());
            }
        };
        self.file = Some(file);
        Ok(ours)
    }

    fn start_waiter(&mut self) -> Result<Arc<Waiter>> {
        let file = self.take()?;
        let waiter = Arc::new(Waiter { turn: Mutex::new(Turn::Waiting { wanted: true }), came: Condvar::new() });
        let shared = Arc::clone(&waiter);
        let thread = thread::Builder::new().name("scratchbook-lock".to_owned());
        let spawned = thread.spawn(move || shared.run(file));
        spawned.map_err(|e| io_error(&self.path, "no thread to wait for the lock", e))?;
        Ok(waiter)
    }

    fn held(&self) -> Error {
        let (path, seconds) = (self.path.display(), self.timeout.as_secs_f64());
        let message = format!("another process holds the lock {path} for more than {seconds} s; try again");
        Error::new(ErrorKind::Unavailable, message).for_operator()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // What was granted meanwhile goes with it.
        if let Some(waiter) = self.waiter.take() {
            drop(waiter.take());
        }
    }
}

impl Waiter {
    /// Waits in the kernel, then says so to whoever wants it.
    fn run(&self, file: File) {
        let locked = loop {
            match file.lock() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                locked => break locked,
            }
        };
        let mut turn = self.turn();
        *turn = match (locked, &*turn) {
            (Ok(()), Turn::Waiting { wanted: true }) => Turn::Granted(file),
            (Ok(()), _) => match file.unlock() {
                Ok(()) => Turn::Unwanted(file),
                Err(e) => Turn::Failed(e),
            },
            (Err(e), _) => Turn::Failed(e),
        };
        self.came.notify_one();
    }

    /// Waits for so long for what comes.
    fn wait(&self, timeout: Duration) -> Turn {
        let mut turn = self.turn();
        if let Turn::Waiting { wanted } = &mut *turn {
            *wanted = true;
        }
        let waiting = |turn: &mut Turn| matches!(turn, Turn::Waiting { .. });
        let (mut turn, _) =
            self.came.wait_timeout_while(turn, timeout, waiting).unwrap_or_else(PoisonError::into_inner);
        Self::take_from(&mut turn)
    }

    /// What has come so far.
    fn take(&self) -> Turn {
        Self::take_from(&mut self.turn())
    }

    /// Leaves the wait unwanted, or nothing.
    fn take_from(turn: &mut Turn) -> Turn {
        match turn {
            Turn::Waiting { wanted } => {
                *wanted = false;
                Turn::Waiting { wanted: false }
            }
            _ => std::mem::replace(turn, Turn::Taken),
        }
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
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
    Error::new(kind, format!("{}: {what}", path.display())).with_source(error).for_operator()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::FileLock;
    use scratchbook_core::error::ErrorKind;

    fn held(path: &Path) -> File {
        let file = File::options().write(true).open(path).unwrap();
        file.lock().unwrap();
        file
    }

    #[cfg(target_os = "linux")]
    fn open_files(path: &Path) -> usize {
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter(|file| fs::read_link(file.path()).is_ok_and(|target| target == path)).count()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn waits_given_up_leave_one_waiter_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("db-lock");
        let mut lock = FileLock::beside(&path.with_file_name("db"), Duration::from_millis(10)).unwrap();
        let other = held(&path);
        for _ in 0..20 {
            assert_eq!(lock.acquire(Instant::now()).unwrap_err().kind(), ErrorKind::Unavailable);
        }
        assert_eq!(open_files(&path), 2, "the other's file and ours");
        other.unlock().unwrap();
        lock.timeout = Duration::from_secs(10);
        lock.acquire(Instant::now()).unwrap();
        assert!(other.try_lock().is_err());
        lock.release();
        other.try_lock().unwrap();
    }

    #[test]
    fn a_lock_that_comes_too_late_is_given_back_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db-lock");
        let mut lock = FileLock::beside(&folder.path().join("db"), Duration::from_millis(10)).unwrap();
        let other = held(&path);
        lock.acquire(Instant::now()).unwrap_err();
        other.unlock().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        // Once the waiter has had it, another process can have it, and for as long as it wants.
        while !matches!(&*lock.waiter.as_ref().unwrap().turn(), super::Turn::Unwanted(_)) {
            assert!(Instant::now() < deadline);
        }
        other.try_lock().unwrap();
        lock.acquire(Instant::now()).unwrap_err();
        other.unlock().unwrap();
        lock.timeout = Duration::from_secs(10);
        lock.acquire(Instant::now()).unwrap();
        assert!(other.try_lock().is_err());
        drop(lock);
        other.try_lock().unwrap();
    }
}
