//! How events are appended and state is changed, and what that has done.

use std::sync::Arc;

use crate::error::Result;
use crate::event::{Event, check_timestamp};
use crate::session::check::both;
use crate::session::{LogPositions, Seen, StateCheck, check_id};

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
pub enum Outcome {
    /// It was committed by this call.
    Stored,
    /// It was there already, with the same content: a retry, which changes nothing.
    Replayed,
    /// It is a piece of a stream: given back as it came, not stored.
    Partial,
}
