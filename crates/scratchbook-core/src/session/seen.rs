//! Up to where a writer has seen what is stored.

use std::sync::Arc;

use imbl::OrdMap;

use crate::state::Scope;

/// Positions in the logs of a user's and of an app's state.
///
/// In a [`Session`](super::Session) they say how far it was read: every change up to there is in it. In a
/// [`Committed`](super::Committed) they are where the commit stands. They grow from commit to commit of one owner; stores
/// differ in what else they order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPositions {
    /// In the log of the user's state.
    pub user: u64,
    /// In the log of the app's state.
    pub app: u64,
}

impl LogPositions {
    /// Positions in two logs.
    #[must_use]
    pub fn new(user: u64, app: u64) -> Self {
        Self { user, app }
    }

    /// The same position in both, in a store where one feed orders all.
    #[must_use]
    pub fn of_feed(position: u64) -> Self {
        Self::new(position, position)
    }
}

/// What a writer has seen of a session, and of its user's and app's state: for each key the last place where it saw it
/// written.
///
/// [`Session::seen`](super::Session::seen) has it for a copy of a session. A writer that holds none makes it of what it
/// was told when it read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    seq: u64,
    logs: LogPositions,
    create_time: Option<f64>,
    own: OrdMap<Arc<str>, u64>,
}

impl Seen {
    /// Everything up to an event of the session and up to positions in the two logs.
    #[must_use]
    pub fn new(seq: u64, logs: LogPositions) -> Self {
        Self { seq, logs, create_time: None, own: OrdMap::new() }
    }

    /// Of the session that was made at this time, in seconds: one that was made anew under its id is another. Without it
    /// that is told by the number of events alone.
    #[must_use]
    pub fn with_create_time(mut self, seconds: f64) -> Self {
        self.create_time = Some(seconds);
        self
    }

    /// And a key, prefixed, up to a later place: one where the writer wrote it itself.
    #[must_use]
    pub fn with_key(mut self, key: &str, place: u64) -> Self {
        self.add_key(key, place);
        self
    }

    /// The number of the session's last event that was seen with all before it.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// When the session was made, in seconds, where that is known.
    #[must_use]
    pub fn create_time(&self) -> Option<f64> {
        self.create_time
    }

    /// How far the logs of the user's and the app's state were seen.
    #[must_use]
    pub fn logs(&self) -> LogPositions {
        self.logs
    }

    /// The last place where a key, prefixed, was seen written: the number of an event for a key of the session, a
    /// position in the owner's log for one of the user or the app.
    #[must_use]
    pub fn place(&self, key: &str) -> u64 {
        let scope = in_scope(key, self.seq, self.logs);
        self.own.get(key).map_or(scope, |place| scope.max(*place))
    }

    /// A key that the writer wrote with an event that has this number and stands at these positions.
    pub(super) fn add_own(&mut self, key: &str, seq: u64, logs: LogPositions) {
        self.add_key(key, in_scope(key, seq, logs));
    }

    fn add_key(&mut self, key: &str, place: u64) {
        // Mostly there is nothing to remember: an own event without unseen ones before it was seen as such.
        if place <= in_scope(key, self.seq, self.logs) {
            return;
        }
        match self.own.get_mut(key) {
            Some(known) => *known = place.max(*known),
            None => drop(self.own.insert(key.into(), place)),
        }
    }

    pub(super) fn set_create_time(&mut self, seconds: f64) {
        self.create_time = Some(seconds);
    }

    pub(super) fn set_seq(&mut self, seq: u64) {
        self.seq = seq;
    }

    pub(super) fn set_logs(&mut self, logs: LogPositions) {
        self.logs = logs;
    }
}

/// What of a number and of positions is about a key.
fn in_scope(key: &str, seq: u64, logs: LogPositions) -> u64 {
    match Scope::split(key).0 {
        Scope::Session | Scope::Temp => seq,
        Scope::User => logs.user,
        Scope::App => logs.app,
    }
}
