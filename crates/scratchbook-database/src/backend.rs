//! The traits that each database implements, one per area (reads, writes, forks and others). [`Backend`] combines them.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{
    AppendRow, Attempt, Checkpoint, CreationOutcome, DatabaseOptions, DatabaseUri, NewAppend, NewCreation, NewFork,
    Past, PastScopes, RowRoom, Unresolved,
};
use scratchbook_core::artifact::{ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{PreparedSession, PreparedState};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::query::{EventQuery, ListQuery, StateQuery};
use scratchbook_core::plan::sql::artifact_text::{ArtifactAddress, NewArtifact};
use scratchbook_core::plan::sql::text::{NewSession, TextChange};
use scratchbook_core::plan::update::PreparedUpdate;
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{
    CommitNotifier, CommitScope, EventHashes, FeedPage, FeedStart, InitialState, ListSessionsResponse, ListStateConfig,
    Session, SessionKey, StateBytes, StateChange, StateOwner, StatePage,
};
use scratchbook_core::state::Scope;

/// A database: its statements, its connections, and the meaning of its errors.
///
/// This is the sum of the traits below. A database implements each of them in the file with its statements.
///
/// Every method is one commit or one snapshot. A method cancels a statement after the statement timeout, and waits for
/// a lock for at most [`LOCK_TIMEOUT`](super::LOCK_TIMEOUT). If the method fails, its failure says what is known about
/// the commit. A method that has failed may be called again, even if the failed call was committed.
///
/// A commit that would leave more keys in a scope than its [`Limits`] allow is refused as a whole. An append of a batch that
/// may do so is answered with `AppendRow::Full`, and the others are written.
///
/// All methods treat a session that has expired, by the clock of `options.environment`, as missing, and a new session
/// can be created under its key.
pub trait Backend:
    Connect
    + Appends
    + Creations
    + ResolvedWrites
    + Reads
    + Sessions
    + History
    + Hashes
    + Forks
    + Retention
    + Removals
    + States
    + StateLogs
    + Feeds
    + Listen
    + Owners
    + Usages
    + Artifacts
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
}

/// Opening, checking and closing a database.
#[async_trait]
pub trait Connect: Sized {
    /// Parses a URI of this database. Returns the address, which keeps the driver's own parameters, and our options.
    fn read_uri(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)>;

    /// Connects to the database, and creates, checks or migrates its tables as `options.migrate` says.
    async fn open(uri: DatabaseUri, options: &DatabaseOptions) -> Result<Self>;

    /// Returns the migrations that a database lacks, and runs them if `run` says so, regardless of `options.migrate`.
    async fn migrate(uri: DatabaseUri, options: &DatabaseOptions, run: MigrationRun) -> Result<Vec<Migration>>;

    /// Commits a row of 64 KiB, always the same one, which no read returns.
    async fn check_writable(&self) -> Attempt<()>;

    /// Says in one sentence what does not work, although calls are still answered.
    fn degraded(&self) -> Option<String>;

    /// Closes every connection.
    async fn close(&self);
}

/// Appending events to sessions, many in one commit.
#[async_trait]
pub trait Appends {
    /// Writes events in this order and in one commit, and returns one row for each. No two of them have the same id and
    /// session. A missing session or a duplicate id does not keep the other events from being written.
    async fn append(&self, batch: &[&NewAppend]) -> Attempt<Vec<AppendRow>>;

    /// Whether a session has an event with this id.
    async fn has_event(&self, key: &SessionKey, id: &str) -> Attempt<bool>;
}

/// Creating sessions.
#[async_trait]
pub trait Creations {
    /// Creates a session with its initial state and events. Returns `false` if the id is taken, by the same user or,
    /// depending on `id_scope`, by any user of the app. Two creations of the same id at the same time cannot both
    /// succeed. The token identifies a session that an earlier attempt of the same call has created.
    async fn create_session(&self, new: &NewSession, token: &str) -> Attempt<bool>;

    /// Whether [`create_batch`](Self::create_batch) can create this session.
    fn is_batchable(&self, new: &NewSession) -> bool;

    /// Creates sessions in one commit, and returns the outcome of each. A session whose id is not free is
    /// not created, and does not prevent the others. Of several sessions with the same id at most one is created.
    async fn create_batch(&self, batch: &[&NewCreation]) -> Attempt<Vec<CreationOutcome>>;
}

/// Writes with operations, guards or an update of their session, which lock and read before they write.
#[async_trait]
pub trait ResolvedWrites {
    /// Locks and reads the keys of an event's operations, applies the operations, and writes the event as
    /// [`append`](Appends::append) does, together with its update of the session. Returns the event with the resulting
    /// values. A refusal fails with `CommitFate::NeverApplied`.
    async fn append_resolved(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)>;

    /// Creates a session whose events hold operations.
    async fn create_resolved(&self, new: &PreparedSession, token: &str) -> Attempt<bool>;

    /// Changes the state of a user or an app by operations.
    async fn put_resolved(&self, owner: &StateOwner, new: &PreparedState, author: &str, time: f64) -> Attempt<u64>;
}

/// Reading one session.
#[async_trait]
pub trait Reads {
    /// Reads a session or a part of it.
    async fn session(
        &self,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
        room: RowRoom,
    ) -> Attempt<Option<Session>>;
}

/// Finding sessions, and their titles and labels.
#[async_trait]
pub trait Sessions {
    /// Reads a page of sessions with their merged state.
    async fn list_sessions(&self, app_name: &str, query: &ListQuery, room: RowRoom) -> Attempt<ListSessionsResponse>;

    /// Finds at most two users of an app who have a session with this id that has not expired.
    async fn users_with(&self, app_name: &str, session_id: &str) -> Attempt<Vec<String>>;

    /// Changes a session's title, labels and expiry. Returns `false` if the session does not exist.
    async fn update_session(&self, key: &SessionKey, update: &PreparedUpdate) -> Attempt<bool>;
}

/// Point-in-time state, blame and checkpoints.
#[async_trait]
pub trait History {
    /// Reads the state from which the fold of a session's events begins.
    async fn initial_state(&self, key: &SessionKey) -> Attempt<Option<InitialState>>;

    /// Reads the data from which the state of a session at one of its events is folded, in one snapshot. Requests that
    /// cannot be answered are refused with the errors of `check_event_number`, `log_pruned` and `no_session`.
    async fn past(&self, key: &SessionKey, seq: u64, scopes: PastScopes) -> Attempt<Past>;

    /// Reads the position of an event's commit in the log of the user's or the app's state. Requests that cannot be
    /// answered are refused as by [`past`](Self::past).
    async fn position_at(&self, key: &SessionKey, seq: u64, scope: Scope) -> Attempt<u64>;

    /// Stores a checkpoint, unless the key belongs to another session by now. An existing checkpoint stays.
    async fn keep_checkpoint(&self, key: &SessionKey, checkpoint: &Checkpoint) -> Attempt<()>;

    /// Reads who wrote each key of a session's merged state. The keys of the map have their prefixes.
    async fn blame(&self, key: &SessionKey) -> Attempt<Option<BTreeMap<String, KeyWriter>>>;
}

/// The hashes of events.
#[async_trait]
pub trait Hashes: Sync {
    /// Reads the hashes of at most `limit` of a session's events after a number.
    async fn event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Attempt<Option<EventHashes>>;
}

/// Forking sessions.
#[async_trait]
pub trait Forks {
    /// Creates a session from another one of the same user, and returns it without its events. Returns `None` if the id
    /// is taken; the token identifies a session that an earlier attempt of the same call has created. Requests that
    /// cannot be answered are refused as by [`past`](History::past).
    async fn fork_session(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>>;
}

/// Expiry and pruning.
#[async_trait]
pub trait Retention {
    /// Finds at most this many sessions that have expired.
    async fn expired(&self, limit: usize) -> Attempt<Vec<SessionKey>>;

    /// Removes a session as [`Removals::delete_session`] does, if it has expired; returns `false` if it has not.
    async fn delete_expired(&self, key: &SessionKey) -> Attempt<bool>;

    /// Removes at most `limit` events of a session with a number below `before`, the oldest first, and returns how many
    /// it removed.
    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Attempt<u64>;

    /// Removes at most `limit` changes from an owner's log that were overwritten before the position `before`, and
    /// returns how many it removed.
    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Attempt<u64>;

    /// Drops at most `limit` records of removed sessions and users that are older than `before`, in microseconds, and
    /// returns how many it dropped.
    async fn let_removals_go(&self, before: i64, limit: usize) -> Attempt<u64>;
}

/// Removing sessions and users.
#[async_trait]
pub trait Removals {
    /// Removes a session and everything that belongs to it.
    async fn delete_session(&self, key: &SessionKey) -> Attempt<()>;

    /// Removes a user from an app, and the user's name from the app's log.
    async fn delete_user(&self, app_name: &str, user_id: &str) -> Attempt<()>;
}

/// The state of users and apps as it is now.
#[async_trait]
pub trait States {
    /// Reads the state of a user or an app.
    async fn state(&self, owner: &StateOwner) -> Attempt<Map<String, Value>>;

    /// Reads the size of the state of a user and its app, or of an app alone, and of a session of that user. What does
    /// not exist has no bytes.
    async fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> Attempt<StateBytes>;

    /// Reads a page of the state of a user or an app.
    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig, room: RowRoom) -> Attempt<StatePage>;

    /// Changes the state of a user or an app at a time in seconds, and returns the position of the commit in the
    /// owner's log.
    async fn put_state(
        &self,
        owner: &StateOwner,
        changes: &[TextChange],
        limits: &Limits,
        author: &str,
        time: f64,
    ) -> Attempt<u64>;
}

/// The logs of the state of users and apps.
#[async_trait]
pub trait StateLogs {
    /// Reads the log of a user's or an app's state. A page ends between two commits.
    async fn state_changes(
        &self,
        owner: &StateOwner,
        after: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>>;

    /// Reads the changes to one key before a position, the latest first.
    async fn key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>>;
}

/// The change feed.
#[async_trait]
pub trait Feeds {
    /// Reads a page of the change feed.
    async fn feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize, room: RowRoom) -> Attempt<FeedPage>;
}

/// Notices of commits between processes.
#[async_trait]
pub trait Listen {
    /// Notifies the waiting callers whenever another process may have committed. Returns when nobody waits any more, or
    /// when listening has failed. Commits without a notice are found by polling, at least every 30 seconds.
    async fn listen(&self, notifier: &CommitNotifier);

    /// Whether other processes may be listening for commits. This is called after each commit, so it does not query the
    /// database.
    fn may_be_listened_to(&self) -> bool;

    /// Announces the scopes of commits to other processes, if any of them listens.
    async fn announce(&self, scopes: &[CommitScope]) -> Attempt<()>;
}

/// The list of apps and users.
#[async_trait]
pub trait Owners {
    /// Reads the apps and users after an owner in byte order, each app before its users.
    async fn owners(&self, after: Option<&StateOwner>, limit: usize) -> Attempt<Vec<StateOwner>>;
}

/// How much is stored.
#[async_trait]
pub trait Usages {
    /// Reads how much an owner has stored; an app includes all of its users. Sessions that have expired count until
    /// they are removed.
    async fn usage(&self, owner: &StateOwner) -> Attempt<Usage>;

    /// Reads how much a fork of a session would store, up to one of its events or to the last.
    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Attempt<Usage>;
}

/// Artifacts.
#[async_trait]
pub trait Artifacts {
    /// Stores an artifact and returns its version.
    async fn save_artifact(&self, new: &NewArtifact) -> Attempt<u64>;

    /// Reads one version of an artifact, or the newest.
    async fn load_artifact(&self, address: &ArtifactAddress, version: Option<u64>) -> Attempt<Option<Part>>;

    /// Lists the names of the artifacts that a session can see, in byte order.
    async fn list_artifacts(&self, key: &SessionKey) -> Attempt<Vec<String>>;

    /// Lists a page of the versions of an artifact, oldest first.
    async fn list_artifact_versions(
        &self,
        address: &ArtifactAddress,
        config: &ListVersionsConfig,
        room: RowRoom,
    ) -> Attempt<Vec<ArtifactVersion>>;

    /// Removes all versions of an artifact.
    async fn delete_artifact(&self, address: &ArtifactAddress) -> Attempt<()>;
}
