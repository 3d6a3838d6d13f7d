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
//! - `uri.rs`, `tls.rs`, `connector.rs`, `connection.rs`: from a URI to a pool of connections.
//! - `lease.rs`, `params.rs`: what a call can do on a connection, and which parts of it appear in logs.
//! - `schema.rs`: whether the tables are ours, and bringing them up to date.
//! - `statements.rs`, `statements/`: the statements with the schema filled in, and the types of their parameters.
//! - `events.rs`, `changes.rs`: a batch of appends as arrays. `write.rs`: creating sessions. `read.rs`: reading one.
//! - `resolve.rs`, `locks.rs`: writes that read first (operations, guards), and what they lock and read.
//!   `growth.rs`: how many keys a scope can have.
//! - `sessions.rs`: title, labels and lists of sessions; `locate.rs`: finding a session by its id alone.
//! - `state.rs`: the state of users and apps as it is now; `state_log.rs`: its log.
//! - `past.rs`: point-in-time state, blame and checkpoints; `fork.rs`: forks of sessions.
//! - `feed.rs`: the change feed; `listen.rs`: notices of commits between processes.
//! - `retention.rs`: expiry and pruning; `removals.rs`: removing sessions and users.
//! - `artifacts.rs`, `owners.rs`, `usage.rs`: artifacts, the list of apps and users, and how much is stored.
//! - `error.rs`: what a failure says about whether a statement was carried out.
//!
//! Every writer takes its locks in one order: sessions, users, apps, keys. A statement's snapshot is older than the
//! locks that it waits for, so values that have to be current come from a lock or from a later statement (READ
//! COMMITTED).

mod artifacts;
mod changes;
mod connection;
mod connector;
mod error;
mod events;
mod feed;
mod fork;
mod growth;
mod lease;
mod listen;
mod locate;
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
mod tls;
mod uri;
mod usage;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use scratchbook_core::artifact::ArtifactVersion;
use scratchbook_core::content::Part;
use scratchbook_core::environment::Environment;
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{PreparedSession, PreparedState};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::query::{EventQuery, ListQuery, StateQuery};
use scratchbook_core::plan::sql::artifact_text::{ArtifactAddress, NewArtifact};
use scratchbook_core::plan::sql::text::{NewSession, TextChange};
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{
    CommitNotifier, FeedPage, FeedStart, InitialState, ListSessionsResponse, ListStateConfig, Session, SessionKey,
    SessionUpdate, StateChange, StateOwner, StatePage, Whose, micros_of_seconds,
};
pub use scratchbook_database::{
    AppendRow, Attempt, Backend, Checkpoint, DatabaseOptions, DatabaseSessionService, DatabaseUri, NewAppend, NewFork,
    Past, PastScopes, RowRoom, Unresolved,
};

use connection::Connections;
use listen::ListenerState;
use statements::Statements;

/// Keeps sessions, state and artifacts in PostgreSQL 13 or newer.
///
/// The URI is that of libpq, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&...`. A driver in it, as in
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
/// Dead connections, such as those that a firewall has dropped, are found by keepalives (after 30 s of silence, every
/// 10 s, 3 times) and by a `tcp_user_timeout` of 10 s, unless the URI sets other values.
///
/// # Behind PgBouncer
///
/// In transaction mode PgBouncer needs `max_prepared_statements` above 0. If PgBouncer, or RDS Proxy, refuses the
/// settings that a connection starts with (`options`), they are left out. Set them for the role instead: `ALTER ROLE r
/// SET plan_cache_mode = force_generic_plan`, and likewise `enable_seqscan = off`, `enable_bitmapscan = off`,
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
pub type PostgresSessionService = DatabaseSessionService<Postgres>;

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
    /// The current time for expiry, in microseconds since 1970.
    fn now(&self) -> i64 {
        micros_of_seconds(self.environment.now())
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Postgres").field(&self.connections.place()).finish()
    }
}

#[async_trait]
impl Backend for Postgres {
    fn read_uri(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)> {
        uri::read(uri)
    }

    async fn open(uri: DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let connections = Connections::open(&uri, options).await?;
        let schema = schema::prepare(&connections, options).await?;
        Ok(Self {
            connections,
            statements: Statements::new(&schema),
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

    async fn append(&self, batch: &[&NewAppend]) -> Attempt<Vec<AppendRow>> {
        self.append_batch(batch).await
    }

    async fn append_resolved(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)> {
        self.append_resolved(new).await
    }

    async fn create_resolved(&self, new: &PreparedSession, token: &str) -> Attempt<bool> {
        self.create_resolved(new, token).await
    }

    async fn put_resolved(&self, owner: &StateOwner, new: &PreparedState, author: &str, time: f64) -> Attempt<u64> {
        self.put_resolved(owner, new, author, time).await
    }

    async fn create_session(&self, new: &NewSession, token: &str) -> Attempt<bool> {
        self.create(new, token).await
    }

    async fn session(
        &self,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
        room: RowRoom,
    ) -> Attempt<Option<Session>> {
        self.read_session(key, events, state, room).await
    }

    async fn initial_state(&self, key: &SessionKey) -> Attempt<Option<InitialState>> {
        self.read_initial_state(key).await
    }

    async fn past(&self, key: &SessionKey, seq: u64, scopes: PastScopes) -> Attempt<Past> {
        self.read_past(key, seq, scopes).await
    }

    async fn keep_checkpoint(&self, key: &SessionKey, checkpoint: &Checkpoint) -> Attempt<()> {
        self.keep(key, checkpoint).await
    }

    async fn blame(&self, key: &SessionKey) -> Attempt<Option<BTreeMap<String, KeyWriter>>> {
        self.read_blame(key).await
    }

    async fn fork_session(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>> {
        self.fork(new, token).await
    }

    async fn list_sessions(&self, app_name: &str, query: &ListQuery, room: RowRoom) -> Attempt<ListSessionsResponse> {
        self.list(app_name, query, room).await
    }

    async fn users_with(&self, app_name: &str, session_id: &str) -> Attempt<Vec<String>> {
        self.read_users_with(app_name, session_id).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Attempt<()> {
        self.remove_session(key).await
    }

    async fn set_expiry(&self, key: &SessionKey, expires: Option<i64>) -> Attempt<bool> {
        self.write_expiry(key, expires).await
    }

    async fn update_session(&self, key: &SessionKey, update: &SessionUpdate) -> Attempt<bool> {
        self.write_metadata(key, update).await
    }

    async fn expired(&self, limit: usize) -> Attempt<Vec<SessionKey>> {
        self.read_expired(limit).await
    }

    async fn delete_expired(&self, key: &SessionKey) -> Attempt<bool> {
        self.remove_expired(key).await
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Attempt<u64> {
        self.prune(key, before, limit).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Attempt<u64> {
        self.prune_log(owner, before, limit).await
    }

    async fn state(&self, owner: &StateOwner) -> Attempt<Map<String, Value>> {
        self.read_state(owner).await
    }

    async fn put_state(
        &self,
        owner: &StateOwner,
        changes: &[TextChange],
        limits: &Limits,
        author: &str,
        time: f64,
    ) -> Attempt<u64> {
        self.put(owner, changes, limits, author, time).await
    }

    async fn state_changes(
        &self,
        owner: &StateOwner,
        after: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>> {
        self.read_log(owner, after, limit, room).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig, room: RowRoom) -> Attempt<StatePage> {
        self.read_state_page(owner, config, room).await
    }

    async fn key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>> {
        self.read_key_changes(owner, name, before, limit, room).await
    }

    async fn let_removals_go(&self, before: i64, limit: usize) -> Attempt<u64> {
        self.let_go(before, limit).await
    }

    async fn feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize, room: RowRoom) -> Attempt<FeedPage> {
        self.read_feed(owner, start, limit, room).await
    }

    async fn listen(&self, notifier: &CommitNotifier) {
        self.listen_for_commits(notifier).await;
    }

    fn may_be_listened_to(&self) -> bool {
        self.listeners.may_exist()
    }

    async fn announce(&self, whose: &[Whose]) -> Attempt<()> {
        self.send_notices(&Whose::to_texts(whose)).await
    }

    async fn owners(&self, after: Option<&StateOwner>, limit: usize) -> Attempt<Vec<StateOwner>> {
        self.read_owners(after, limit).await
    }

    async fn check_writable(&self) -> Attempt<()> {
        self.write_nothing().await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Attempt<()> {
        self.remove_user(app_name, user_id).await
    }

    async fn save_artifact(&self, new: &NewArtifact) -> Attempt<u64> {
        self.save(new).await
    }

    async fn load_artifact(&self, address: &ArtifactAddress, version: Option<u64>) -> Attempt<Option<Part>> {
        self.load(address, version).await
    }

    async fn list_artifacts(&self, key: &SessionKey) -> Attempt<Vec<String>> {
        self.artifact_names(key).await
    }

    async fn list_artifact_versions(&self, address: &ArtifactAddress) -> Attempt<Vec<ArtifactVersion>> {
        self.artifact_versions(address).await
    }

    async fn delete_artifact(&self, address: &ArtifactAddress) -> Attempt<()> {
        self.remove_artifact(address).await
    }

    async fn usage(&self, owner: &StateOwner) -> Attempt<Usage> {
        self.read_usage(owner).await
    }

    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Attempt<Usage> {
        self.read_fork_usage(key, at).await
    }

    async fn has_event(&self, key: &SessionKey, id: &str) -> Attempt<bool> {
        self.knows_event(key, id).await
    }

    async fn close(&self) {
        self.connections.close();
    }
}
