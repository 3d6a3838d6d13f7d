//! Who stood in the way of a write, key by key.

use std::fmt::{self, Write};

use serde_json::Value;

/// How many keys a message names.
const NAMED: usize = 5;

/// A key for whose sake a write was refused; [`Error::conflicts`](super::Error::conflicts) has them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyConflict {
    /// The key, with its prefix.
    pub key: String,
    /// What was in the way.
    pub cause: ConflictCause,
    /// The value the writer went by: what a guard expected, or what the writer's copy of the session shows. `None` where
    /// that is absent, and where the store was not given a copy.
    pub read: Option<Value>,
    /// The value that is stored, `None` where the key is absent.
    pub found: Option<Value>,
    /// Who wrote what is stored; `None` where nobody did, or where it is not known any more.
    pub writer: Option<KeyWriter>,
}

impl KeyConflict {
    /// A key that is not as a write needs it; for stores, yours among them.
    #[must_use]
    pub fn new(key: impl Into<String>, cause: ConflictCause, found: Option<Value>) -> Self {
        Self { key: key.into(), cause, read: None, found, writer: None }
    }
}

/// Why a key is in the way of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictCause {
    /// It was written after the writer had read it.
    Changed,
    /// It is not what a guard of the write expects.
    Guard,
}

/// Who wrote a key last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyWriter {
    /// The user and the id of the session that wrote it; `None` for a write outside of any session.
    pub session: Option<(String, String)>,
    /// The number of the event in that session, 0 for the session's creation.
    pub seq: u64,
    /// The event's id; empty where there was none.
    pub event_id: String,
    /// Who is said to have written it; empty where that is not known any more.
    pub author: String,
    /// The invocation of the event; empty where there was none, and where the event is not there any more.
    pub invocation_id: String,
    /// When, in seconds: the event's timestamp; 0 where that is not known.
    pub time: f64,
}

impl KeyWriter {
    /// A writer outside of any session.
    #[must_use]
    pub fn new(author: impl Into<String>) -> Self {
        Self { author: author.into(), ..Self::default() }
    }

    /// An event of a session, or its creation: the user, the session's id, the event's number or 0, its id.
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

    /// In an invocation; empty for none.
    #[must_use]
    pub fn with_invocation(mut self, invocation_id: impl Into<String>) -> Self {
        self.invocation_id = invocation_id.into();
        self
    }

    /// At a time, in seconds.
    #[must_use]
    pub fn with_time(mut self, seconds: f64) -> Self {
        self.time = seconds;
        self
    }
}

/// For messages: names alone, no values.
impl fmt::Display for KeyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.cause {
            ConflictCause::Changed => "was changed since it was read",
            ConflictCause::Guard => "is not as expected",
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

/// The keys in the way, as a part of a sentence.
pub(super) fn listed(conflicts: &[KeyConflict]) -> String {
    let mut text = String::new();
    for (n, conflict) in conflicts.iter().take(NAMED).enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{conflict}");
    }
    if conflicts.len() > NAMED {
        let _ = write!(text, ", and {} more", conflicts.len() - NAMED);
    }
    text
}
