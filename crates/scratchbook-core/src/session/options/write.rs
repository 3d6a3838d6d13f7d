//! Options for appending events and changing state, and the results.

use std::sync::Arc;

use crate::error::Result;
use crate::event::{Event, check_timestamp};
use crate::session::check::both;
use crate::session::{LogPositions, Seen, SessionUpdate, StateCheck, check_id};

/// Options for an append.
///
/// ```
/// use scratchbook::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sessions = InMemorySessionService::new();
/// let session = sessions.create_session("app", "alice", Default::default()).await?;
/// let change = |n| Ok::<_, Error>(Event::new("agent").with_state_delta(StateDelta::new().with("n", n)?));
/// sessions.append(session.key(), change(1)?, AppendOptions::default()).await?;
///
/// // `session` was read before that append.
/// let options = AppendOptions::by_key(session.seen().clone());
/// let error = sessions.append(session.key(), change(2)?, options).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// assert_eq!(error.conflicts()[0].key, "n");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AppendOptions {
    /// When concurrent commits make the append fail.
    pub conflict: ConflictMode,
    /// The version that the writer has seen; ignored if deltas merge.
    pub seen: Seen,
    /// A check that can refuse the resulting changes.
    pub check: Option<Arc<dyn StateCheck>>,
    /// An update of the session that is committed with the event.
    pub update: Option<SessionUpdate>,
}

/// When an append fails with `Conflict` because of concurrent commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConflictMode {
    /// Concurrent commits are no conflict: deltas merge key by key, and for each key the later commit wins.
    #[default]
    Merge,
    /// Optimistic locking per key: the append fails if a key that the delta names, even only in a guard, was written
    /// after the version that the writer has seen.
    ByKey,
    /// Optimistic locking per session: the append fails if the session has an event that the writer has not seen. This
    /// is ADK's rule. Changes to the user's and the app's keys from other sessions do not count.
    BySession,
}

impl AppendOptions {
    /// Requests optimistic locking per key: the append fails if a key that the delta names was written after the seen
    /// version.
    #[must_use]
    pub fn by_key(seen: Seen) -> Self {
        Self { conflict: ConflictMode::ByKey, seen, ..Self::default() }
    }

    /// Requests optimistic locking per session: the append fails if the session has events after the seen version.
    #[must_use]
    pub fn by_session(seen: Seen) -> Self {
        Self { conflict: ConflictMode::BySession, seen, ..Self::default() }
    }

    /// Adds a check that runs in the commit, after those already set.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn StateCheck>) -> Self {
        self.check = Some(both(self.check, check));
        self
    }

    /// Adds an update of the session's title, labels and expiry, which is committed with the event: both or neither.
    ///
    /// A retry has to have the same event and the same update, and then changes nothing; the same event with another
    /// update is `AlreadyExists`. The update of a partial event is not applied, because nothing is stored then.
    ///
    /// ```
    /// use scratchbook::prelude::*;
    /// use scratchbook::session::SessionUpdate;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let sessions = InMemorySessionService::new();
    /// let session = sessions.create_session("shop", "alice", Default::default()).await?;
    /// let found = Event::new("agent").with_state_delta(StateDelta::new().with("parcel", "found")?);
    /// let options = AppendOptions::default().with_update(SessionUpdate::default().with_title("Parcel found"));
    /// sessions.append(session.key(), found, options).await?;
    ///
    /// let session = sessions.get_session(session.key(), &Default::default()).await?.unwrap();
    /// assert_eq!((session.seq(), session.title()), (1, Some("Parcel found")));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_update(mut self, update: SessionUpdate) -> Self {
        self.update = Some(update);
        self
    }
}

/// Options for changing state outside of any session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PutStateOptions {
    /// The author of the change, as logged.
    pub author: String,
    /// The time of the change, in seconds since 1970; if absent, now. Set it for imported changes; it does not affect
    /// the order of changes.
    pub time: Option<f64>,
    /// A check that can refuse the resulting changes.
    pub check: Option<Arc<dyn StateCheck>>,
}

impl PutStateOptions {
    /// Sets the author.
    #[must_use]
    pub fn by(author: impl Into<String>) -> Self {
        Self { author: author.into(), time: None, check: None }
    }

    /// Sets the time of the change, in seconds since 1970.
    #[must_use]
    pub fn with_time(mut self, seconds: f64) -> Self {
        self.time = Some(seconds);
        self
    }

    /// Adds a check that runs in the commit, after those already set.
    #[must_use]
    pub fn with_check(mut self, check: Arc<dyn StateCheck>) -> Self {
        self.check = Some(both(self.check, check));
        self
    }

    /// Returns the author and the time to log: the given time, or now.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an author over 512 bytes or with a control character, and for an invalid time.
    pub fn checked(self, now: impl FnOnce() -> f64) -> Result<(String, f64)> {
        check_id("author", &self.author)?;
        let time = self.time.unwrap_or_else(now);
        check_timestamp(time).map_err(|e| e.context("the time of the change"))?;
        Ok((self.author, time))
    }
}

impl From<&str> for PutStateOptions {
    /// Creates options with this author.
    fn from(author: &str) -> Self {
        Self::by(author)
    }
}

/// The result of an append.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Committed {
    /// The event as stored: with id, timestamp and number, without `temp:` keys.
    pub event: Arc<Event>,
    /// Whether this call stored the event.
    pub outcome: Outcome,
    /// The positions of the commit in the logs of the user's and the app's state, if it wrote to them.
    pub logs: LogPositions,
}

impl Committed {
    /// Creates a result. For store implementations, including your own.
    #[must_use]
    pub fn new(event: Arc<Event>, outcome: Outcome) -> Self {
        Self { event, outcome, logs: LogPositions::default() }
    }

    /// Sets the commit's positions in the logs of the user's and the app's state.
    #[must_use]
    pub fn with_log_positions(mut self, logs: LogPositions) -> Self {
        self.logs = logs;
        self
    }
}

/// How an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This call committed the event.
    Stored,
    /// The event was already stored with the same content: a retry, which changes nothing.
    Replayed,
    /// The event is a piece of a stream: it is returned unchanged and not stored.
    Partial,
}
