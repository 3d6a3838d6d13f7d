//! Conveniences that every store has.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::history::{self, KeyWrite, StateDiff};
use super::verify::{self, Verified};
use super::watch::{self, Watch, Watched};
use super::{
    AppendOptions, ConflictMode, Expiry, FeedPage, FeedStart, GetSessionConfig, Outcome, Session, SessionKey,
    SessionService, SessionUpdate, StateOwner, retry,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::state::{Scope, StateDelta};

/// Conveniences for every [`SessionService`].
#[async_trait]
pub trait SessionServiceExt: SessionService {
    /// Appends an event to a session and advances the caller's snapshot: the snapshot gains this event with its number,
    /// its changes and its `temp:` keys. Commits of other writers are not fetched.
    ///
    /// A partial event is returned and changes nothing. After an error the snapshot is unchanged.
    ///
    /// ```
    /// # use scratchbook::prelude::*;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let service = InMemorySessionService::new();
    /// let config = CreateSessionConfig::default().with_state(json!({"user:login_count": 0}));
    /// let mut session = service.create_session("app", "user2", config).await?;
    ///
    /// let delta = StateDelta::new().with_increment("user:login_count", 1)?.with("temp:validation_needed", true)?;
    /// service.append_event(&mut session, Event::new("system").with_state_delta(delta)).await?;
    ///
    /// let stored = service.get_session(session.key(), &GetSessionConfig::default()).await?.unwrap();
    /// assert_eq!(stored.state().get("user:login_count"), Some(&json!(1)));
    /// assert_eq!(stored.state().get("temp:validation_needed"), None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SessionService::append`].
    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Arc<Event>> {
        append_to(self, session, event, AppendOptions::default()).await
    }

    /// Like [`append_event`](Self::append_event), with optimistic locking per key or per session.
    ///
    /// ```
    /// # use scratchbook::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let service = InMemorySessionService::new();
    /// let mut mine = service.create_session("app", "alice", Default::default()).await?;
    /// let mut theirs = mine.clone();
    /// let step = |n| Ok::<_, Error>(Event::new("agent").with_state_delta(StateDelta::new().with("step", n)?));
    /// service.append_event(&mut theirs, step(1)?).await?;
    ///
    /// let error = service.append_event_with(&mut mine, step(2)?, ConflictMode::ByKey).await.unwrap_err();
    /// let conflict = &error.conflicts()[0];
    /// assert_eq!((conflict.key.as_str(), &conflict.read, &conflict.found), ("step", &None, &Some(1.into())));
    /// service.refresh(&mut mine).await?;
    /// service.append_event_with(&mut mine, step(2)?, ConflictMode::ByKey).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SessionService::append`]; a `Conflict` reports, for each key, the value in this snapshot and the stored
    /// value.
    async fn append_event_with(
        &self,
        session: &mut Session,
        event: Event,
        conflict: ConflictMode,
    ) -> Result<Arc<Event>> {
        let options = AppendOptions { conflict, seen: session.seen().clone(), ..AppendOptions::default() };
        append_to(self, session, event, options).await
    }

    /// Appends the event that a function builds from the session, with optimistic locking per key. After a conflict
    /// this method waits for a moment, refreshes the session and calls the function again, about twenty times at most.
    ///
    /// Use it for changes that no operation can express. It needs a Tokio runtime with a timer, such as that of
    /// `#[tokio::main]`.
    ///
    /// ```
    /// # use scratchbook::prelude::*;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let service = InMemorySessionService::new();
    /// let config = CreateSessionConfig::default().with_state(json!({"user:credit": 10}));
    /// let mut session = service.create_session("app", "alice", config).await?;
    /// let event = service.append_retrying(&mut session, |session| {
    ///     let credit = session.state().get_as::<u64>("user:credit")?.unwrap_or(0);
    ///     let left = credit.checked_sub(7).ok_or_else(|| Error::new(ErrorKind::FailedPrecondition, "no credit"))?;
    ///     Ok(Event::new("shop").with_state_delta(StateDelta::new().with("user:credit", left)?))
    /// });
    /// assert_eq!(event.await?.seq, Some(1));
    /// assert_eq!(session.state().get("user:credit"), Some(&json!(3)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of the function, of [`append_event_with`](Self::append_event_with) and of [`refresh`](Self::refresh);
    /// `Conflict` if every attempt lost against another writer.
    async fn append_retrying<F>(&self, session: &mut Session, mut make: F) -> Result<Arc<Event>>
    where
        F: FnMut(&Session) -> Result<Event> + Send,
    {
        for pause in retry::pauses() {
            let event = make(session)?;
            match self.append_event_with(session, event, ConflictMode::ByKey).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                done => return done,
            }
            tokio::time::sleep(pause).await;
            self.refresh(session).await?;
        }
        let event = make(session)?;
        self.append_event_with(session, event, ConflictMode::ByKey).await
    }

    /// Brings a snapshot up to date: reads the state and the events after those already seen. `temp:` keys are removed.
    ///
    /// # Errors
    ///
    /// `NotFound` if the session was deleted meanwhile.
    async fn refresh(&self, session: &mut Session) -> Result<()> {
        // Reads from the last seen event on, inclusive: that event shows whether this is still the same session.
        let from = session.last_seen().and_then(|event| event.seq).map_or(session.seq(), |seq| seq - 1);
        let config = GetSessionConfig::default().with_events_after(from, usize::MAX);
        let fresh = self.get_session(session.key(), &config).await?.ok_or_else(|| no_session(session.key()))?;
        if session.continue_with(fresh) {
            return Ok(());
        }
        let whole = self.get_session(session.key(), &GetSessionConfig::default()).await?;
        *session = whole.ok_or_else(|| no_session(session.key()))?;
        Ok(())
    }

    /// Returns what changed in a session's merged state between two of its events, in either direction.
    ///
    /// ```
    /// # use scratchbook::prelude::*;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let service = InMemorySessionService::new();
    /// let config = CreateSessionConfig::default().with_state(json!({"step": 1, "draft": true}));
    /// let mut session = service.create_session("app", "alice", config).await?;
    /// let mut delta = StateDelta::new().with("step", 2)?.with("user:name", "Alice")?;
    /// delta.remove("draft")?;
    /// service.append_event(&mut session, Event::new("agent").with_state_delta(delta)).await?;
    ///
    /// let diff = service.diff(session.key(), 0, 1).await?;
    /// assert_eq!(json!(diff), json!({
    ///     "draft": {"before": true},
    ///     "step": {"before": 1, "after": 2},
    ///     "user:name": {"after": "Alice"},
    /// }));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SessionService::get_state_at`].
    async fn diff(&self, key: &SessionKey, before: u64, after: u64) -> Result<StateDiff> {
        let (old, new) = (self.get_state_at(key, before).await?, self.get_state_at(key, after).await?);
        Ok(StateDiff::of(&old, &new))
    }

    /// Returns at most `limit` writes to a key, given with its prefix, and their writers, the latest first. A session's
    /// key is written by the session's creation and events. A user's or an app's key can be written from any session,
    /// and outside of sessions by [`put_state`](SessionService::put_state).
    ///
    /// The history of a session's key is read from its events, backwards from the session's last event: the further
    /// apart the writes, the longer it takes. Writes before a prune point are gone; the value that the key had there is
    /// returned as the oldest write. Fewer than `limit` writes are returned if they exceed 16 MiB.
    ///
    /// # Errors
    ///
    /// `NotFound` if the session does not exist; `InvalidArgument` for a `temp:` key, which has no history.
    async fn history(&self, key: &SessionKey, name: &str, limit: usize) -> Result<Vec<KeyWrite>> {
        history::of_key(self, key, name, None, limit).await
    }

    /// Returns the writes to a key as [`history`](Self::history) does, up to the commit of the event with this number,
    /// 0 for the session's creation: the first of them made the value that
    /// [`get_state_at`](SessionService::get_state_at) returns. Writes of other sessions and programs are included if
    /// they were committed before that event.
    ///
    /// # Errors
    ///
    /// As [`history`](Self::history), and as [`get_state_at`](SessionService::get_state_at) for the event.
    async fn history_at(&self, key: &SessionKey, name: &str, seq: u64, limit: usize) -> Result<Vec<KeyWrite>> {
        history::of_key(self, key, name, Some(seq), limit).await
    }

    /// Computes a session's state again from its initial state and its events and compares it with what the store
    /// reports: keys, values, their writers, the numbers of the events, and the states that the store keeps of earlier
    /// events. `None` if the session does not exist.
    ///
    /// It finds an event that is missing, and one whose delta does not fit the state. It does not find a change by hand
    /// that leaves both as they were, such as another text.
    ///
    /// Writes during the verification are not compared: the session is verified as it was at the start.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names the first difference, or the row that cannot be read.
    async fn verify_session(&self, key: &SessionKey) -> Result<Option<Verified>> {
        verify::session(self, key).await
    }

    /// Computes a user's or an app's state again from its log and compares it with what the store reports. It also
    /// compares each change made by an event with that event, if the event still exists.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` names the first difference, or the row that cannot be read.
    async fn verify_state(&self, owner: &StateOwner) -> Result<Verified> {
        verify::state(self, owner).await
    }

    /// Follows the commits to a session, or to all sessions and keys of a user or an app: from now on, from the
    /// beginning, or after a saved cursor. Nothing is missed and nothing is repeated, whichever process writes and
    /// however slow the reader is; writers never wait for the reader.
    ///
    /// ```
    /// # use scratchbook::prelude::*;
    /// # use scratchbook::session::{FeedCursor, Watched};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let service = InMemorySessionService::new();
    /// let session = service.create_session("shop", "alice", Default::default()).await?;
    /// let mut watch = service.watch(Watched::user("shop", "alice")?.with_key_prefix("cart"), FeedStart::Now).await?;
    ///
    /// let delta = StateDelta::new().with("cart", json!(["milk"]))?;
    /// service.append(session.key(), Event::new("agent").with_state_delta(delta), Default::default()).await?;
    /// let entry = watch.next().await?;
    /// assert_eq!(entry.keys(), ["cart"]);
    ///
    /// // Stored somewhere, and resumed from later, perhaps by another process.
    /// let kept = entry.cursor.as_str().to_owned();
    /// let start = FeedStart::After(FeedCursor::new(kept));
    /// let mut watch = service.watch(Watched::user("shop", "alice")?, start).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another feed or database; `NotFound` if the session does not exist.
    async fn watch<'a>(&'a self, what: Watched, start: FeedStart) -> Result<Watch<&'a Self>> {
        Watch::start(self, what, start).await
    }

    /// Returns a page of the entries that [`watch`](Self::watch) would return, without waiting: it reads about `limit`
    /// entries and returns those that match. A page without entries is the end of the feed only if its cursor equals
    /// the one passed in.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch); `FailedPrecondition` if events after the cursor were pruned from the session.
    async fn list_watched(&self, what: &Watched, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        watch::list(self, what, start, limit).await
    }

    /// Sets when a session expires, or that it never does. An expired session behaves as if it were deleted.
    ///
    /// # Errors
    ///
    /// As [`SessionService::update_session`].
    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        self.update_session(key, SessionUpdate::default().with_expiry(expiry)).await
    }

    /// Returns the state of a user; names are without `user:`.
    ///
    /// # Errors
    ///
    /// As [`SessionService::get_state`].
    async fn get_user_state(&self, app_name: &str, user_id: &str) -> Result<Map<String, Value>> {
        self.get_state(&StateOwner::user(app_name, user_id)?).await
    }

    /// Returns the state of an app; names are without `app:`.
    ///
    /// # Errors
    ///
    /// As [`SessionService::get_state`].
    async fn get_app_state(&self, app_name: &str) -> Result<Map<String, Value>> {
        self.get_state(&StateOwner::app(app_name)?).await
    }
}

impl<S: SessionService + ?Sized> SessionServiceExt for S {}

async fn append_to<S: SessionService + ?Sized>(
    service: &S,
    session: &mut Session,
    event: Event,
    options: AppendOptions,
) -> Result<Arc<Event>> {
    let temp = temp_changes(&event, session)?;
    let appended = service.append(session.key(), event, options).await;
    let committed = appended.map_err(|e| e.with_read(|key| session.state().get(key).cloned()))?;
    if committed.outcome != Outcome::Partial {
        session.apply(&committed, &temp);
    }
    Ok(committed.event)
}

/// Returns the `temp:` changes of an event, with operations applied to the caller's snapshot. These changes stay in the
/// snapshot and are never sent to a store.
#[doc(hidden)]
pub fn temp_changes(event: &Event, session: &Session) -> Result<StateDelta> {
    let is_temp = |key: &str| Scope::split(key).0 == Scope::Temp;
    // Most events have no such change, and nothing is copied.
    if !event.actions.state_delta.iter().any(|(key, _)| is_temp(key)) {
        return Ok(StateDelta::new());
    }
    let mut temp = event.actions.state_delta.clone();
    temp.retain(is_temp);
    if temp.has_operations() { temp.resolve(|key| session.state().get(key)) } else { Ok(temp) }
}

/// Refuses the number of an event that does not exist yet or was pruned: `last` is the number of the last event, and
/// the fold starts after the event `base`.
///
/// # Errors
///
/// `NotFound` or `FailedPrecondition`.
pub fn check_event_number(key: &SessionKey, seq: u64, base: u64, last: u64) -> Result<()> {
    if seq > last {
        return Err(Error::not_found(format!(
            "the session {key} has no event {seq}; its last one has the number {last}"
        )));
    }
    if seq < base {
        let message =
            format!("the events of {key} up to {base} were pruned; {seq} is before that, ask for {base} or later");
        return Err(Error::new(ErrorKind::FailedPrecondition, message));
    }
    Ok(())
}

/// Returns the error for a session that does not exist.
#[doc(hidden)]
pub fn no_session(key: &SessionKey) -> Error {
    Error::not_found(format!("session not found: {key}; create it first"))
}
