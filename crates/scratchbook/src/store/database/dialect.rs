//! What a database has to carry out.

use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{Attempt, DatabaseOptions, DatabaseUri};
use crate::artifact::ArtifactVersion;
use crate::content::Part;
use crate::error::Result;
use crate::event::Event;
use crate::session::{AppendOptions, ListSessionsResponse, LogPositions, Session, SessionKey, StateChange, StateOwner};
use crate::store::artifact::{ArtifactAddress, NewArtifact};
use crate::store::commit::{KeyChange, Prepared, PreparedSession};
use crate::store::migrate::{Migration, MigrationRun};
use crate::store::query::{EventQuery, ListQuery, StateQuery};
use crate::store::text::{NewEvent, NewSession, TextChange};

/// An event and the session that it is for.
#[derive(Debug)]
pub struct NewAppend {
    pub(crate) key: SessionKey,
    pub(crate) event: NewEvent,
}

/// An event that depends on what is stored.
#[derive(Debug)]
pub struct Unresolved {
    pub(crate) key: SessionKey,
    pub(crate) prepared: Prepared,
    pub(crate) options: AppendOptions,
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
    Known {
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
}

/// A database: statements, connections, and what its errors mean.
///
/// Every method is one commit or one snapshot, gives up a statement after the statement timeout, waits no longer for a
/// lock than [`LOCK_TIMEOUT`](super::LOCK_TIMEOUT), and says in its failure what is known of what was done. The methods
/// are called again after a failure, possibly one that had been done.
#[async_trait]
pub trait Dialect: fmt::Debug + Sized + Send + Sync + 'static {
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
    /// the locks of their keys; gives the event as it was resolved. What is refused fails as `Done::Refused`.
    async fn append_resolved(&self, new: &Unresolved) -> Attempt<(AppendRow, Event)>;

    /// Makes a session whose events hold operations.
    async fn create_resolved(&self, new: &PreparedSession, token: &str) -> Attempt<bool>;

    /// Changes state of a user or an app by operations.
    async fn put_resolved(&self, owner: &StateOwner, changes: &[KeyChange], author: &str, time: f64) -> Attempt<u64>;

    /// Makes a session with all it begins with. `false` where the id is taken; the token tells whether by a try before
    /// this one.
    async fn create_session(&self, new: &NewSession, token: &str) -> Attempt<bool>;

    /// Reads a session or a part of it.
    async fn session(&self, key: &SessionKey, events: EventQuery, state: &StateQuery) -> Attempt<Option<Session>>;

    /// Reads the state that a session was made with.
    async fn initial_state(&self, key: &SessionKey) -> Attempt<Option<Map<String, Value>>>;

    /// Reads a page of sessions with their merged state.
    async fn list_sessions(&self, app_name: &str, query: &ListQuery) -> Attempt<ListSessionsResponse>;

    /// Removes a session and what is its own.
    async fn delete_session(&self, key: &SessionKey) -> Attempt<()>;

    /// Reads the state of a user or an app.
    async fn state(&self, owner: &StateOwner) -> Attempt<Map<String, Value>>;

    /// Changes state of a user or an app, at a time in seconds; gives the position of the commit in the owner's log.
    async fn put_state(&self, owner: &StateOwner, changes: &[TextChange], author: &str, time: f64) -> Attempt<u64>;

    /// Reads the log of a user's or an app's state; a page ends between two commits.
    async fn state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Attempt<Vec<StateChange>>;

    /// Reads who there is after an owner, each app before its users, in byte order.
    async fn owners(&self, after: Option<&StateOwner>, limit: usize) -> Attempt<Vec<StateOwner>>;

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

    /// Closes every connection.
    async fn close(&self);
}
