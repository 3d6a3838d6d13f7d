//! Conflicts of a write, key by key.

use std::fmt::{self, Write};

use serde_json::Value;

/// The maximum number of keys that a message names.
const NAMED: usize = 5;

/// A key that caused a write to be refused; [`Error::conflicts`](super::Error::conflicts) returns them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyConflict {
    /// The key, with its prefix.
    pub key: String,
    /// The kind of conflict.
    pub cause: ConflictCause,
    /// The value that the writer expected: the value of a guard, or the value in the writer's snapshot of the session.
    /// `None` if the writer expected no value, or if the store did not receive a snapshot.
    pub read: Option<Value>,
    /// The stored value; `None` if the key is absent.
    pub found: Option<Value>,
    /// The writer of the stored value; `None` if nobody wrote the key, or if the writer is no longer known.
    pub writer: Option<KeyWriter>,
}

impl KeyConflict {
    /// Creates a conflict. For store implementations, including your own.
    #[must_use]
    pub fn new(key: impl Into<String>, cause: ConflictCause, found: Option<Value>) -> Self {
        Self { key: key.into(), cause, read: None, found, writer: None }
    }
}

/// Why a key is in conflict with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictCause {
    /// The key was written after the writer had read it.
    Changed,
    /// The key does not have the value that a guard of the write expects.
    Guard,
}

/// The last writer of a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyWriter {
    /// The user and the id of the session that wrote the key; `None` for a write outside of any session.
    pub session: Option<(String, String)>,
    /// The number of the event in that session; 0 for the session's creation.
    pub seq: u64,
    /// The event's id; empty if no event wrote the key.
    pub event_id: String,
    /// The author; empty if it is no longer known.
    pub author: String,
    /// The invocation of the event; empty if the event has no invocation or no longer exists.
    pub invocation_id: String,
    /// The time, in seconds since 1970: the event's timestamp; 0 if it is unknown.
    pub time: f64,
}

impl KeyWriter {
    /// Creates a writer outside of any session, with the author's name.
    #[must_use]
    pub fn new(author: impl Into<String>) -> Self {
        Self { author: author.into(), ..Self::default() }
    }

    /// Sets the event or the session's creation: the user, the session's id, the event's number or 0, and the event's
    /// id.
    #[must_use]
    pub fn with_event(
        mut self,
        user_id: impl Into<String>,
        session_id: impl Into<String>,
        seq: u64,
        event_id: impl Into<String>,
    ) -> Self {
        self.session = Some((user_id.into(), session_id.into()));
        self.seq = seq;
        self.event_id = event_id.into();
        self
    }

    /// Sets the invocation; empty for none.
    #[must_use]
    pub fn with_invocation(mut self, invocation_id: impl Into<String>) -> Self {
        self.invocation_id = invocation_id.into();
        self
    }

    /// Sets the time, in seconds since 1970.
    #[must_use]
    pub fn with_time(mut self, seconds: f64) -> Self {
        self.time = seconds;
        self
    }
}

/// Writes names without values, for messages.
impl fmt::Display for KeyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.cause {
            ConflictCause::Changed => "was changed since it was read",
            ConflictCause::Guard => "is not as this write requires",
        };
        write!(f, "'{}' {what}", self.key)?;
        self.writer.iter().try_for_each(|writer| write!(f, " ({writer})"))
    }
}

impl fmt::Display for KeyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "written by '{}'", self.author)?;
        let Some((user, session)) = &self.session else {
            return Ok(());
        };
        match self.seq {
            0 => write!(f, " at the creation of session {user}/{session}"),
            seq => write!(f, " in event {} of session {user}/{session}, number {seq}", self.event_id),
        }
    }
}

/// Returns the conflicting keys as a part of a sentence.
pub(super) fn listed(conflicts: &[KeyConflict]) -> String {
    let mut text = String::new();
    for (n, conflict) in conflicts.iter().take(NAMED).enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{comma}{conflict}");
    }
    if conflicts.len() > NAMED {
        let _ = write!(text, ", and {} more", conflicts.len() - NAMED);
    }
    text
}
