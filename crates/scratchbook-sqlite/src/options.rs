//! The options of a database, set in code or in a URI.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::plan::limits::Limits;

/// When a commit is written to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// The commit is on the disk before it is acknowledged, so it survives a power failure.
    #[default]
    Full,
    /// The commit reaches the disk later, so it survives the end of the process, but may not survive a power failure.
    /// The file stays consistent.
    Normal,
}

/// What the service may do with a database file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqliteMode {
    /// Read and write the file, and create it if it is missing.
    #[default]
    Create,
    /// Read and write the file, which must exist.
    Existing,
    /// Read the file, which must exist and have the newest tables. Every write fails with `PermissionDenied`.
    /// SQLite may still create its own files beside the database file, so that other processes can write at the same
    /// time. In a folder where no file can be created, such as on a read-only file system, only the database file is
    /// read. Then there must be no log with commits beside it, and a read fails with `Unavailable` if another process
    /// writes to the file.
    ReadOnly,
}

/// The options of a [`SqliteSessionService`](super::SqliteSessionService).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// What the service may do with the file; by default `Create`.
    pub mode: SqliteMode,
    /// When a commit is written to the disk; by default `Full`.
    pub synchronous: Synchronous,
    /// How long a write waits for other processes that write to the file; by default 30 s.
    pub lock_timeout: Duration,
    /// How many reads run at the same time; by default one per core, from 2 to 4.
    pub readers: usize,
    /// How many writes may wait in the queue; by default 1,024.
    pub queue_capacity: usize,
    /// How long a write waits for room in a full queue before it is refused; by default 5 s.
    pub queue_timeout: Duration,
    /// The largest size of the database, in bytes. A write beyond it fails with `ResourceExhausted`.
    pub max_size_bytes: Option<u64>,
    /// The limits on sizes and counts.
    pub limits: Limits,
    /// The source of times and ids.
    pub environment: Arc<dyn Environment>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            mode: SqliteMode::default(),
            synchronous: Synchronous::default(),
            lock_timeout: Duration::from_secs(30),
            readers: cores.clamp(2, 4),
            queue_capacity: 1024,
            queue_timeout: Duration::from_secs(5),
            max_size_bytes: None,
            limits: Limits::default(),
            environment: Arc::new(SystemEnvironment),
        }
    }
}

impl SqliteOptions {
    /// Sets what the service may do with the file.
    #[must_use]
    pub fn with_mode(mut self, mode: SqliteMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets when a commit is written to the disk.
    #[must_use]
    pub fn with_synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets how long a write waits for other processes that write to the file.
    #[must_use]
    pub fn with_lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Sets how many reads run at the same time, at least one.
    #[must_use]
    pub fn with_readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets how many writes may wait in the queue, at least one.
    #[must_use]
    pub fn with_queue_capacity(mut self, capacity: usize) -> Self {
        self.queue_capacity = capacity;
        self
    }

    /// Sets how long a write waits for room in a full queue before it is refused.
    #[must_use]
    pub fn with_queue_timeout(mut self, timeout: Duration) -> Self {
        self.queue_timeout = timeout;
        self
    }

    /// Sets the largest size of the database, in bytes.
    #[must_use]
    pub fn with_max_size_bytes(mut self, bytes: u64) -> Self {
        self.max_size_bytes = Some(bytes);
        self
    }

    /// Sets the limits on sizes and counts.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the source of times and ids.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// Reads `sqlite://PATH?NAME=VALUE&...`. The path is everything up to the first `?`, taken literally: nothing
    /// is percent-decoded, so every path without a `?` can be written. A path with a `?` needs `open`.
    pub(super) fn from_uri(uri: &str) -> Result<(PathBuf, Self)> {
        let rest = uri.strip_prefix("sqlite://").ok_or_else(|| {
            let scheme = uri.split(':').next().unwrap_or_default();
            Error::invalid(format!("the scheme '{scheme}' is not SQLite's; write sqlite://PATH"))
        })?;
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        check_slashes(path)?;
        let mut options = Self::default();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            options.read_parameter(parameter)?;
        }
        Ok((PathBuf::from(path), options))
    }

    fn read_parameter(&mut self, parameter: &str) -> Result<()> {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            // The same values as in SQLite's own URIs.
            "mode" => {
                self.mode = match value {
                    "ro" => SqliteMode::ReadOnly,
                    "rw" => SqliteMode::Existing,
                    "rwc" => SqliteMode::Create,
                    _ => {
                        return Err(Error::invalid(format!(
                            "mode={value}; it is 'ro' to read alone, 'rw' for a file that is there, or 'rwc'"
                        )));
                    }
                };
            }
            "synchronous" => {
                self.synchronous = match value {
                    "full" => Synchronous::Full,
                    "normal" => Synchronous::Normal,
                    _ => return Err(Error::invalid(format!("synchronous={value}; it is 'full' or 'normal'"))),
                };
            }
            "lock_timeout_ms" => {
                let millis = value.parse().map_err(|_| {
                    Error::invalid(format!("lock_timeout_ms={value}; it is a whole number of milliseconds"))
                })?;
                self.lock_timeout = Duration::from_millis(millis);
            }
            _ if self.limits.read_parameter(name, value)? => {}
            _ => {
                return Err(Error::invalid(format!(
                    "unknown parameter '{name}' in a sqlite:// URI; it takes 'mode', 'synchronous', 'lock_timeout_ms' and \
                     the names of limits, as 'value_bytes'"
                )));
            }
        }
        Ok(())
    }
}

/// Refuses what names a file of the root folder here, but another one to who counts slashes as SQLAlchemy does. A
/// process with the rights would make that file without a word.
fn check_slashes(path: &str) -> Result<()> {
    let Some(name) = path.strip_prefix('/') else { return Ok(()) };
    let right = if name == ":memory:" {
        "write memory: for a store in memory".to_owned()
    } else if name.starts_with("./") || name.starts_with("../") {
        format!("write sqlite://{name}")
    } else if !name.is_empty() && !name.contains('/') && !Path::new(path).exists() {
        format!("write sqlite://{name} for a file in this folder, or sqlite:///{path} for a new one in the root folder")
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("sqlite://{path} names {path}, in the root folder; {right}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{SqliteMode, SqliteOptions, Synchronous};

    #[test]
    fn a_uri_is_a_path_and_options() {
        let (path, options) = SqliteOptions::from_uri("sqlite:///var/a%20b.db").unwrap();
        assert_eq!(path, Path::new("/var/a%20b.db"));
        assert_eq!(options.synchronous, Synchronous::Full);
        let (path, options) =
            SqliteOptions::from_uri("sqlite://agents.db?synchronous=normal&lock_timeout_ms=250").unwrap();
        assert_eq!(path, Path::new("agents.db"));
        assert_eq!(options.synchronous, Synchronous::Normal);
        assert_eq!(options.lock_timeout, Duration::from_millis(250));
        let mode = |uri| SqliteOptions::from_uri(uri).unwrap().1.mode;
        assert_eq!(mode("sqlite://agents.db"), SqliteMode::Create);
        assert_eq!(mode("sqlite://agents.db?mode=ro"), SqliteMode::ReadOnly);
        assert_eq!(mode("sqlite://agents.db?mode=rw&synchronous=normal"), SqliteMode::Existing);
    }

    #[test]
    fn three_slashes_of_sqlalchemy_are_refused_with_the_right_form() {
        for (uri, right) in [
            ("sqlite:///:memory:", "write memory: "),
            ("sqlite:///./x.db", "write sqlite://./x.db"),
            ("sqlite:///../x.db", "write sqlite://../x.db"),
            ("sqlite:///no_such.db?mode=rwc", "write sqlite://no_such.db for"),
            ("sqlite:///no_such.db", "sqlite:////no_such.db for a new one"),
        ] {
            let error = SqliteOptions::from_uri(uri).unwrap_err().to_string();
            assert!(error.contains(right), "{uri}: {error}");
        }
        for uri in ["sqlite:////no_such.db", "sqlite:///data/x.db", "sqlite://./x.db", "sqlite://x.db"] {
            assert!(SqliteOptions::from_uri(uri).is_ok(), "{uri}");
        }
    }

    #[test]
    fn unknown_schemes_parameters_and_values_are_refused() {
        for uri in ["postgres://x", "sqlite:x", "sqlite://x?sync=full", "sqlite://x?synchronous=FULL"] {
            assert!(SqliteOptions::from_uri(uri).is_err(), "{uri}");
        }
        assert!(SqliteOptions::from_uri("sqlite://x?lock_timeout_ms=-1").is_err());
        assert!(SqliteOptions::from_uri("sqlite://x?mode=memory").unwrap_err().to_string().contains("'ro'"));
    }
}
