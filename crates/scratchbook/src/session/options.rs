//! What can be asked of a service beyond the required arguments, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::check::both;
use super::{LogPositions, Seen, Session, SessionKey, StateCheck, check_id, micros_of_seconds};
use crate::error::{Error, Result};
use crate::event::{Event, check_timestamp};

/// How a session is made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CreateSessionConfig {
    /// The id; empty or absent, the service makes one.
    pub session_id: Option<String>,
    /// The state to start with, a JSON object of prefixed keys; `temp:` keys are dropped.
    pub state: Value,
    /// Events to begin with, committed together with the session, as if appended one by one.
    pub events: Vec<Event>,
    /// When it was made, in seconds since 1970; absent, now. For sessions that come from elsewhere.
    pub create_time: Option<f64>,
    /// When it ends; absent, never.
    pub expiry: Option<Expiry>,
    /// What refuses it for what its state and events come to.
    pub check: Option<Arc<dyn StateCheck>>,
}

/// When a session ends. From then on it is as if it had been deleted; what it occupies is freed by
/// [`delete_expired`](super::SessionService::delete_expired).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Expiry {
    /// At a time, in seconds since 1970.
    At(f64),
    /// So long after it is set, by the store's clock.
    After(Duration),
}

impl Expiry {
    /// The time in microseconds since 1970, rounded up to whole ones.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for what is no time in seconds.
    pub fn micros(self, now: impl FnOnce() -> f64) -> Result<i64> {
        let seconds = match self {
            Self::At(seconds) => seconds,
            Self::After(span) => now() + span.as_secs_f64(),
        };
        check_timestamp(seconds).map_err(|e| e.context("the time at which a session expires"))?;
        Ok(micros_of_seconds(seconds))
    }
}

impl CreateSessionConfig {
    /// With an id.
    #[must_use]
    pub fn with_session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// With state: `json!({...})` of prefixed keys.
    #[must_use]
    pub fn with_state(mut self, state: impl Into<Value>) -> Self {
        self.state = state.into();
        self
    }

    /// With events to begin with.
    #[must_use]
    pub fn with_events(mut self, events: Vec<Event>) -> Self {
        self.events = events;
        self
    }

    /// Checked in its commit, after what checks it already.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn StateCheck>) -> Self {
        self.check = Some(both(self.check, check));
        self
    }

    /// Made at another time than now, in seconds since 1970, kept to the microsecond.
    #[must_use]
    pub fn with_create_time(mut self, seconds: f64) -> Self {
        self.create_time = Some(seconds);
        self
    }

    /// It ends so long after it was made.
    #[must_use]
    pub fn with_time_to_live(mut self, span: Duration) -> Self {
        self.expiry = Some(Expiry::After(span));
        self
    }

    /// It ends at a time, in seconds since 1970.
    #[must_use]
    pub fn with_expire_time(mut self, seconds: f64) -> Self {
        self.expiry = Some(Expiry::At(seconds));
        self
    }
}

/// The state with which the fold of a session's events begins: its own keys alone, without prefix.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InitialState {
    /// The number of the last event that is folded into it: 0 for the state the session was made with; events up to
    /// there were pruned.
    pub seq: u64,
    /// The keys and their values.
    pub state: Map<String, Value>,
}

impl InitialState {
    /// State after the event with a number; for stores, yours among them.
    #[must_use]
    pub fn new(seq: u64, state: Map<String, Value>) -> Self {
        Self { seq, state }
    }
}

/// How a session is forked.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ForkConfig {
    /// The number of the last event that is taken over, 0 for none; absent, all are.
    pub at: Option<u64>,
    /// The id of the new session; empty or absent, the service makes one.
    pub session_id: Option<String>,
}

impl ForkConfig {
    /// With the events up to this number.
    #[must_use]
    pub fn at(seq: u64) -> Self {
        Self { at: Some(seq), session_id: None }
    }

    /// With an id for the new session.
    #[must_use]
    pub fn with_session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}

/// Which keys of a user's or an app's state are listed, page by page, in byte order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListStateConfig {
    /// Only names that begin so.
    pub prefix: String,
    /// Only names after this one: the last one of the page before.
    pub after: Option<String>,
    /// How many at most, 1 to 1,000.
    pub page_size: usize,
}

impl Default for ListStateConfig {
    fn default() -> Self {
        Self { prefix: String::new(), after: None, page_size: 100 }
    }
}

impl ListStateConfig {
    /// Only names that begin so.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only names after this one.
    #[must_use]
    pub fn with_after(mut self, name: impl Into<String>) -> Self {
        self.after = Some(name.into());
        self
    }

    /// How many names at most, 1 to 1,000; 100 otherwise.
    #[must_use]
    pub fn with_page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// Refuses what means nothing. Every service calls this first.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a page size of 0 or above 1,000.
    pub fn check(&self) -> Result<()> {
        match self.page_size {
            1..=1000 => Ok(()),
            size => Err(Error::invalid(format!("the page size {size} is not from 1 to 1,000"))),
        }
    }
}

/// A page of a user's or an app's state.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StatePage {
    /// Names without prefix, in byte order, with their values.
    pub values: Map<String, Value>,
    /// Asks for the next page, as [`ListStateConfig::after`]; `None` at the end.
    pub next: Option<String>,
}

impl StatePage {
    /// A page; for stores, yours among them.
    #[must_use]
    pub fn new(values: Map<String, Value>, next: Option<String>) -> Self {
        Self { values, next }
    }
}

/// Which part of a session is read. By default everything.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GetSessionConfig {
    /// Only the last so many events; 0 for none, which reads the state alone.
    pub num_recent_events: Option<usize>,
    /// Only events from this time on, in seconds, inclusive; then the last so many of them.
    pub after_timestamp: Option<f64>,
    /// Only events on one side of a number, for paging either way.
    pub cursor: Option<EventCursor>,
    /// Which keys of the state.
    pub state: StateSelection,
}

/// From where events are read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventCursor {
    /// The first so many events with a number above this one.
    After {
        /// The number of the event before the page; 0 for the beginning.
        seq: u64,
        /// How many events at most.
        limit: usize,
    },
    /// The last so many events with a number below this one.
    Before {
        /// The number of the event after the page.
        seq: u64,
        /// How many events at most.
        limit: usize,
    },
}

/// Which keys of the state are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateSelection {
    /// Every key.
    #[default]
    All,
    /// These prefixed keys, where they are there.
    Keys(Vec<String>),
}

impl GetSessionConfig {
    /// Only the last so many events; 0 for none.
    #[must_use]
    pub fn with_num_recent_events(mut self, count: usize) -> Self {
        self.num_recent_events = Some(count);
        self
    }

    /// Only events from this time on, in seconds, inclusive.
    #[must_use]
    pub fn with_after_timestamp(mut self, seconds: f64) -> Self {
        self.after_timestamp = Some(seconds);
        self
    }

    /// The first `limit` events after a number.
    #[must_use]
    pub fn with_events_after(mut self, seq: u64, limit: usize) -> Self {
        self.cursor = Some(EventCursor::After { seq, limit });
        self
    }

    /// The last `limit` events before a number.
    #[must_use]
    pub fn with_events_before(mut self, seq: u64, limit: usize) -> Self {
        self.cursor = Some(EventCursor::Before { seq, limit });
        self
    }

    /// No events.
    #[must_use]
    pub fn state_only() -> Self {
        Self::default().with_num_recent_events(0)
    }

    /// Only these keys of the state, prefixed.
    #[must_use]
    pub fn with_state_keys<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.state = StateSelection::Keys(keys.into_iter().map(Into::into).collect());
        self
    }

    /// Refuses combinations that mean nothing. Every service calls this first.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor together with `num_recent_events` or `after_timestamp`, and for an
    /// `after_timestamp` that is no time in seconds.
    pub fn check(&self) -> Result<()> {
        if let Some(seconds) = self.after_timestamp {
            check_timestamp(seconds).map_err(|e| e.context("after_timestamp"))?;
        }
        if self.cursor.is_some() && (self.num_recent_events.is_some() || self.after_timestamp.is_some()) {
            return Err(Error::invalid("a cursor goes alone: leave out num_recent_events and after_timestamp"));
        }
        Ok(())
    }
}

/// Which sessions are listed: all of the app or of one user, page by page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListSessionsConfig {
    /// Only this user's.
    pub user_id: Option<String>,
    /// How many at most in a page, 1 to 1,000.
    pub page_size: usize,
    /// The token of the page before.
    pub page_token: Option<String>,
}

impl Default for ListSessionsConfig {
    fn default() -> Self {
        Self { user_id: None, page_size: 100, page_token: None }
    }
}

impl ListSessionsConfig {
    /// Only this user's sessions.
    #[must_use]
    pub fn with_user_id(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// How many sessions at most in a page, 1 to 1,000; 100 otherwise.
    #[must_use]
    pub fn with_page_size(mut self, page_size: usize) -> Self {
        self.page_size = page_size;
        self
    }

    /// The page after the one that gave this token.
    #[must_use]
    pub fn with_page_token(mut self, page_token: impl Into<String>) -> Self {
        self.page_token = Some(page_token.into());
        self
    }
}

/// A page of sessions, the one updated longest ago first; state merged, no events.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListSessionsResponse {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Asks for the next page; `None` at the end.
    pub next_page_token: Option<String>,
}

impl ListSessionsResponse {
    /// A page; for stores, yours among them.
    #[must_use]
    pub fn new(sessions: Vec<Session>, next_page_token: Option<String>) -> Self {
        Self { sessions, next_page_token }
    }
}

/// How an append is to be done.
///
/// ```
/// use scratchbook::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = InMemorySessionService::new();
/// let session = sessions.create_session("app", "alice", Default::default()).await?;
/// let change = |n| Ok::<_, Error>(Event::new("agent").with_state_delta(StateDelta::new().with("n", n)?));
/// sessions.append(session.key(), change(1)?, AppendOptions::default()).await?;
///
/// // `session` was read before that.
/// let options = AppendOptions::by_key(session.seen().clone());
/// let error = sessions.append(session.key(), change(2)?, options).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// assert_eq!(error.conflicts()[0].key, "n");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AppendOptions {
    /// When it is refused for the sake of what others have committed.
    pub conflict: ConflictMode,
    /// What its writer has seen; of no matter where deltas merge.
    pub seen: Seen,
    /// What refuses it for what it comes to.
    pub check: Option<Arc<dyn StateCheck>>,
}

/// When an append is refused, as a `Conflict`, for the sake of what others have committed meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConflictMode {
    /// Never: deltas merge key by key, and the later commit wins a key.
    #[default]
    Merge,
    /// Where a key that its delta names, be it in a guard, was written since its writer has seen it.
    ByKey,
    /// Where the session has any event that its writer has not seen: ADK's rule. What others did to the user's and the
    /// app's keys from other sessions does not matter.
    BySession,
}

impl AppendOptions {
    /// Refused where a key that the delta names was written since.
    #[must_use]
    pub fn by_key(seen: Seen) -> Self {
        Self { conflict: ConflictMode::ByKey, seen, check: None }
    }

    /// Refused where the session has moved since.
    #[must_use]
    pub fn by_session(seen: Seen) -> Self {
        Self { conflict: ConflictMode::BySession, seen, check: None }
    }

    /// Checked in its commit, after what checks it already.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn StateCheck>) -> Self {
        self.check = Some(both(self.check, check));
        self
    }
}

/// How state is changed outside of any session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PutStateOptions {
    /// Who changes it; the log keeps the name.
    pub author: String,
    /// When it was changed, in seconds since 1970; absent, now. For changes that come from elsewhere; the time orders
    /// nothing.
    pub time: Option<f64>,
    /// What refuses it for what it comes to.
    pub check: Option<Arc<dyn StateCheck>>,
}

impl PutStateOptions {
    /// Changed by somebody.
    #[must_use]
    pub fn by(author: impl Into<String>) -> Self {
        Self { author: author.into(), time: None, check: None }
    }

    /// Changed at another time than now, in seconds since 1970.
    #[must_use]
    pub fn with_time(mut self, seconds: f64) -> Self {
        self.time = Some(seconds);
        self
    }

    /// Checked in its commit, after what checks it already.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn StateCheck>) -> Self {
        self.check = Some(both(self.check, check));
        self
    }

    /// What the log is to say: the author, and the time given or now.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an author over 512 bytes or with a control character, and for what is no time in seconds.
    pub fn checked(self, now: impl FnOnce() -> f64) -> Result<(String, f64)> {
        check_id("author", &self.author)?;
        let time = self.time.unwrap_or_else(now);
        check_timestamp(time).map_err(|e| e.context("the time of the change"))?;
        Ok((self.author, time))
    }
}

impl From<&str> for PutStateOptions {
    /// Changed by somebody of this name.
    fn from(author: &str) -> Self {
        Self::by(author)
    }
}

/// What an append has done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Committed {
    /// The event as it is stored: with id, timestamp and number, without `temp:` keys.
    pub event: Arc<Event>,
    /// Whether it was stored by this call.
    pub outcome: Outcome,
    /// Where the commit stands in the logs of the user's and the app's state, as far as it wrote to them.
    pub logs: LogPositions,
}

impl Committed {
    /// An answer; for stores, yours among them.
    #[must_use]
    pub fn new(event: Arc<Event>, outcome: Outcome) -> Self {
        Self { event, outcome, logs: LogPositions::default() }
    }

    /// With the commit's positions in the logs of the user's and the app's state.
    #[must_use]
    pub fn with_log_positions(mut self, logs: LogPositions) -> Self {
        self.logs = logs;
        self
    }
}

/// What became of an event that was to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was committed by this call.
    Stored,
    /// It was there already, with the same content: a retry, which changes nothing.
    Replayed,
    /// It is a piece of a stream: given back as it came, not stored.
    Partial,
}

/// One change to a key of a user or an app, as the log keeps it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StateChange {
    /// The feed's position: orders all commits of a store. The changes of one event share it, as do those of one
    /// call of `put_state`, and those of a session's creation.
    pub position: u64,
    /// The key, without its prefix.
    pub name: String,
    /// The key's version: 1 for its first write, then one more each.
    pub version: u64,
    /// The value written, `None` for a removal.
    pub value: Option<Value>,
    /// The session and the number of the event that wrote it, 0 for the session's creation; `None` for a
    /// write outside of any session.
    pub origin: Option<(SessionKey, u64)>,
    /// The event's id; empty where there was none.
    pub event_id: String,
    /// Who wrote it.
    pub author: String,
    /// When, in seconds.
    pub time: f64,
}

impl StateChange {
    /// A change as a store has read it; for stores, yours among them, as are the `with_` methods.
    #[must_use]
    pub fn new(position: u64, name: impl Into<String>, version: u64, value: Option<Value>) -> Self {
        let (name, event_id, author) = (name.into(), String::new(), String::new());
        Self { position, name, version, value, origin: None, event_id, author, time: 0.0 }
    }

    /// Written by an event of a session, or by its creation: the session, the event's number or 0, its id.
    #[must_use]
    pub fn with_origin(mut self, session: SessionKey, seq: u64, event_id: impl Into<String>) -> Self {
        self.origin = Some((session, seq));
        self.event_id = event_id.into();
        self
    }

    /// Written by somebody, at a time in seconds.
    #[must_use]
    pub fn with_author(mut self, author: impl Into<String>, time: f64) -> Self {
        self.author = author.into();
        self.time = time;
        self
    }
}
