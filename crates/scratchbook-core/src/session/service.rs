//! The trait that every store implements, and its contract.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{
    AppendOptions, Capabilities, ChangeQuery, CommitNotices, Committed, CreateSessionConfig, EventHashes, FeedPage,
    FeedStart, ForkConfig, GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig,
    Prune, PutStateOptions, Session, SessionKey, SessionUpdate, StateBytes, StateChange, StateOwner, StatePage,
    forward_sessions,
};
use crate::error::{KeyWriter, Result};
use crate::event::Event;
use crate::state::{StateDelta, StateMap};

/// Stores sessions and the state of users and apps.
///
/// # Contract
///
/// A service keeps the promises below. The suite in `scratchbook::conformance` (feature `conformance`) tests them, one
/// function per promise.
///
/// - **Atomic**: a call either succeeds completely, or returns an error and changes nothing. A reader sees one
///   snapshot, and never a part of a commit. An acknowledged write is as durable as the store.
/// - **Ordered by the store**: each event gets the next number of its session, without gaps. Clocks affect only the
///   order of lists.
/// - **No lost updates**: concurrent appends all succeed, from any process; deltas merge key by key, and for each key
///   the later commit wins. Operations are applied one commit after the other, so that every operation counts.
///   Optimistic locking is available on request ([`AppendOptions::conflict`]).
/// - **Idempotent appends**: appending an event whose id and content are already in the session returns the stored
///   event and changes nothing; if the content differs, the call fails with `AlreadyExists`.
/// - **`temp:` keys are never stored**, neither in state nor in events.
/// - **Isolated**: all data is addressed by app, user and session, and no call reads or changes the data of another
///   address.
/// - **Cheap**: the cost of a call depends on the data it touches or returns, not on how much else is stored.
/// - **Dropping the future** of a write does not cancel the write or apply a part of it; its outcome is unknown, and a
///   retry with the same ids is safe.
///
/// A store in front of another service may support less: see its [`capabilities`](Self::capabilities).
///
/// Implementors write every method; no method has a default that fails. Layers forward methods with
/// [`forward_sessions!`]; stores refuse methods that they do not support with
/// [`unsupported_sessions!`](crate::unsupported_sessions). [`SessionServiceExt`](super::SessionServiceExt) adds
/// conveniences.
#[async_trait]
pub trait SessionService: fmt::Debug + Send + Sync + 'static {
    /// Returns what the service can do beyond keeping sessions, events and the state in them. The result never changes.
    ///
    /// A store refuses a call that needs a missing capability as `Unsupported`.
    fn capabilities(&self) -> Capabilities;

    /// Creates a session. Its state is split by prefix: `user:` and `app:` keys go to the user and the app.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the user has a session with this id, or, [if
    /// requested](CreateSessionConfig::with_id_unique_in_app), if any user of the app has one; nothing changes then.
    /// `PayloadTooLarge` if the state of the user and the app is larger than [`StateBytes::MAX`]; the message says
    /// whether the session was created.
    /// `InvalidArgument` for invalid ids, keys or values. `PayloadTooLarge` and `ResourceExhausted` if a
    /// [`Limits`](crate::plan::limits::Limits) value of the store is exceeded. Also the errors of appending the
    /// initial events, and of the [check](CreateSessionConfig::check).
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session>;

    /// Reads a session, or the requested part of it; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid configuration; `PayloadTooLarge` if the requested state is larger than
    /// [`StateBytes::MAX`]; `DataCorrupted` names a row that cannot be read.
    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>>;

    /// Returns the state from which the fold of a session's events starts: the state at creation, or the state after
    /// the last pruned event. It contains only the session's own keys. `None` if the session does not exist.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>>;

    /// Returns the point-in-time state: the merged state as of the commit of the event with this number, 0 for the
    /// session's creation. The session's keys come from its initial state and its events, the user's and the app's from
    /// their logs.
    ///
    /// # Errors
    ///
    /// `NotFound` if the session does not exist or has no event with that number yet; `FailedPrecondition` if the
    /// events up to that number, or the logs of that time, were pruned; `PayloadTooLarge` if the state was larger than
    /// [`StateBytes::MAX`]; `DataCorrupted` names a row that cannot be read.
    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap>;

    /// Returns the last writer of each key of a session's merged state, by the key with its prefix.
    ///
    /// # Errors
    ///
    /// `NotFound` if the session does not exist; `DataCorrupted` names a row that cannot be read.
    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>>;

    /// Forks a session: creates a session of the same user with a copy of this session's events up to a number, and
    /// with its own keys as of that event. The copy is made inside the store. Title, labels, and the artifacts with all
    /// their versions are copied as they are now. Events keep their ids, numbers and times. Returns the new session
    /// without its events.
    ///
    /// # Errors
    ///
    /// `NotFound` if the session or the event does not exist; `AlreadyExists` if the new id is taken;
    /// `FailedPrecondition` if events up to that number were pruned; `PayloadTooLarge` if the state is larger than
    /// [`StateBytes::MAX`]; `InvalidArgument` for an invalid id.
    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session>;

    /// Lists sessions of an app in pages, with merged state and without events; by default the least recently updated
    /// come first.
    ///
    /// A session that is updated while its list is paged may be missed or returned twice. A search by title or labels
    /// examines at most 1,000 sessions per page, however few of them match: continue until there is no token.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a page size of 0 or above 1,000, an invalid token, or a title or labels that no session
    /// can have; `PayloadTooLarge` for a session whose merged state is larger than [`StateBytes::MAX`].
    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse>;

    /// Finds the session with this id among all users of an app; `None` if there is none.
    ///
    /// This serves clients that address a session by app and id alone. The id is trimmed as at creation. An expired
    /// session is not found. It costs one index lookup, however many sessions and users there are.
    ///
    /// It searches the sessions of all users, so the calling program has to check whether its client may see the
    /// result.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if several users have a session with this id. Then address the session with its user.
    /// Ids are unique in an app only if its sessions are [created with unique
    /// ids](CreateSessionConfig::with_id_unique_in_app). `InvalidArgument` for ids that no session can have.
    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>>;

    /// Deletes a session with its events and its own state. The user's and the app's state stay. Does nothing if the
    /// session does not exist.
    ///
    /// # Errors
    ///
    /// Only the errors that any call of the store can return.
    async fn delete_session(&self, key: &SessionKey) -> Result<()>;

    /// Appends an event. One commit contains the event, its number, its changes in all scopes, the update time and, if
    /// there is one, the [update of the session](AppendOptions::update).
    ///
    /// A partial event is returned unchanged and not stored. If an event has no id or no timestamp, this call sets it.
    ///
    /// The operations in its delta are applied to the values found in the commit; the event that is stored and
    /// returned contains their results, as values and removals. Before that, changes of `temp:` keys are dropped,
    /// including operations and guards on such keys. A retry is recognized by the event as it was sent. It is answered
    /// before guards, conflicts and checks are evaluated, and its operations are not applied again.
    ///
    /// # Errors
    ///
    /// - `NotFound` if the session does not exist;
    /// - `AlreadyExists` if another event of the session has this id;
    /// - `Conflict` for a failed guard or a conflict under [`AppendOptions::conflict`], with the keys in
    ///   [`Error::conflicts`](crate::error::Error::conflicts);
    /// - `FailedPrecondition` for an operation that does not fit the stored value or overflows 64 bits;
    /// - `InvalidArgument` for invalid ids, keys, values or timestamps, and for an update that the session cannot have;
    /// - `PayloadTooLarge` and `ResourceExhausted` if a [`Limits`](crate::plan::limits::Limits) value of the store is
    ///   exceeded; `ResourceExhausted` also if the store's queue stays full;
    /// - the errors of the [check](AppendOptions::check).
    ///
    /// After an error nothing is changed.
    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed>;

    /// Returns the state of a user or an app; names are without prefix, in byte order.
    ///
    /// # Errors
    ///
    /// `PayloadTooLarge` if the state is larger than [`StateBytes::MAX`]; `DataCorrupted` names a row that cannot be
    /// read.
    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>>;

    /// Returns the size of the state of a user and its app, or of an app alone, and of a session of that user. The
    /// values are not read where the store knows their lengths. What does not exist has no bytes.
    ///
    /// # Errors
    ///
    /// Only the errors that any call of the store can return.
    async fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> Result<StateBytes>;

    /// Returns a page of the state of a user or an app. The cost depends on the page, not on the whole state. A page is
    /// limited by bytes and by number of keys.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a page size of 0 or above 1,000; `DataCorrupted` names a row that cannot be read.
    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage>;

    /// Changes the state of a user or an app outside of any session. The change is logged with its author in the same
    /// commit. Returns the position of that commit in the owner's log. Names are without prefix. Operations and guards
    /// work as in [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// - `Conflict` and `FailedPrecondition` for guards and operations, as in [`append`](Self::append);
    /// - `PayloadTooLarge` and `ResourceExhausted` if a [`Limits`](crate::plan::limits::Limits) value of the store is
    ///   exceeded;
    /// - the errors of the [check](PutStateOptions::check);
    /// - `InvalidArgument` for invalid names or values;
    /// - `Unavailable` if the connection to a server was lost and it is unknown whether the state was changed. A retry
    ///   adds a second entry to the log, and applies operations such as an increment a second time.
    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64>;

    /// Returns changes in the log of a user's or an app's state: all changes after a position, or the changes to one
    /// key. The state is the fold of this log.
    ///
    /// A page has about `limit` changes, and fewer if they exceed 16 MiB; it is empty only at the end of the log.
    ///
    /// # Errors
    ///
    /// The errors of [`get_state_at`](Self::get_state_at) for an event that the query names, and of
    /// [`ChangeQuery::check`]; `DataCorrupted` names a row that cannot be read.
    async fn list_state_changes(
        &self,
        owner: &StateOwner,
        query: &ChangeQuery,
        limit: usize,
    ) -> Result<Vec<StateChange>>;

    /// Returns a page of the change feed of an app or of one of its users: events of their sessions, and key changes
    /// made outside of events.
    ///
    /// A page has about `limit` entries, and fewer if they exceed 16 MiB. Entries of the same session, user or app come
    /// in the order of their commits. Nothing is missed and nothing is repeated, even during concurrent writes. Entries
    /// that were deleted or pruned in the meantime are not included.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid cursor, or one of another database or feed; `DataCorrupted` names a row that
    /// cannot be read.
    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage>;

    /// Subscribes to notices of commits by any process. A notice arrives within about a second of its commit, usually
    /// at once.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if the store is closed.
    fn commits(&self) -> Result<CommitNotices>;

    /// Changes a session's title, labels and expiry, in one commit. They are not part of the state: no event is
    /// appended, and the session's number and update time do not change. An expired session behaves as if it were
    /// deleted.
    ///
    /// # Errors
    ///
    /// `NotFound` if the session does not exist; `InvalidArgument` for a title or labels that no session can have, and
    /// for an invalid time.
    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()>;

    /// Removes old data: expired sessions, a session's oldest events, or overwritten values in a log of state. Removes
    /// at most `limit` of them and returns how many. If it returns `limit`, there may be more.
    ///
    /// # Errors
    ///
    /// Only the errors that any call of the store can return.
    async fn prune(&self, what: Prune, limit: usize) -> Result<u64>;

    /// Returns the hashes of at most `limit` of a session's events after the number `after`; `None` if the session does
    /// not exist. A seal keeps the hash of each event's text as it is stored, by which changed events are found later.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn list_event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Result<Option<EventHashes>>;

    /// Lists at most `limit` owners of data, after the owner `after` or from the beginning: each app, followed by each
    /// of its users, in byte order. An owner is listed if it has a session, an artifact, or state with its log. An
    /// owner whose data was all deleted may still be listed.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>>;

    /// Erases a user of an app completely: sessions, events, state, log and artifacts, in one commit. Does nothing if
    /// the user has no data. The app's own state and its log stay, without the user's name in them.
    ///
    /// # Errors
    ///
    /// Only the errors that any call of the store can return.
    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()>;

    /// Checks whether the store accepts writes, by committing one of 64 KiB: always to the same row, which no other
    /// method returns. Frequent callers should cache the result for some seconds. Returns what does not work although
    /// the store answers, in sentences for people: for example connections that cannot be made. They do not show where
    /// the store is.
    ///
    /// # Errors
    ///
    /// The errors of a failed write.
    async fn check_writable(&self) -> Result<Vec<String>>;

    /// Finishes the accepted calls, then refuses every later call with `FailedPrecondition`. Methods that the store
    /// does not support may still fail with `Unsupported`. Closing twice is allowed.
    ///
    /// # Errors
    ///
    /// Only the errors that any call of the store can return.
    async fn close(&self) -> Result<()>;
}

impl<S: SessionService + ?Sized> SessionService for Arc<S> {
    forward_sessions!(**self =>
        capabilities, create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_state,
        list_feed, commits, update_session, prune, list_sessions, locate_session, delete_session, append,
        get_state, state_bytes, put_state, list_state_changes, list_event_hashes, list_owners,
        delete_user, check_writable, close);
}
