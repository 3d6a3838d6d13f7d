//! Options of a database, set in code or in a URI.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, Result};

use super::uri::DatabaseUri;
use scratchbook_core::plan::limits::Limits;

/// Whether opening a database creates its tables and brings them up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrate {
    /// Opening creates missing tables and runs missing migrations.
    #[default]
    Auto,
    /// Opening changes nothing, and fails if the tables are not up to date. This is for a role that may not change
    /// tables.
    Check,
    /// Opening neither changes nor checks the tables.
    Off,
}

/// Whether the connection is encrypted, and how the server's certificate is checked: the modes of PostgreSQL's
/// `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server supports it; the certificate is not checked.
    #[default]
    Prefer,
    /// Encrypted; the certificate is not checked.
    Require,
    /// Encrypted, and the certificate has to be issued by a trusted authority.
    VerifyCa,
    /// Encrypted, and the certificate has to be issued by a trusted authority for this host.
    VerifyFull,
}

/// Options of a service on a database server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatabaseOptions {
    /// The maximum number of connections. Default: 8.
    pub pool_size: usize,
    /// The timeout for making a connection. Default: 10 s.
    pub connect_timeout: Duration,
    /// The timeout for a statement, including its commit. Default: 30 s. After it the connection is closed, and the
    /// statement is retried if that is safe.
    pub statement_timeout: Duration,
    /// How long a call is retried while the database cannot be reached. Default: 30 s.
    pub retry_timeout: Duration,
    /// Whether the connection is encrypted. Default: `Prefer`.
    pub tls: TlsMode,
    /// A file with the certificates of trusted authorities. Default: the system's authorities.
    pub root_certificate: Option<PathBuf>,
    /// The PostgreSQL schema of the tables. It is created if it does not exist. Default: the first schema of the
    /// connection's search path.
    pub schema: Option<String>,
    /// The prefix of all table names in MySQL. Default: no prefix.
    pub table_prefix: Option<String>,
    /// Whether opening a database migrates its tables.
    pub migrate: Migrate,
    /// The maximum number of queued appends. Default: 1,024.
    pub queue_capacity: usize,
    /// How long an append waits for space in a full queue before it is refused. Default: 5 s.
    pub queue_timeout: Duration,
    /// Limits on sizes and counts.
    pub limits: Limits,
    /// The source of times and ids.
    pub environment: Arc<dyn Environment>,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            pool_size: 8,
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            retry_timeout: Duration::from_secs(30),
            tls: TlsMode::default(),
            root_certificate: None,
            schema: None,
            table_prefix: None,
            migrate: Migrate::default(),
            queue_capacity: 1024,
            queue_timeout: Duration::from_secs(5),
            limits: Limits::default(),
            environment: Arc::new(SystemEnvironment),
        }
    }
}

/// The largest pool size that is accepted.
const MAX_POOL_SIZE: usize = 10_000;

/// The parameters that the URI of every database accepts.
const COMMON: &[&str] =
    &["pool_size", "connect_timeout", "statement_timeout_ms", "retry_timeout_ms", "sslmode", "sslrootcert", "migrate"];

/// The longest timeout: 24 days, the most that all lower layers can represent in milliseconds.
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

impl DatabaseOptions {
    /// Sets the maximum number of connections.
    #[must_use]
    pub fn with_pool_size(mut self, size: usize) -> Self {
        self.pool_size = size;
        self
    }

    /// Sets the timeout for making a connection.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the timeout for a statement, including its commit.
    #[must_use]
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// Sets how long a call is retried while the database cannot be reached.
    #[must_use]
    pub fn with_retry_timeout(mut self, timeout: Duration) -> Self {
        self.retry_timeout = timeout;
        self
    }

    /// Sets whether the connection is encrypted.
    #[must_use]
    pub fn with_tls(mut self, mode: TlsMode) -> Self {
        self.tls = mode;
        self
    }

    /// Sets whether opening a database migrates its tables.
    #[must_use]
    pub fn with_migrate(mut self, migrate: Migrate) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets the maximum number of queued appends.
    #[must_use]
    pub fn with_queue_capacity(mut self, capacity: usize) -> Self {
        self.queue_capacity = capacity;
        self
    }

    /// Sets how long an append waits for space in a full queue before it is refused.
    #[must_use]
    pub fn with_queue_timeout(mut self, timeout: Duration) -> Self {
        self.queue_timeout = timeout;
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

    /// Sets a file with the certificates of trusted authorities.
    #[must_use]
    pub fn with_root_certificate(mut self, path: impl Into<PathBuf>) -> Self {
        self.root_certificate = Some(path.into());
        self
    }

    /// Sets the PostgreSQL schema of the tables.
    #[must_use]
    pub fn with_schema(mut self, name: impl Into<String>) -> Self {
        self.schema = Some(name.into());
        self
    }

    /// Sets the prefix of all table names in MySQL.
    #[must_use]
    pub fn with_table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.table_prefix = Some(prefix.into());
        self
    }

    /// Returns these options, reduced to supported values.
    pub(super) fn bounded(mut self) -> Self {
        for time in
            [&mut self.connect_timeout, &mut self.statement_timeout, &mut self.retry_timeout, &mut self.queue_timeout]
        {
            *time = (*time).clamp(Duration::from_millis(1), LONGEST);
        }
        self.pool_size = self.pool_size.clamp(1, MAX_POOL_SIZE);
        self
    }

    /// Removes our own parameters from a URI and returns them as options.
    #[doc(hidden)]
    pub fn from_uri(uri: &mut DatabaseUri) -> Result<Self> {
        let mut options = Self::default();
        for name in COMMON.iter().chain(&Limits::PARAMETERS) {
            if let Some(value) = uri.take(name) {
                options.read(name, &value)?;
            }
        }
        Ok(options)
    }

    fn read(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "pool_size" => {
                self.pool_size =
                    value.parse().ok().filter(|size| (1..=MAX_POOL_SIZE).contains(size)).ok_or_else(|| {
                        Error::invalid(format!(
                            "pool_size={value}; it is a number of connections, 1 to {MAX_POOL_SIZE}"
                        ))
                    })?;
            }
            "connect_timeout" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
                    Error::invalid(format!("connect_timeout={value}; it is a whole number of seconds, 1 or more"))
                })?;
                self.connect_timeout = Duration::from_secs(seconds);
            }
            "statement_timeout_ms" => self.statement_timeout = millis(name, value)?,
            "retry_timeout_ms" => self.retry_timeout = millis(name, value)?,
            "sslmode" => {
                self.tls = match value {
                    "disable" => TlsMode::Disable,
                    "allow" | "prefer" => TlsMode::Prefer,
                    "require" => TlsMode::Require,
                    "verify-ca" => TlsMode::VerifyCa,
                    "verify-full" => TlsMode::VerifyFull,
                    _ => {
                        return Err(Error::invalid(format!(
                            "sslmode={value}; it is 'disable', 'prefer', 'require', 'verify-ca' or 'verify-full'"
                        )));
                    }
                };
            }
            "sslrootcert" => self.root_certificate = Some(PathBuf::from(value)),
            "migrate" => {
                self.migrate = match value {
                    "auto" => Migrate::Auto,
                    "check" => Migrate::Check,
                    "off" => Migrate::Off,
                    _ => return Err(Error::invalid(format!("migrate={value}; it is 'auto', 'check' or 'off'"))),
                };
            }
            _ if self.limits.read_parameter(name, value)? => {}
            _ => return Err(Error::internal(format!("no option is called '{name}'"))),
        }
        Ok(())
    }
}

fn millis(name: &str, value: &str) -> Result<Duration> {
    let number = value.parse().ok().filter(|millis| *millis > 0);
    number
        .map(Duration::from_millis)
        .ok_or_else(|| Error::invalid(format!("{name}={value}; it is a whole number of milliseconds, 1 or more")))
}

/// Checks a part of a table's name, which is written into statements: it can have letters, digits and underscores.
#[doc(hidden)]
pub fn check_name(what: &str, name: &str, most: usize) -> Result<()> {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain && name.len() <= most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what}={name:?}; it is at most {most} letters, digits and underscores, the first no digit"
    )))
}
