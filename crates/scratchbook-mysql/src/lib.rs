//! Sessions, state and artifacts in MySQL or MariaDB.
//!
//! ```no_run
//! use scratchbook_core::session::{CreateSessionConfig, SessionService};
//! use scratchbook_mysql::MySqlSessionService;
//!
//! # async fn run() -> scratchbook_core::error::Result<()> {
//! let sessions = MySqlSessionService::connect("mysql://agents:secret@db.example.org/agents").await?;
//! let session = sessions.create_session("my_app", "alice", CreateSessionConfig::default()).await?;
//! # Ok(()) }
//! ```
//!
//! # Layout
//!
//! - `uri.rs`, `tls.rs`, `connector.rs`, `connection.rs`: from a URI to a pool of connections. `relay.rs`:
//!   TLS for certificates that the driver refuses.
//! - `lease.rs`: the operations of a call on a connection; `row.rs`: reading the columns of a row.
//! - `schema.rs`, `migrating.rs`, `script.rs`, `migrations/`: the tables, and the procedure that writes everything in
//!   one call.
//! - `batch.rs`: the arguments of that procedure; `procedure.rs`: calling it, and its answers.
//! - `events.rs`: appending events, and selecting the events of a read. `read.rs`: reading a session.
//! - `resolve.rs`, `locks.rs`: writes that read first (operations, guards), and what they lock and read.
//!   `growth.rs`: how many keys a scope can have.
//! - `sessions.rs`: title, labels and lists of sessions, and finding one by its id alone; `unique_ids.rs`: ids that are
//!   unique within an app.
//! - `state.rs`: the state of users and apps as it is now; `state_log.rs`: its log.
//! - `past.rs`: point-in-time state, blame and checkpoints; `fork.rs`: forks of sessions.
//! - `feed.rs`: the change feed; `listen.rs`: finding the commits of other processes.
//! - `retention.rs`: expiry and pruning; `removals.rs`: removing sessions and users.
//! - `artifacts.rs`, `owners.rs`, `usage.rs`: artifacts, the list of apps and users, and how much is stored.
//! - `error.rs`: MySQL's errors, and whether the failed statement may have been applied.

mod artifacts;
mod batch;
mod connection;
mod connector;
mod error;
mod events;
mod feed;
mod fork;
mod growth;
mod hashes;
mod lease;
mod listen;
mod locks;
mod migrating;
mod owners;
mod past;
mod procedure;
mod read;
#[cfg(unix)]
mod relay;
#[cfg(not(unix))]
#[path = "without_relay.rs"]
mod relay;
mod removals;
mod resolve;
mod retention;
mod row;
mod schema;
mod script;
mod sessions;
mod state;
mod state_log;
mod tls;
mod unique_ids;
mod uri;
mod usage;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mysql_async::{Row, Value};
use tokio::sync::OnceCell;

use scratchbook_core::environment::Environment;
use scratchbook_core::error::Result;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::session::micros_of_seconds;
use scratchbook_database::{
    Attempt, Backend, Connect, DatabaseOptions, DatabaseSessionService, DatabaseUri, Idempotency, Migrate, RowRoom,
};

use connection::Connections;
use listen::ReportedPositions;
use uri::DatabaseAddress;

/// Keeps sessions, state and artifacts in MySQL 9.7 (8.0 and 8.4 were not tried) or MariaDB 10.11, or newer.
///
/// The URI is `mysql://USER:PASSWORD@HOST:PORT/DATABASE` or `mariadb://...`. The database has to exist; the tables are
/// created in it. A `+driver` after the scheme is ignored, as is `charset=utf8mb4`. The parameters are those of
/// [`DatabaseOptions`]: `pool_size`, `connect_timeout` (seconds), `statement_timeout_ms`, `retry_timeout_ms`,
/// `sslmode`, `sslrootcert`, `migrate`, and `table_prefix`. `unix_socket` is the path of a socket, in place of host and
/// port.
///
/// ```no_run
/// use scratchbook::store::MySqlSessionService;
/// use scratchbook::{CreateSessionConfig, SessionService};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let uri = "mysql://agents:secret@db.example.com/agents?sslmode=verify-full";
/// let sessions = MySqlSessionService::connect(uri).await?;
/// let session = sessions.create_session("my_app", "alice", CreateSessionConfig::default()).await?;
/// # Ok(()) }
/// ```
pub type MySqlSessionService = DatabaseSessionService<MySql>;

/// A MySQL or MariaDB database, as [`MySqlSessionService`] uses it.
pub struct MySql {
    connections: Connections,
    prefix: String,
    /// The maximum size of a command, in bytes.
    max_packet: usize,
    limits: Limits,
    /// The clock that decides which sessions have expired, and the source of ids.
    environment: Arc<dyn Environment>,
    /// The id of the database, after it was first read.
    id: OnceCell<String>,
    watched: ReportedPositions,
}

impl fmt::Debug for MySql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySql").field("at", &self.connections.place()).field("prefix", &self.prefix).finish()
    }
}

impl MySql {
    /// Fills the prefix of our tables into a statement.
    fn sql(&self, template: &str) -> String {
        script::with_prefix(template, &self.prefix)
    }

    /// Returns the current time for expiry, in microseconds since 1970.
    fn now(&self) -> i64 {
        micros_of_seconds(self.environment.now())
    }

    /// Runs a statement that only reads.
    async fn read(&self, template: &str, values: Vec<Value>) -> Attempt<Vec<Row>> {
        self.connections.lease(Idempotency::Idempotent).await?.rows(&self.sql(template), values).await
    }

    /// Runs a statement that only reads rows of a limited size.
    async fn read_within(
        &self,
        template: &str,
        values: Vec<Value>,
        room: RowRoom,
        is_of_item: impl Fn(&Row) -> bool + Send + Sync,
    ) -> Attempt<Vec<Row>> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.rows_within(&self.sql(template), values, room, is_of_item).await
    }
}

impl Backend for MySql {}

#[async_trait]
impl Connect for MySql {
    fn read_uri(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)> {
        uri::read_uri(uri)
    }

    async fn open(uri: DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let target = DatabaseAddress::new(uri, options)?;
        let prefix = target.prefix.clone();
        let connect = options.connect_timeout;
        let (server, connections) = connector::open(target, options).await?;
        if options.migrate != Migrate::Off {
            schema::prepare(&connections, &prefix, options.migrate, connect).await?;
        }
        Ok(Self {
            connections,
            prefix,
            max_packet: server.max_packet,
            limits: options.limits,
            environment: Arc::clone(&options.environment),
            id: OnceCell::new(),
            watched: ReportedPositions::default(),
        })
    }

    async fn migrate(uri: DatabaseUri, options: &DatabaseOptions, run: MigrationRun) -> Result<Vec<Migration>> {
        let target = DatabaseAddress::new(uri, options)?;
        let prefix = target.prefix.clone();
        let connect = options.connect_timeout;
        let (_, connections) = connector::open(target, options).await?;
        let migrations = schema::migrate(&connections, &prefix, run, connect).await;
        connections.close().await;
        migrations
    }

    async fn check_writable(&self) -> Attempt<()> {
        let mut lease = self.connections.lease(Idempotency::Idempotent).await?;
        lease.begin().await?;
        for sql in [
            "INSERT INTO `{prefix}events` SELECT * FROM `{prefix}events` LIMIT 0",
            "UPDATE `{prefix}sessions` SET seq = seq WHERE 1 = 0",
            "INSERT INTO `{prefix}write_checks` (only_row, filler) VALUES (1, REPEAT(UUID(), 1820))
             ON DUPLICATE KEY UPDATE filler = VALUES(filler)",
        ] {
            lease.query(&self.sql(sql)).await?;
        }
        lease.commit().await
    }

    fn degraded(&self) -> Option<String> {
        self.connections.degraded()
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}
