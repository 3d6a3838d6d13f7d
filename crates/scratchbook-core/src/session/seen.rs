//! The version of a session that a writer has seen.

use std::sync::Arc;

use imbl::OrdMap;

use crate::state::Scope;

/// Positions in the logs of a user's and of an app's state.
///
/// In a [`Session`](super::Session) they are the positions up to which it includes every change. In a
/// [`Committed`](super::Committed) they are the positions of the commit. The positions of one owner increase from
/// commit to commit; whether positions of different owners can be compared depends on the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPositions {
    /// The position in the log of the user's state.
    pub user: u64,
    /// The position in the log of the app's state.
    pub app: u64,
}

impl LogPositions {
    /// Creates positions in the two logs.
    #[must_use]
    pub fn new(user: u64, app: u64) -> Self {
        Self { user, app }
    }

    /// Creates positions that are the same in both logs, for a store in which one feed orders all commits.
    #[must_use]
    pub fn of_feed(position: u64) -> Self {
        Self::new(position, position)
    }
}

/// The version that a writer has seen of a session and of its user's and app's state: for each key, the last write that
/// the writer has seen.
///
/// [`Session::seen`](super::Session::seen) returns it for a snapshot of a session. A writer without a snapshot builds
/// it from the numbers of its last read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    seq: u64,
    logs: LogPositions,
    create_time: Option<f64>,
    own: OrdMap<Arc<str>, u64>,
}

impl Seen {
    /// Creates the version that includes everything up to an event of the session and up to positions in the two logs.
    #[must_use]
    pub fn new(seq: u64, logs: LogPositions) -> Self {
        Self { seq, logs, create_time: None, own: OrdMap::new() }
    }

    /// Sets the session's creation time, in seconds since 1970. It shows whether the session was deleted and created
    /// again with the same id; without it, only a smaller number of events shows this.
    #[must_use]
    pub fn with_create_time(mut self, seconds: f64) -> Self {
        self.create_time = Some(seconds);
        self
    }

    /// Marks a key, given with its prefix, as seen up to a later position, at which the writer itself wrote the key.
    #[must_use]
    pub fn with_key(mut self, key: &str, place: u64) -> Self {
        self.add_key(key, place);
        self
    }

    /// Returns the number of the last event that was seen together with all events before it.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the session's creation time, in seconds since 1970, if known.
    #[must_use]
    pub fn create_time(&self) -> Option<f64> {
        self.create_time
    }

    /// Returns the positions up to which the logs of the user's and the app's state were seen.
    #[must_use]
    pub fn logs(&self) -> LogPositions {
        self.logs
    }

    /// Returns the last seen write to a key, given with its prefix. For a key of the session, the result is the number
    /// of an event. For a key of the user or the app, it is a position in the owner's log.
    #[must_use]
    pub fn place(&self, key: &str) -> u64 {
        let scope = in_scope(key, self.seq, self.logs);
        self.own.get(key).map_or(scope, |place| scope.max(*place))
    }

    /// Marks a key as written by the writer's own event with this number and these positions.
    pub(super) fn add_own(&mut self, key: &str, seq: u64, logs: LogPositions) {
        self.add_key(key, in_scope(key, seq, logs));
    }

    fn add_key(&mut self, key: &str, place: u64) {
        // Usually there is nothing to do: an own event that directly follows the seen events is already counted as
        // seen.
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

/// Returns the number or position that applies to a key.
fn in_scope(key: &str, seq: u64, logs: LogPositions) -> u64 {
    match Scope::split(key).0 {
        Scope::Session | Scope::Temp => seq,
        Scope::User => logs.user,
        Scope::App => logs.app,
    }
}
