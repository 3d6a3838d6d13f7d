//! The feed of what is committed: what a watcher reads, and from where on. `commits.rs` says that there is more.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{SessionKey, StateChange, StateOwner};
use crate::event::Event;
use crate::state::Scope;

/// A place in a feed, as a text to keep: reading goes on after it, in this process or another. It is of one database and
/// of one feed, and says nothing to anybody else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeedCursor(String);

impl FeedCursor {
    /// A cursor from its text; for stores, and for who has kept one.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to keep.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A short name of a feed, by what makes it this one; ids have no control characters in them.
pub(crate) fn feed_name<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// From where a feed is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FeedStart {
    /// From the oldest commit that is kept.
    Beginning,
    /// What is committed from now on.
    #[default]
    Now,
    /// After a place that was read before.
    After(FeedCursor),
}

/// A part of a feed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedPage {
    /// What was committed, in an order in which no session, user or app goes back; empty at the end of the feed.
    pub entries: Vec<FeedEntry>,
    /// Where reading goes on: after the last entry, or where the feed ended.
    pub cursor: FeedCursor,
}

impl FeedPage {
    /// A page; for stores, yours among them.
    #[must_use]
    pub fn new(entries: Vec<FeedEntry>, cursor: FeedCursor) -> Self {
        Self { entries, cursor }
    }
}

/// Something that was committed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedEntry {
    /// Reading goes on after this entry from here.
    pub cursor: FeedCursor,
    /// What it was.
    pub commit: FeedCommit,
}

/// What was committed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FeedCommit {
    /// An event, with its changes in its `state_delta`.
    Event {
        /// The session it was appended to.
        session: SessionKey,
        /// The event as it is stored.
        event: Arc<Event>,
    },
    /// A session was made with state of its own; one made without changes no key and is not in the feed.
    Created {
        /// The session.
        session: SessionKey,
        /// The state it was made with.
        state: Map<String, Value>,
        /// The number of the event at which it was forked from another session: its events and its state up to there
        /// are those of the other one, and not in the feed again. `None` for one that was made as such.
        forked_at: Option<u64>,
    },
    /// Keys of a user or an app, written outside of any session or when a session was made.
    State {
        /// Whose keys they are.
        owner: StateOwner,
        /// The changes.
        changes: Vec<StateChange>,
    },
    /// A session or a user was removed, or events of a session were.
    ///
    /// After it, read the keys of the user and of the app (`get_state`): events that are gone may have written some. After
    /// [`Pruned`](RemovalKind::Pruned) read where the session begins now as well (`get_initial_state`).
    Removed(Removal),
}

/// What was removed, with what it took. It names sessions and users, and holds no value of theirs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Removal {
    /// How it was removed.
    pub kind: RemovalKind,
    /// The user whose it was.
    pub user: StateOwner,
    /// The session; `None` for a user who was deleted with all sessions.
    pub session: Option<SessionKey>,
    /// The number of the last event that went; of a user, how many sessions went.
    pub count: u64,
    /// When, in seconds since 1970, by the clock of the program that removed it.
    pub time: f64,
}

/// How something was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemovalKind {
    /// A session was deleted. One that is made under its id later is another one.
    Deleted,
    /// A session had expired, and was removed: by `delete_expired`, or when something was to be written under its id.
    Expired,
    /// The oldest events of a session were pruned. The session goes on with the others.
    Pruned,
    /// A user was deleted, with all sessions, keys and artifacts.
    Erased,
}

impl RemovalKind {
    /// Its name: `deleted`, `expired`, `pruned`, `erased`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Pruned => "pruned",
            Self::Erased => "erased",
        }
    }

    /// The kind of a name, if there is one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Deleted, Self::Expired, Self::Pruned, Self::Erased].into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Removal {
    /// A session that was removed, or events of it up to a number; for stores, yours among them.
    #[must_use]
    pub fn of_session(kind: RemovalKind, session: SessionKey, last: u64, time: f64) -> Self {
        Self { kind, user: session.user(), session: Some(session), count: last, time }
    }

    /// A user who was deleted with this many sessions; for stores, yours among them.
    #[must_use]
    pub fn of_user(user: StateOwner, sessions: u64, time: f64) -> Self {
        Self { kind: RemovalKind::Erased, user, session: None, count: sessions, time }
    }
}

impl FeedEntry {
    /// An entry; for stores, yours among them.
    #[must_use]
    pub fn new(cursor: FeedCursor, commit: FeedCommit) -> Self {
        Self { cursor, commit }
    }

    /// The keys that were changed, with their prefixes.
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
