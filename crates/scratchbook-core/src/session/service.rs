//! The trait every store implements, with its contract.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{
    AppendOptions, CommitNotices, Committed, CreateSessionConfig, Expiry, FeedPage, FeedStart, ForkConfig,
    GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, PutStateOptions,
    Session, SessionKey, SessionUpdate, StateChange, StateOwner, StatePage,
};
use crate::error::{KeyWriter, Result};
use crate::event::Event;
use crate::state::{StateDelta, StateMap};

/// Keeps sessions and the state of users and apps.
///
/// # Contract
///
/// A service keeps the promises below; the suite in `scratchbook::conformance` (feature `conformance`) holds
/// it to them, one function per promise.
///
/// - **Atomic**: a call does all it says or, with an error, nothing. Readers see one snapshot, never half of
///   a commit. What is acknowledged is as durable as the store is.
/// - **Ordered by the store**: each event gets the next number of its session, without gaps. No clock orders
///   anything but lists.
/// - **Nothing lost**: concurrent appends, from wherever, all succeed; deltas merge key by key and the later
///   commit wins a key. Operations are carried out one commit after the other, so that each counts. Whoever wants to be
///   refused for being late, asks for it.
/// - **Retries are safe**: an event whose id is in the session with the same content is answered as stored
///   and changes nothing; with other content it is `AlreadyExists`.
/// - **`temp:` leaves no trace**: no such key is stored, in state or in events.
/// - **Apart**: everything is addressed by app, user and session; nothing leaks from one to another.
/// - **Cheap**: a call costs what it touches or returns, whatever else there is.
/// - **Dropping a future** of a write neither cancels nor halves it; the outcome is unknown, and a retry with
///   the same ids is safe.
///
/// Implementors write every method; nothing has a default that fails. Conveniences are in
/// [`SessionServiceExt`](super::SessionServiceExt).
#[async_trait]
pub trait SessionService: fmt::Debug + Send + Sync + 'static {
    /// Makes a session. State is split by prefix: `user:` and `app:` keys go to the user and the app.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` where the id is taken, by the same user or, [where that was asked
    /// for](CreateSessionConfig::with_id_unique_in_app), by any user of the app, which changes nothing; `InvalidArgument` for bad ids, keys or
    /// values; `PayloadTooLarge` and `ResourceExhausted` for what is beyond the store's [`Limits`](crate::plan::limits::Limits); and what its events and its
    /// [check](CreateSessionConfig::check) are refused for.
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session>;

    /// Reads a session, or the part of it that was asked for; `None` where there is none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a configuration that means nothing; `PayloadTooLarge` for a state of more than 64 MiB if the
    /// read [is bounded](GetSessionConfig::with_page_bytes); `DataCorrupted` names a row that cannot be read.
    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>>;

    /// The state where the fold of a session's events begins, its own keys alone: what it was made with, or what was
    /// left by the events that were pruned. `None` where there is no such session.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>>;

    /// The merged state as it stood when the event with this number had just been committed, 0 for the session's
    /// creation: the session's keys from its initial state and its events, the user's and the app's from their logs.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such session or no event with that number yet; `FailedPrecondition` where the
    /// events up to there, or the logs of that time, were pruned; `DataCorrupted` names a row that cannot be read.
    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap>;

    /// Who wrote each key of a session's merged state, by the key with its prefix.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such session; `DataCorrupted` names a row that cannot be read.
    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>>;

    /// Makes a new session of the same user with the events of this one up to a number and the state as it stood then,
    /// copied inside the store; title and labels, and the artifacts with all their versions, come along as they are now. The new session's
    /// events keep their ids, numbers and times. Given back is the new session without its events.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such session or event; `AlreadyExists` where the new id is taken;
    /// `FailedPrecondition` where events up to there were pruned; `InvalidArgument` for a bad id.
    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session>;

    /// Lists sessions of an app, by default the one updated longest ago first, in pages; state merged, no events.
    ///
    /// A session updated while its list is paged may be missed or seen twice. Where sessions are looked for by title or
    /// labels, a page looks at 1,000 sessions at most, however few of them are found: go on until there is no token.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a page size of 0 or above 1,000, a token that is none, and a title or labels that no session
    /// could have; `PayloadTooLarge` for a session whose merged state has more than 64 MiB.
    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse>;

    /// Finds the session of an app that has an id, whoever of its users has it; `None` where none has it.
    ///
    /// For what names a session by app and id alone. The id is trimmed as at creation. A session that has expired is not
    /// there. It costs one look into an index, however many sessions and users there are.
    ///
    /// Whether a caller may know of what is found is for who asks: this looks at the sessions of all users.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where several users have a session with this id, which then has to be addressed in full: ids
    /// are unique in an app only as far as its sessions [are made so](CreateSessionConfig::with_id_unique_in_app).
    /// `InvalidArgument` for ids that no session could have.
    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>>;

    /// Deletes a session with its events and its own state. The user's and the app's state stay.
    /// Silent where there is no such session.
    ///
    /// # Errors
    ///
    /// None of its own.
    async fn delete_session(&self, key: &SessionKey) -> Result<()>;

    /// Appends an event: it, its changes in all scopes, the update time and the number, in one commit.
    ///
    /// A partial event is given back as it came. An event without id or timestamp gets them here.
    ///
    /// Operations in its delta are carried out on what is found in the commit; the event that is stored and given back
    /// has what they came to, as values and removals. `temp:` keys are dropped first, with operations and guards on them.
    /// A retry is known by the event as it was sent, and answered before anything is checked: its operations are not
    /// carried out again.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such session; `AlreadyExists` for an id in use with other content; `Conflict` for a
    /// guard that does not hold and for what [`AppendOptions::conflict`] refuses, with the keys in
    /// [`Error::conflicts`](crate::error::Error::conflicts); `FailedPrecondition` for an operation that is not for the value
    /// found, or would leave 64 bits; `InvalidArgument` for bad ids, keys, values or timestamps; `ResourceExhausted` where the store's queue
    /// stays full; `PayloadTooLarge` and `ResourceExhausted` for what is beyond its [`Limits`](crate::plan::limits::Limits); and what its [check](AppendOptions::check)
    /// gives. After an error nothing has changed.
    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed>;

    /// The state of a user or an app; names without prefix, in byte order.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>>;

    /// A page of the state of a user or an app. Its cost depends on the page, not on the state. It ends by its bytes as well
    /// as by its number of keys.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a page size of 0 or above 1,000; `DataCorrupted` names a row that cannot be read.
    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage>;

    /// Changes state of a user or an app outside of any session, logged with its author in one commit, and gives
    /// the position of that commit in the owner's log. Names are without prefix. Operations and guards are carried out as
    /// in an [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// `Conflict` and `FailedPrecondition` for guards and operations, as [`append`](Self::append);
    /// `PayloadTooLarge` and `ResourceExhausted` for what is beyond the store's [`Limits`](crate::plan::limits::Limits); what its
    /// [check](PutStateOptions::check) gives; `InvalidArgument` for bad names or values; `Unavailable` where the connection to a server was lost and it is not
    /// known whether the state was changed: doing it again gives the same state and a second entry in the log.
    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64>;

    /// The log of a user's or an app's state above a position, in order, about `limit` changes: a page holds
    /// commits whole, so that going on after the last position seen gives every change once. A page that would have more
    /// than 16 MiB has fewer changes; only at the end of the log it has none. The state is the fold of this log.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>>;

    /// What was done to one key of a user or an app before a position in the log, the latest first, at most `limit`
    /// changes, and fewer if they have more than 16 MiB; `u64::MAX` for all that was done until now. The name is without
    /// prefix.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>>;

    /// A page of the feed of an app, or of a user of it: events of their sessions, and keys changed outside of events.
    ///
    /// A page has about `limit` entries, and fewer if they have more than 16 MiB. What was committed before an entry, and
    /// belongs to the same session, user or app, comes before it; nothing is left out and nothing comes twice, whoever
    /// writes meanwhile. What was deleted or pruned since is not in it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another database or feed, or none at all; `DataCorrupted` names a row that
    /// cannot be read.
    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage>;

    /// Hears of commits, by whomever: within about a second of each, mostly at once.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` where the store is closed.
    fn commits(&self) -> Result<CommitNotices>;

    /// Sets when a session expires, or that it does not. An expired session is as if it had been deleted.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such session; `InvalidArgument` for what is no time in seconds.
    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()>;

    /// Changes a session's title and labels. They are no state: it is no event, and the session's number and update time
    /// stay as they are.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is no such session; `InvalidArgument` for a title or labels that no session can have.
    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()>;

    /// Deletes expired sessions for good, at most `limit` of them, in any order; says how many. Where it is `limit`, there may be
    /// more.
    ///
    /// # Errors
    ///
    /// None of its own.
    async fn delete_expired(&self, limit: usize) -> Result<u64>;

    /// Removes the oldest events of a session, those with a number below `before`, at most `limit` of them, in one
    /// commit; the state they leave becomes its initial state. Says how many were removed: fewer than `limit` when it
    /// is done. The state shown, and the numbers of later events, stay as they are. Silent where there is no such
    /// session.
    ///
    /// What is removed is not known any more: an append that is tried again after its event was pruned is a new event.
    ///
    /// # Errors
    ///
    /// None of its own.
    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64>;

    /// Removes from the log of a user's or an app's state what was overwritten before a position, at most `limit`
    /// changes; the last change of each key before it stays, so that the state is still the fold of the log. Says how
    /// many were removed: fewer than `limit` when it is done.
    ///
    /// # Errors
    ///
    /// None of its own.
    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64>;

    /// Lists whatever there is: each app, followed by each of its users, in byte order; at most `limit` of them, after
    /// an owner, or from the beginning. Listed is who has a session, state with its log, or an artifact; one of whom
    /// all of it was deleted may be.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names a row that cannot be read.
    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>>;

    /// Erases a user of an app wholly: sessions, events, state, log and artifacts, in one commit.
    /// Silent where there is nothing. The app's own state and its log stay, without the user's name in them.
    ///
    /// # Errors
    ///
    /// None of its own.
    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()>;

    /// Finds out whether writes would be carried out, by one of which nothing is kept. It takes as long as a small write: who
    /// asks often should keep the answer for a moment.
    ///
    /// # Errors
    ///
    /// Those of a write that fails, whatever it writes.
    async fn check_writable(&self) -> Result<()>;

    /// Finishes what was accepted, then refuses every later call with `FailedPrecondition`. Closing twice is
    /// fine.
    ///
    /// # Errors
    ///
    /// None of its own.
    async fn close(&self) -> Result<()>;
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService + ?Sized> SessionService for Arc<S> {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        (**self).create_session(app_name, user_id, config).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        (**self).get_session(key, config).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        (**self).get_initial_state(key).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        (**self).get_state_at(key, seq).await
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        (**self).blame(key).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        (**self).fork_session(key, config).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        (**self).list_state(owner, config).await
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        (**self).list_key_changes(owner, name, before, limit).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        (**self).list_feed(owner, start, limit).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        (**self).commits()
    }

    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        (**self).set_expiry(key, expiry).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        (**self).update_session(key, update).await
    }

    async fn delete_expired(&self, limit: usize) -> Result<u64> {
        (**self).delete_expired(limit).await
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        (**self).prune_events(key, before, limit).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        (**self).prune_state_log(owner, before, limit).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        (**self).list_sessions(app_name, config).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        (**self).locate_session(app_name, session_id).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        (**self).delete_session(key).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        (**self).append(key, event, options).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        (**self).get_state(owner).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        (**self).put_state(owner, delta, options).await
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        (**self).list_state_changes(owner, after, limit).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        (**self).list_owners(after, limit).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        (**self).delete_user(app_name, user_id).await
    }

    async fn check_writable(&self) -> Result<()> {
        (**self).check_writable().await
    }

    async fn close(&self) -> Result<()> {
        (**self).close().await
    }
}
