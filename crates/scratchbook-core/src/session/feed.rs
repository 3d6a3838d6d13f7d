//! The change feed: what a watcher reads, and from which position. `notices.rs` has the notices of new entries.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{SessionKey, StateChange, StateOwner};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::state::Scope;

/// A position in a feed, as text to store: reading resumes after it, in this process or another. It is valid for one
/// feed of one database; its contents are opaque.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeedCursor(String);

impl FeedCursor {
    /// Creates a cursor from its text; for stores, and for programs that have saved one.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the cursor as text, to be saved.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the feed. The feeds of other owners, and of other databases, have other names.
    #[must_use]
    pub fn feed(&self) -> &str {
        self.0.split_once(' ').map_or("", |(name, _)| name)
    }

    /// Returns the position in the feed with this name.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor of another database or feed.
    pub(crate) fn place(&self, feed_name: &str) -> Result<&str> {
        match self.0.split_once(' ') {
            Some((name, place)) if name == feed_name => Ok(place),
            Some(_) => Err(Error::invalid(
                "the cursor is of another feed or database; go on with one that this feed has given, or begin anew, or \
                 now",
            )),
            None => Err(Error::invalid(format!(
                "'{}' is not a cursor; give one as a feed has returned it, or begin anew, or now",
                self.0.escape_debug()
            ))),
        }
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a short name of a feed, made of the parts that identify it; ids contain no control characters.
pub(crate) fn feed_name<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Where reading of a feed starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FeedStart {
    /// At the oldest commit that is kept.
    Beginning,
    /// Now: only later commits are read.
    #[default]
    Now,
    /// After a position that was read before.
    After(FeedCursor),
}

/// A part of a feed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedPage {
    /// The entries, empty at the end of the feed. Entries of the same session, user or app are in the order of their
    /// commits.
    pub entries: Vec<FeedEntry>,
    /// Where to continue: after the last entry, or at the end of the feed.
    pub cursor: FeedCursor,
}

impl FeedPage {
    /// Creates a page. For store implementations, including your own.
    #[must_use]
    pub fn new(entries: Vec<FeedEntry>, cursor: FeedCursor) -> Self {
        Self { entries, cursor }
    }
}

/// One commit in the feed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedEntry {
    /// Where to continue after this entry.
    pub cursor: FeedCursor,
    /// What was committed.
    pub commit: FeedCommit,
}

/// What was committed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FeedCommit {
    /// An event, with its changes in `state_delta`.
    Event {
        /// The session it was appended to.
        session: SessionKey,
        /// The event as stored.
        event: Arc<Event>,
    },
    /// A session was created with state of its own. The creation of a session without such state changes none of its
    /// keys and is not in the feed.
    Created {
        /// The session.
        session: SessionKey,
        /// Its initial state.
        state: Map<String, Value>,
        /// The number of the event at which it was forked from another session: its events and state up to that event
        /// belong to the other session and are not repeated in the feed. `None` for a session that is not a fork.
        forked_at: Option<u64>,
    },
    /// Keys of a user or an app, written outside of any session or by a session's creation.
    State {
        /// The owner of the keys.
        owner: StateOwner,
        /// The changes.
        changes: Vec<StateChange>,
    },
    /// A session, a user, or events of a session were removed.
    ///
    /// After this entry, read the keys of the user and of the app again (`get_state`): removed events may have written
    /// some. After [`Pruned`](RemovalKind::Pruned) also read the session's initial state (`get_initial_state`).
    Removed(Removal),
}

/// What was removed, and its extent. It names sessions and users, and contains no values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Removal {
    /// The kind of removal.
    pub kind: RemovalKind,
    /// The user whose data were removed.
    pub user: StateOwner,
    /// The session; `None` if a user was deleted with all sessions.
    pub session: Option<SessionKey>,
    /// The number of the last removed event; for a user, the number of removed sessions.
    pub count: u64,
    /// The time of the removal, in seconds since 1970, by the clock of the program that made it.
    pub time: f64,
}

/// Kinds of removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemovalKind {
    /// A session was deleted. A session created later with the same id is a different one.
    Deleted,
    /// An expired session was removed: by `prune`, or by a write to its id.
    Expired,
    /// The oldest events of a session were pruned. Its other events stay.
    Pruned,
    /// A user was deleted, with all sessions, keys and artifacts.
    Erased,
}

impl RemovalKind {
    /// Returns the name: `deleted`, `expired`, `pruned`, `erased`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Pruned => "pruned",
            Self::Erased => "erased",
        }
    }

    /// Returns the kind with this name, if there is one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Deleted, Self::Expired, Self::Pruned, Self::Erased].into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Removal {
    /// Creates the removal of a session, or of its events up to a number. For store implementations, including your
    /// own.
    #[must_use]
    pub fn of_session(kind: RemovalKind, session: SessionKey, last: u64, time: f64) -> Self {
        Self { kind, user: session.user(), session: Some(session), count: last, time }
    }

    /// Creates the removal of a user with this many sessions. For store implementations, including your own.
    #[must_use]
    pub fn of_user(user: StateOwner, sessions: u64, time: f64) -> Self {
        Self { kind: RemovalKind::Erased, user, session: None, count: sessions, time }
    }
}

impl FeedEntry {
    /// Creates an entry. For store implementations, including your own.
    #[must_use]
    pub fn new(cursor: FeedCursor, commit: FeedCommit) -> Self {
        Self { cursor, commit }
    }

    /// Returns the changed keys, with their prefixes.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        match &self.commit {
            FeedCommit::Event { event, .. } => {
                event.actions.state_delta.iter().map(|(key, _)| key.to_owned()).collect()
            }
            FeedCommit::Created { state, .. } => state.keys().cloned().collect(),
            FeedCommit::State { owner, changes } => {
                let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
                changes.iter().map(|change| scope.key(&change.name).into_owned()).collect()
            }
            FeedCommit::Removed(_) => Vec::new(),
        }
    }
}
