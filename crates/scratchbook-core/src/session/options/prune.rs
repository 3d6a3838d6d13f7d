//! Removal of old data.

use crate::session::{SessionKey, StateOwner};

/// Old data that [`prune`](crate::session::SessionService::prune) removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prune {
    /// Expired sessions, in any order. They are deleted permanently.
    Expired,
    /// The oldest events of a session, in one commit; the state after them becomes the initial state. The current
    /// state, and the numbers of later events, do not change. Nothing is removed if the session does not exist.
    ///
    /// Ids of removed events are forgotten: a retried append of a pruned event appends a new event.
    Events {
        /// The session.
        session: SessionKey,
        /// Events with a number below this one are removed.
        before: u64,
    },
    /// Overwritten values in the log of a user's or an app's state. The last change of each key before the position
    /// stays, so that the state is still the fold of the log.
    StateLog {
        /// The user or the app.
        owner: StateOwner,
        /// Changes before this position are removed.
        before: u64,
    },
}

impl Prune {
    /// Selects the events of a session with a number below `before`.
    #[must_use]
    pub fn events(session: &SessionKey, before: u64) -> Self {
        Self::Events { session: session.clone(), before }
    }

    /// Selects the overwritten values in the log of a user's or an app's state before a position.
    #[must_use]
    pub fn state_log(owner: &StateOwner, before: u64) -> Self {
        Self::StateLog { owner: owner.clone(), before }
    }
}
