//! Sessions, state and artifacts in PostgreSQL.
//!
//! ```no_run
//! use scratchbook_core::session::{CreateSessionConfig, SessionService};
//! use scratchbook_postgres::PostgresSessionService;
//!
//! # async fn run() -> scratchbook_core::error::Result<()> {
//! let sessions = PostgresSessionService::connect("postgresql://agents:secret@db.example.org/agents").await?;
//! let session = sessions.create_session("my_app", "alice", CreateSessionConfig::default()).await?;
//! # Ok(()) }
//! ```
//!
//! # Layout
//!
//! - `migrations/`, `sql/`: every statement that is longer than a line or two.
//! - `uri.rs`, `connector.rs`, `connection.rs`: from a URI to a pool of connections.
//! - `lease.rs`, `params.rs`: the operations of a call on a connection, and parameters that do not appear in logs.
//! - `schema.rs`: checks that the tables are ours, and brings them up to date.
//! - `statements.rs`, `statements/`: the statements with the schema filled in, and the types of their parameters.
//! - `events.rs`, `changes.rs`: a batch of appends as arrays. `hashes.rs`: the hashes of events for a verification.
//! - `creations.rs`, `creation_batch.rs`: creating sessions, one or many in a commit. `read.rs`: reading one.
//! - `resolve.rs`, `locks.rs`: writes that read first (operations, guards), and what they lock and read.
//!   `growth.rs`: how many keys a scope can have.
//! - `sessions.rs`: title, labels and lists of sessions, and finding one by its id alone.
//! - `state.rs`: the state of users and apps as it is now; `state_log.rs`: its log.
//! - `past.rs`: point-in-time state, blame and checkpoints; `fork.rs`: forks of sessions.
//! - `feed.rs`: the change feed; `listen.rs`: notices of commits between processes.
//! - `retention.rs`: expiry and pruning; `removals.rs`: removing sessions and users.
//! - `artifacts.rs`, `owners.rs`, `usage.rs`: artifacts, the list of apps and users, and how much is stored.
//! - `error.rs`: errors, and whether the failed statement may have been applied.
//!
//! Every writer takes its locks in one order: sessions that exist, users, apps, keys. A creation locks its user before
//! it inserts the session's row. A statement's snapshot is taken before the
//! statement waits for locks. So values that have to be current are read by the locking itself or by a later statement
//! (READ COMMITTED).

mod artifacts;
mod changes;
mod connection;
mod connector;
mod creation_batch;
mod creations;
mod error;
mod events;
mod feed;
mod fork;
mod growth;
mod hashes;
mod lease;
mod listen;
mod locks;
mod owners;
mod params;
mod past;
mod read;
mod removals;
mod resolve;
mod retention;
mod schema;
mod sessions;
mod state;
mod state_log;
mod statements;
mod uri;
mod usage;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use scratchbook_core::environment::Environment;
use scratchbook_core::error::Result;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::session::micros_of_seconds;
use scratchbook_database::{Attempt, Backend, Connect, DatabaseOptions, DatabaseSessionService, DatabaseUri, RowRoom};

use connection::Connections;
use connector::Connector;
use lease::BoundStatement;
use listen::ListenerState;
use statements::{Statement, Statements};

/// Keeps sessions, state and artifacts in PostgreSQL 13 or newer.
///
/// The URI has libpq's form, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&...`. A driver in it, as in
/// `postgresql+asyncpg://`, is ignored. These parameters are scratchbook's:
///
/// | parameter | what it sets |
/// |---|---|
/// | `schema` | the schema of the tables, created if it does not exist; default: the first of the search path |
/// | `pool_size` | the maximum number of connections (8) |
/// | `connect_timeout` | the timeout for making a connection, in seconds (10) |
/// | `statement_timeout_ms` | the timeout for a statement, including its commit (30000); a call may run several |
/// | `retry_timeout_ms` | how long a call is retried while the database cannot be reached (30000) |
/// | `sslmode` | `disable`, `prefer` (default), `require`, `verify-ca`, `verify-full` |
/// | `sslrootcert` | a file of trusted authorities in PEM; with `require`, the chain is verified against it, as libpq does |
/// | `migrate` | `auto`, `check` or `off`: whether opening migrates the tables |
/// | `value_bytes`, `delta_bytes`, `event_bytes`, `artifact_bytes`, `keys_per_scope`, `events_per_session` | see [`Limits`] |
/// | `user_bytes`, `user_sessions`, `user_artifacts`, `app_bytes`, `app_sessions`, `app_artifacts` | quotas, see [`Limits`] |
///
/// These parameters are passed to the driver: `application_name`, `channel_binding`, `dbname`, `host`, `hostaddr`,
/// `keepalives`, `keepalives_idle`, `keepalives_interval`, `keepalives_retries`, `load_balance_hosts`, `options`,
/// `password`, `port`, `sslnegotiation`, `target_session_attrs`, `tcp_user_timeout`, `user`.
///
/// With several hosts and `target_session_attrs=read-write` a service finds the new primary after a failover. The hosts
/// share `connect_timeout` evenly.
///
/// Dead connections, such as those that a firewall has dropped, are found by keepalives and by a `tcp_user_timeout` of
/// 10 s. Keepalives are sent after 30 s of silence, every 10 s, 3 times. The URI can set other values.
///
/// # Behind PgBouncer
///
/// In transaction mode PgBouncer needs `max_prepared_statements` above 0. If PgBouncer or RDS Proxy refuses the
/// settings that a connection starts with (`options`), the store leaves them out. Set them for the role instead: `ALTER
/// ROLE r SET plan_cache_mode = force_generic_plan`, and likewise `enable_seqscan = off`, `enable_bitmapscan = off`,
/// `enable_sort = off`, `jit = off` and, if the database has another default, `default_transaction_isolation = 'read
/// committed'`.
///
/// ```no_run
/// use scratchbook::store::PostgresSessionService;
/// use scratchbook::{CreateSessionConfig, SessionService};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let uri = "postgresql://agents:secret@db.example.org/agents?schema=scratchbook&sslmode=verify-full";
/// let sessions = PostgresSessionService::connect(uri).await?;
/// let session = sessions.create_session("my_app", "alice", CreateSessionConfig::default()).await?;
/// # Ok(()) }
/// ```
///
/// [`Limits`]: scratchbook_core::plan::limits::Limits
pub type PostgresSessionService = DatabaseSessionService<Postgres>;

/// Connects to a PostgreSQL database that need not be scratchbook's, with the parameters of a scratchbook URI.
#[doc(hidden)]
pub async fn connect_to_any(uri: &str) -> Result<tokio_postgres::Client> {
    let (address, options) = uri::read(uri)?;
    let client = Connector::connect_to_any(&address, &options).await.map_err(|failure| failure.error)?;
    if let Some(schema) = &options.schema {
        let quoted = schema.replace('"', "\"\"");
        let path = client.batch_execute(&format!("SET search_path TO \"{quoted}\"")).await;
        path.map_err(|e| error::of_statement(&address.to_string(), &e).error)?;
    }
    Ok(client)
}

/// A PostgreSQL database, as [`PostgresSessionService`] uses it.
pub struct Postgres {
    connections: Connections,
    statements: Statements,
    environment: Arc<dyn Environment>,
    /// The id of the database, after the first read of a feed.
    database_id: OnceCell<String>,
    /// Whether other processes listen for commits.
    listeners: ListenerState,
    /// Identifies our own notices.
    sender: String,
}

impl Postgres {
    /// Returns the current time for expiry, in microseconds since 1970.
    fn now(&self) -> i64 {
        micros_of_seconds(self.environment.now())
    }

    /// Runs a statement that only reads.
    async fn read(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        self.connections.lease_to_read().await?.query(statement, params).await
    }

    /// Runs a statement that only reads rows of a limited size.
    async fn read_within(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        room: RowRoom,
        is_of_item: impl Fn(&Row) -> bool,
    ) -> Attempt<Vec<Row>> {
        self.connections.lease_to_read().await?.query_within(statement, params, room, is_of_item).await
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Postgres").field(&self.connections.place()).finish()
    }
}

impl Backend for Postgres {}

#[async_trait]
impl Connect for Postgres {
    fn read_uri(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)> {
        uri::read(uri)
    }

    async fn open(uri: DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let connections = Connections::open(&uri, options).await?;
        let schema = schema::prepare(&connections, options).await?;
        Ok(Self {
            connections,
            statements: Statements::of(&schema),
            environment: Arc::clone(&options.environment),
            database_id: OnceCell::new(),
            listeners: ListenerState::default(),
            sender: listen::new_sender(),
        })
    }

    async fn migrate(uri: DatabaseUri, options: &DatabaseOptions, run: MigrationRun) -> Result<Vec<Migration>> {
        let connections = Connections::open(&uri, options).await?;
        let migrations = schema::migrate(&connections, options, run).await;
        connections.close();
        migrations
    }

    async fn check_writable(&self) -> Attempt<()> {
        let lease = self.connections.lease().await?;
        let steps = self.statements.try_write.each_ref().map(|statement| BoundStatement::new(statement, []));
        lease.transaction(&steps).await.map(drop)
    }

    fn degraded(&self) -> Option<String> {
        self.connections.degraded()
    }

    async fn close(&self) {
        self.connections.close();
    }
}
