//! Values that are read from files, and read again when the files change. So tokens can be revoked and keys renewed
//! without a restart.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use scratchbook::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

/// The minimum time between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The maximum size of a file: room for 5,000 tokens.
const MOST_BYTES: u64 = 1 << 20;

/// A value made from the contents of files.
pub(crate) struct Reloaded<T> {
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T> + Send + Sync>,
    current: Mutex<Current<T>>,
}

struct Current<T> {
    value: Arc<T>,
    stamps: Vec<Stamp>,
    looked: Instant,
}

/// The modification time and the length of a file; `None` if they cannot be read.
type Stamp = Option<(SystemTime, u64)>;

impl<T> Reloaded<T> {
    /// # Errors
    ///
    /// The errors of `read`, which reads the files at `paths`.
    pub(crate) fn new(paths: Vec<PathBuf>, read: impl Fn() -> Result<T> + Send + Sync + 'static) -> Result<Self> {
        // The stamps are taken before the files are read, so that a change in between is noticed next time.
        let stamps = stamps(&paths);
        let current = Current { value: Arc::new(read()?), stamps, looked: Instant::now() };
        Ok(Self { paths, read: Box::new(read), current: Mutex::new(current) })
    }

    /// Returns the value. Files that have changed are read again. If that fails, the previous value stays and the log
    /// says why.
    ///
    /// The files are small and are read on the calling thread, at most once a second and only when they have changed.
    pub(crate) fn get(&self) -> Arc<T> {
        let mut current = self.lock();
        if current.looked.elapsed() >= LOOK_EVERY {
            current.looked = Instant::now();
            if stamps(&self.paths) != current.stamps
                && let Err(error) = self.read_into(&mut current)
            {
                tracing::error!(%error, "a file has changed and cannot be used; what it held before still counts");
            }
        }
        Arc::clone(&current.value)
    }

    /// Reads the files again, even if they have not changed.
    ///
    /// # Errors
    ///
    /// The errors of reading; the value then stays as it is.
    pub(crate) fn reload(&self) -> Result<()> {
        self.read_into(&mut self.lock())
    }

    fn read_into(&self, current: &mut Current<T>) -> Result<()> {
        current.stamps = stamps(&self.paths);
        current.value = Arc::new((self.read)()?);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Current<T>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").field("paths", &self.paths).finish_non_exhaustive()
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path| {
        let about = fs::metadata(path).ok()?;
        Some((about.modified().ok()?, about.len()))
    };
    paths.iter().map(stamp).collect()
}

/// Reads the bytes of a file, which are wiped from memory when they are dropped.
///
/// The file may be replaced while the server runs, so this never waits for a writer of a FIFO and never reads more than
/// [`MOST_BYTES`].
///
/// # Errors
///
/// `NotFound` if there is no such file, `PermissionDenied` if it may not be read, `InvalidArgument` if it is too large
/// or no regular file, `Unavailable` otherwise; the message says what the file is.
pub(crate) fn read(what: &str, path: &std::path::Path) -> Result<Zeroizing<Vec<u8>>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without this, opening a FIFO waits until somebody writes to it.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let unreadable = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("cannot read {what} '{}': {error}", path.display())).with_source(error)
    };
    let file = options.open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Error::invalid(format!("{what} '{}' must be a regular file", path.display())));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::invalid(format!("{what} '{}' must have at most {MOST_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}
