//! The lock between processes that write to one file: an operating system's lock on a file beside it.
//!
//! SQLite polls its own lock, and under load some processes wait for seconds. The kernel wakes a process that waits
//! for this lock as soon as the lock is free.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::Fallible;
use super::files::{beside, open_beside};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// A lock between processes. Within this process only the writer holds it.
#[derive(Debug)]
pub(super) struct FileLock {
    database: PathBuf,
    path: PathBuf,
    timeout: Duration,
    file: Option<File>,
    /// The thread that waits in the kernel, if there is one. After a timeout the thread is kept for the next
    /// attempt, so that timeouts never leave behind more than one thread and one open file.
    waiter: Option<Arc<LockWaiter>>,
}

/// A thread that waits in the kernel, and the outcome of its wait.
#[derive(Debug)]
struct LockWaiter {
    state: Mutex<LockState>,
    changed: Condvar,
}

#[derive(Debug)]
enum LockState {
    /// The lock has not been granted yet; `wanted` says whether the writer still waits for it.
    Waiting {
        wanted: bool,
    },
    /// The lock is ours.
    Granted(File),
    /// The lock was granted when the writer no longer waited. It was released at once, so that no other process waits
    /// for a lock that nobody uses.
    Unwanted(File),
    Failed(io::Error),
    Taken,
}

impl FileLock {
    /// Returns the lock of a database, with the longest time that a write waits for it.
    pub(super) fn beside(database: &Path, timeout: Duration) -> Result<Self> {
        let mut lock = Self::unopened(database, timeout);
        lock.file = Some(lock.open()?);
        Ok(lock)
    }

    /// Returns the lock of a database. The lock's file is opened when it is first needed.
    pub(super) fn unopened(database: &Path, timeout: Duration) -> Self {
        let path = beside(database, "-lock");
        Self { database: database.to_owned(), path, timeout, file: None, waiter: None }
    }

    /// Returns the time left to a write that has waited since `since`.
    pub(super) fn left(&self, since: Instant) -> Duration {
        self.timeout.saturating_sub(since.elapsed())
    }

    fn take(&mut self) -> Result<File> {
        self.file.take().map_or_else(|| self.open(), Ok)
    }

    fn open(&self) -> Result<File> {
        open_beside(&self.database, &self.path).map_err(|e| io_error(&self.path, "the lock file cannot be opened", e))
    }

    /// Waits until the lock is ours, for a write that has waited since `since`.
    pub(super) fn acquire(&mut self, since: Instant) -> Result<()> {
        // The loop repeats only if the thread of an earlier wait ends its wait between these two calls.
        while !self.try_acquire()? {
            if self.wait(self.left(since))? {
                break;
            }
        }
        Ok(())
    }

    /// Takes the lock if no process holds it.
    pub(super) fn try_acquire(&mut self) -> Result<bool> {
        if let Some(waiter) = self.waiter.take() {
            match waiter.take() {
                LockState::Waiting { .. } => {
                    self.waiter = Some(waiter);
                    return Ok(false);
                }
                LockState::Granted(file) => {
                    self.file = Some(file);
                    return Ok(true);
                }
                LockState::Unwanted(file) => self.file = Some(file),
                LockState::Failed(_) | LockState::Taken => {}
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

    /// Runs `work` while holding the lock.
    pub(super) fn hold<T>(&mut self, work: impl FnOnce() -> Fallible<T>) -> Fallible<T> {
        self.acquire(Instant::now())?;
        let done = work();
        self.release();
        done
    }

    /// Releases the lock.
    pub(super) fn release(&mut self) {
        // If unlocking fails, closing the file releases the lock as well.
        if self.file.as_ref().is_some_and(|file| file.unlock().is_err()) {
            self.file = None;
        }
    }

    /// Waits on another thread, because the kernel's wait has no timeout. Returns whether the lock is ours. If not, the
    /// lock may be free, and the caller tries again.
    fn wait(&mut self, timeout: Duration) -> Result<bool> {
        if timeout.is_zero() {
            return Err(self.held());
        }
        let waiter = match self.waiter.take() {
            Some(waiter) => waiter,
            None => self.start_waiter()?,
        };
        let (file, ours) = match waiter.wait(timeout) {
            LockState::Granted(file) => (file, true),
            LockState::Unwanted(file) => (file, false),
            LockState::Failed(e) => return Err(io_error(&self.path, "the file cannot be locked", e)),
            LockState::Waiting { .. } | LockState::Taken => {
                self.waiter = Some(waiter);
                return Err(self.held());
            }
        };
        self.file = Some(file);
        Ok(ours)
    }

    fn start_waiter(&mut self) -> Result<Arc<LockWaiter>> {
        let file = self.take()?;
        let waiter =
            Arc::new(LockWaiter { state: Mutex::new(LockState::Waiting { wanted: true }), changed: Condvar::new() });
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
        // If the lock was granted in the meantime, dropping the outcome closes the file and releases it.
        if let Some(waiter) = self.waiter.take() {
            drop(waiter.take());
        }
    }
}

impl LockWaiter {
    /// Waits in the kernel and reports the outcome.
    fn run(&self, file: File) {
        let locked = loop {
            match file.lock() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                locked => break locked,
            }
        };
        let mut state = self.state();
        *state = match (locked, &*state) {
            (Ok(()), LockState::Waiting { wanted: true }) => LockState::Granted(file),
            (Ok(()), _) => match file.unlock() {
                Ok(()) => LockState::Unwanted(file),
                Err(e) => LockState::Failed(e),
            },
            (Err(e), _) => LockState::Failed(e),
        };
        self.changed.notify_one();
    }

    /// Waits for the outcome, up to a timeout.
    fn wait(&self, timeout: Duration) -> LockState {
        let mut state = self.state();
        if let LockState::Waiting { wanted } = &mut *state {
            *wanted = true;
        }
        let waiting = |state: &mut LockState| matches!(state, LockState::Waiting { .. });
        let (mut state, _) =
            self.changed.wait_timeout_while(state, timeout, waiting).unwrap_or_else(PoisonError::into_inner);
        Self::take_from(&mut state)
    }

    /// Returns the outcome so far, without waiting.
    fn take(&self) -> LockState {
        Self::take_from(&mut self.state())
    }

    /// Takes the outcome. If there is none yet, marks the wait as no longer wanted.
    fn take_from(state: &mut LockState) -> LockState {
        match state {
            LockState::Waiting { wanted } => {
                *wanted = false;
                LockState::Waiting { wanted: false }
            }
            _ => std::mem::replace(state, LockState::Taken),
        }
    }

    fn state(&self) -> MutexGuard<'_, LockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the public error for an error of the file system.
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
        // Once the waiter has released the lock, another process can take it and hold it as long as it likes.
        while !matches!(&*lock.waiter.as_ref().unwrap().state(), super::LockState::Unwanted(_)) {
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
