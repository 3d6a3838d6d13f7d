//! What a database has to carry out.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{Attempt, Checkpoint, DatabaseOptions, DatabaseUri, Past, PastScopes, RowRoom};
use scratchbook_core::artifact::ArtifactVersion;
use scratchbook_core::content::Part;
use scratchbook_core::error::{Error, KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{Prepared, PreparedSession, PreparedState};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::migrate::{Migration, MigrationRun};
use scratchbook_core::plan::query::{EventQuery, ListQuery, StateQuery};
use scratchbook_core::plan::sql::artifact_text::{ArtifactAddress, NewArtifact};
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{
    AppendOptions, CommitNotifier, FeedPage, FeedStart, InitialState, ListSessionsResponse, ListStateConfig,
    LogPositions, Session, SessionKey, SessionUpdate, StateChange, StateOwner, StatePage, Whose,
};

/// An event and the session that it is for.
#[derive(Debug)]
pub struct NewAppend {
    #[doc(hidden)]
    pub key: SessionKey,
    #[doc(hidden)]
    pub event: NewEvent,
}

/// An event that depends on what is stored.
#[derive(Debug)]
pub struct Unresolved {
    #[doc(hidden)]
    pub key: SessionKey,
    #[doc(hidden)]
    pub prepared: Prepared,
    #[doc(hidden)]
    pub options: AppendOptions,
}

/// A session that is to be made of another.
#[derive(Debug)]
pub struct NewFork {
    #[doc(hidden)]
    pub source: SessionKey,
    /// The number of the last event that is taken over; absent, all are.
    #[doc(hidden)]
    pub at: Option<u64>,
    #[doc(hidden)]
    pub key: SessionKey,
    /// In microseconds since 1970.
    #[doc(hidden)]
    pub created: i64,
}

/// What a database found for one append of a batch.
#[derive(Debug)]
pub enum AppendRow {
    /// It is stored.
    Stored {
        /// With this number.
        seq: i64,
        /// And its commit stands here in the logs.
        logs: LogPositions,
    },
    /// Its id was in the session already, and nothing was changed.
    Duplicate {
        /// The number of the event that is there.
        seq: i64,
        /// That event as JSON.
        text: String,
        /// The hash of what was sent for it.
        hash: Vec<u8>,
        /// Where its commit stands in the logs.
        logs: LogPositions,
    },
    /// There is no such session.
    NoSession,
    /// It may not be written, of which nothing has to be undone: the session has as many events as it may have.
    Refused(Error),
}

/// A database: statements, connections, and what its errors mean.
///
/// Every method is one commit or one snapshot, gives up a statement after the statement timeout, waits no longer for a
/// lock than [`LOCK_TIMEOUT`](super::LOCK_TIMEOUT), and says in its failure what is known of what was done. The methods
/// are called again after a failure, possibly one that had been done.
///
/// A commit that would leave more keys in a scope than its [`Limits`] allow is refused, and nothing of it is kept; of an
/// append among others nothing is written of the others either, and `CommitFate::NeverApplied` has them tried one by one.
///
/// A session that has expired, by the clock of `options.environment`, is missing to all of them, and makes room for a
/// new one of its address.
#[async_trait]
pub trait Backend: fmt::Debug + Sized + Send + Sync + 'static {
    /// Reads a URI of this database's: its address with the driver's own parameters, and ours as options.
    fn read_uri(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)>;

    /// Reaches the database and sees to its tables.
    async fn open(uri: DatabaseUri, options: &DatabaseOptions) -> Result<Self>;

    /// The migrations that a database lacks, carried out or not, whatever `options.migrate` says.
    async fn migrate(uri: DatabaseUri, options: &DatabaseOptions, run: MigrationRun) -> Result<Vec<Migration>>;

    /// Writes events, in this order, no two with one id in one session, in one commit; a row for each. A session that
    /// is missing or an id that is known keeps nothing else from being written.
    async fn append(&self, batch: &[&NewAppend]) -> Attempt<Vec<AppendRow>>;

    /// Writes an event as [`append`](Self::append) does, after its operations were carried out on what is found under
    /// the locks of their keys; gives the event as it was resolved. What is refused fails as `CommitFate::NeverApplied`.
    async fn append_resolved(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)>;

    /// Makes a session whose events hold operations.
    async fn create_resolved(&self, new: &PreparedSession, token: &str) -> Attempt<bool>;

    /// Changes state of a user or an app by operations.
    async fn put_resolved(&self, owner: &StateOwner, new: &PreparedState, author: &str, time: f64) -> Attempt<u64>;

    /// Makes a session with all it begins with. `false` where the id is taken, by the user or, as `id_scope` says, by any
    /// user of the app, which holds against other such creations at the same time; the token tells whether by a try before
    /// this one.
    async fn create_session(&self, new: &NewSession, token: &str) -> Attempt<bool>;

    /// Reads a session or a part of it.
    async fn session(
        &self,
        key: &SessionKey,
        events: EventQuery,
        state: &StateQuery,
        room: RowRoom,
    ) -> Attempt<Option<Session>>;

    /// Reads where the fold of a session's events begins.
    async fn initial_state(&self, key: &SessionKey) -> Attempt<Option<InitialState>>;

    /// Reads what the state of a session at one of its events is folded from, all in one snapshot. What cannot be known is
    /// refused by `check_event_number`, `log_pruned` and `no_session`.
    async fn past(&self, key: &SessionKey, seq: u64, scopes: PastScopes) -> Attempt<Past>;

    /// Keeps a fold, unless the session is another one by now; one that is there already stays.
    async fn keep_checkpoint(&self, key: &SessionKey, checkpoint: &Checkpoint) -> Attempt<()>;

    /// Reads who wrote each key of a session's merged state, by the key with its prefix.
    async fn blame(&self, key: &SessionKey) -> Attempt<Option<BTreeMap<String, KeyWriter>>>;

    /// Makes a session of another one of the same user, and gives it without its events. `None` where the id is taken;
    /// the token tells whether by a try before this one. What cannot be done is refused as by [`past`](Self::past).
    async fn fork_session(&self, new: &NewFork, token: &str) -> Attempt<Option<Session>>;

    /// Reads a page of sessions with their merged state.
    async fn list_sessions(&self, app_name: &str, query: &ListQuery, room: RowRoom) -> Attempt<ListSessionsResponse>;

    /// Finds users of an app who have a session with an id that has not expired, two of them at most.
    async fn users_with(&self, app_name: &str, session_id: &str) -> Attempt<Vec<String>>;

    /// Removes a session and what is its own.
    async fn delete_session(&self, key: &SessionKey) -> Attempt<()>;

    /// Sets when a session expires, in microseconds since 1970; `false` where there is none.
    async fn set_expiry(&self, key: &SessionKey, expires: Option<i64>) -> Attempt<bool>;

    /// Changes a session's title and labels; `false` where there is none.
    async fn update_session(&self, key: &SessionKey, update: &SessionUpdate) -> Attempt<bool>;

    /// Finds sessions that have expired, so many at most.
    async fn expired(&self, limit: usize) -> Attempt<Vec<SessionKey>>;

    /// Removes a session as [`delete_session`](Self::delete_session) does, if it has expired; `false` where it has not.
    async fn delete_expired(&self, key: &SessionKey) -> Attempt<bool>;

    /// Removes the oldest events of a session, those with a number below one, so many at most; says how many there were.
    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Attempt<u64>;

    /// Removes from an owner's log what was overwritten before a position, so many at most; says how many there were.
    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Attempt<u64>;

    /// Reads the state of a user or an app.
    async fn state(&self, owner: &StateOwner) -> Attempt<Map<String, Value>>;

    /// Changes state of a user or an app, at a time in seconds; gives the position of the commit in the owner's log.
    async fn put_state(
        &self,
        owner: &StateOwner,
        changes: &[TextChange],
        limits: &Limits,
        author: &str,
        time: f64,
    ) -> Attempt<u64>;

    /// Reads the log of a user's or an app's state; a page ends between two commits.
    async fn state_changes(
        &self,
        owner: &StateOwner,
        after: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>>;

    /// Reads a page of the state of a user or an app.
    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig, room: RowRoom) -> Attempt<StatePage>;

    /// Reads what was done to one key before a position, the latest first.
    async fn key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
        room: RowRoom,
    ) -> Attempt<Vec<StateChange>>;

    /// Lets removals of sessions and users go from before a time, in microseconds, this many at most; says how many went.
    async fn let_removals_go(&self, before: i64, limit: usize) -> Attempt<u64>;

    /// Reads a page of a feed.
    async fn feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize, room: RowRoom) -> Attempt<FeedPage>;

    /// Wakes those who wait for commits whenever another process may have committed. Comes back when nobody waits any
    /// more, and when it cannot go on; what it cannot hear of at once it looks for every second at most.
    async fn listen(&self, notifier: &CommitNotifier);

    /// Whether other processes may want to hear of commits. Asked after each of them, so it asks the database nothing.
    fn may_be_listened_to(&self) -> bool;

    /// Tells other processes, if any listens, whose it was that was committed.
    async fn announce(&self, whose: &[Whose]) -> Attempt<()>;

    /// Reads who there is after an owner, each app before its users, in byte order.
    async fn owners(&self, after: Option<&StateOwner>, limit: usize) -> Attempt<Vec<StateOwner>>;

    /// Writes a little and undoes it.
    async fn check_writable(&self) -> Attempt<()>;

    /// Removes a user from an app, and the user's name from the app's log.
    async fn delete_user(&self, app_name: &str, user_id: &str) -> Attempt<()>;

    /// Writes an artifact and gives its version.
    async fn save_artifact(&self, new: &NewArtifact) -> Attempt<u64>;

    /// Reads a version of an artifact, or the newest.
    async fn load_artifact(&self, address: &ArtifactAddress, version: Option<u64>) -> Attempt<Option<Part>>;

    /// The names that a session sees, in byte order.
    async fn list_artifacts(&self, key: &SessionKey) -> Attempt<Vec<String>>;

    /// The versions of a name, oldest first.
    async fn list_artifact_versions(&self, address: &ArtifactAddress) -> Attempt<Vec<ArtifactVersion>>;

    /// Removes all versions of a name.
    async fn delete_artifact(&self, address: &ArtifactAddress) -> Attempt<()>;

    /// Reads what an owner has stored, an app with all of its users: sessions that have expired count until they are
    /// removed.
    async fn usage(&self, owner: &StateOwner) -> Attempt<Usage>;

    /// Reads what a fork of a session up to one of its events, or to the last, would store.
    async fn fork_usage(&self, key: &SessionKey, at: Option<u64>) -> Attempt<Usage>;

    /// Whether a session has an event of this id.
    async fn has_event(&self, key: &SessionKey, id: &str) -> Attempt<bool>;

    /// Closes every connection.
    async fn close(&self);
}
