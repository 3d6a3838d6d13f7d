//! The log of a user's or an app's state.

use serde_json::Value;

use crate::error::{Error, KeyWriter, Result};
use crate::json::bytes_of;
use crate::session::{SessionKey, StateOwner};

/// The changes that [`list_state_changes`](crate::session::SessionService::list_state_changes) returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeQuery {
    /// All changes after a position, in order. A page contains whole commits, so that continuing after the last
    /// position returns every change once.
    After(u64),
    /// The changes to one key before a position, the latest first.
    OfKey {
        /// The key, without its prefix.
        name: String,
        /// Only changes before this position; `u64::MAX` for the latest ones.
        before: u64,
        /// Only changes up to the commit of an event: its session, and its number or 0 for the session's creation.
        at: Option<(SessionKey, u64)>,
    },
}

impl ChangeQuery {
    /// Selects the changes to one key, given without its prefix, before a position, the latest first.
    #[must_use]
    pub fn of_key(name: impl Into<String>, before: u64) -> Self {
        Self::OfKey { name: name.into(), before, at: None }
    }

    /// Selects the changes to one key as [`of_key`](Self::of_key) does, up to the commit of an event of a session that
    /// sees the key. Writes that were pruned are missing.
    #[must_use]
    pub fn of_key_at(name: impl Into<String>, before: u64, session: &SessionKey, seq: u64) -> Self {
        Self::OfKey { name: name.into(), before, at: Some((session.clone(), seq)) }
    }

    /// Refuses an event of a session that does not see the owner's keys. Every store calls this first.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the session.
    pub fn check(&self, owner: &StateOwner) -> Result<()> {
        match self {
            Self::OfKey { at: Some((session, _)), .. } if *owner != session.user() && *owner != session.app() => {
                Err(Error::invalid(format!("the session {session} is of another user or app than the log to be read")))
            }
            _ => Ok(()),
        }
    }
}

/// One change to a key of a user or an app, as logged.
#[derive(Clone, Debug, PartialEq)]
pub struct StateChange {
    /// The position in the feed, which orders all commits of a store. The changes of one event, of one `put_state` call
    /// or of a session's creation share a position.
    pub position: u64,
    /// The key, without its prefix.
    pub name: String,
    /// The key's version: 1 for its first write, then one more for each write.
    pub version: u64,
    /// The value written; `None` for a removal.
    pub value: Option<Value>,
    /// The session and the number of the event that wrote the key, 0 for the session's creation; `None` for a write
    /// outside of any session.
    pub origin: Option<(SessionKey, u64)>,
    /// The event's id; empty if no event wrote the key.
    pub event_id: String,
    /// The author of the change.
    pub author: String,
    /// The time of the change, in seconds since 1970.
    pub time: f64,
}

impl StateChange {
    /// Creates a change as read from a store. This and the `with_` methods are for store implementations, including
    /// your own.
    #[must_use]
    pub fn new(position: u64, name: impl Into<String>, version: u64, value: Option<Value>) -> Self {
        let (name, event_id, author) = (name.into(), String::new(), String::new());
        Self { position, name, version, value, origin: None, event_id, author, time: 0.0 }
    }

    /// Sets the origin: the session, the event's number or 0 for the creation, and the event's id.
    #[must_use]
    pub fn with_origin(mut self, session: SessionKey, seq: u64, event_id: impl Into<String>) -> Self {
        self.origin = Some((session, seq));
        self.event_id = event_id.into();
        self
    }

    /// Sets the author and the time, in seconds since 1970.
    #[must_use]
    pub fn with_author(mut self, author: impl Into<String>, time: f64) -> Self {
        self.author = author.into();
        self.time = time;
        self
    }

    /// Returns about how many bytes the change takes as JSON text.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        bytes_of(&self.value) + (self.name.len() + self.author.len() + self.event_id.len()) as u64
    }

    /// Returns the writer without the invocation, which the log does not contain.
    pub(crate) fn writer(&self) -> KeyWriter {
        let writer = KeyWriter::new(&self.author).with_time(self.time);
        match &self.origin {
            Some((key, seq)) => writer.with_event(key.user_id(), key.session_id(), *seq, &self.event_id),
            None => writer,
        }
    }
}
