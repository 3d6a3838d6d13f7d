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
//! - `uri.rs`, `tls.rs`, `connector.rs`, `connection.rs`: from a URI to a pool of connections.
//! - `lease.rs`: what a call can do on a connection; `row.rs`: reading the columns of a row.
//! - `schema.rs`, `migrating.rs`, `script.rs`, `migrations/`: the tables, and the procedure that writes everything in
//!   one call.
//! - `batch.rs`: the arguments of that procedure; `write.rs`: calling it, and its answers.
//! - `events.rs`: appending events, and which events a read picks. `read.rs`: reading a session.
//! - `resolve.rs`, `locks.rs`: writes that read first (operations, guards), and what they lock and read.
//!   `growth.rs`: how many keys a scope can have.
//! - `sessions.rs`: title, labels and lists of sessions; `locate.rs`: finding a session by its id alone.
//! - `state.rs`: the state of users and apps as it is now; `state_log.rs`: its log.
//! - `past.rs`: point-in-time state, blame and checkpoints; `fork.rs`: forks of sessions.
//! - `feed.rs`: the change feed; `listen.rs`: finding the commits of other processes.
//! - `retention.rs`: expiry and pruning; `removals.rs`: removing sessions and users.
//! - `artifacts.rs`, `owners.rs`, `usage.rs`: artifacts, the list of apps and users, and how much is stored.
//! - `error.rs`: what MySQL's errors say about whether a statement was carried out.

mod artifacts;
mod batch;
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
mod migrating;
mod owners;
mod past;
mod read;
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
use scratchbook_database::{
    AppendRow, Attempt, Backend, Checkpoint, DatabaseOptions, DatabaseSessionService, DatabaseUri, Migrate, NewAppend,
    NewFork, Past, PastScopes, RowRoom, Unresolved,
};

use connection::Connections;
use listen::Watched;
use uri::Target;

/// Keeps sessions, state and artifacts in MySQL 8 or MariaDB 10.11, or newer.
///
/// The URI is `mysql://USER:PASSWORD@HOST:PORT/DATABASE` or `mariadb://...`. The database has to exist; the tables are
/// created in it. A `+driver` after the scheme is ignored, as is `charset=utf8mb4`. The parameters are those of
/// [`DatabaseOptions`]: `pool_size`, `connect_timeout` (seconds), `statement_timeout_ms`, `retry_timeout_ms`,
/// `sslmode`, `sslrootcert`, `migrate`, and `table_prefix`.
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
    /// Its clock decides which sessions have expired.
    environment: Arc<dyn Environment>,
    /// The id of the database, after it was first read.
    id: OnceCell<String>,
    watched: Watched,
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

    /// The current time for expiry, in microseconds since 1970.
    fn now(&self) -> i64 {
        micros_of_seconds(self.environment.now())
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Backend for MySql {
    fn read_uri(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)> {
        uri::read_uri(uri)
    }

    async fn open(uri: DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let target = Target::new(uri, options)?;
        let (prefix, connect) = (target.prefix.clone(), options.connect_timeout);
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
            watched: Watched::default(),
        })
    }

    async fn migrate(uri: DatabaseUri, options: &DatabaseOptions, run: MigrationRun) -> Result<Vec<Migration>> {
        let target = Target::new(uri, options)?;
        let (prefix, connect) = (target.prefix.clone(), options.connect_timeout);
        let (_, connections) = connector::open(target, options).await?;
        let migrations = schema::migrate(&connections, &prefix, run, connect).await;
        connections.close().await;
        migrations
    }

    async fn append(&self, batch: &[&NewAppend]) -> Attempt<Vec<AppendRow>> {
        self.write_appends(batch).await
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
        self.write_session(new, token).await
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
        self.write_checkpoint(key, checkpoint).await
    }

    async fn blame(&self, key: &SessionKey) -> Attempt<Option<BTreeMap<String, KeyWriter>>> {
        self.read_blame(key).await
    }

    async fn fork_session(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>> {
        self.write_fork(new, token).await
    }

    async fn list_sessions(&self, app_name: &str, query: &ListQuery, room: RowRoom) -> Attempt<ListSessionsResponse> {
        self.read_list(app_name, query, room).await
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
        self.remove_events(key, before, limit).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Attempt<u64> {
        self.remove_changes(owner, before, limit).await
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
        self.write_state(owner, changes, limits, author, time).await
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
        self.watch(notifier).await;
    }

    fn may_be_listened_to(&self) -> bool {
        // Other processes find commits by polling.
        false
    }

    async fn announce(&self, _: &[Whose]) -> Attempt<()> {
        Ok(())
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
        self.write_artifact(new).await
    }

    async fn load_artifact(&self, address: &ArtifactAddress, version: Option<u64>) -> Attempt<Option<Part>> {
        self.read_artifact(address, version).await
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
        self.connections.close().await;
    }
}
