//! The running hash of a session's events, and what a store reports for its verification.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

/// The running hash of a session: a SHA-256 over its events in order, from the first event up to one of them. Two logs
/// with the same running hash have the same events in the same order.
///
/// Note it down, outside of the database, to prove later that a log still begins with the same events
/// ([`verify_session_against`](super::SessionServiceExt::verify_session_against)). As text it has 64 hexadecimal digits.
///
/// ```
/// use scratchbook::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let service = InMemorySessionService::new();
/// let session = service.create_session("app", "alice", Default::default()).await?;
/// service.append(session.key(), Event::new("user").with_content("hello"), Default::default()).await?;
/// let noted = service.verify_session(session.key()).await?.unwrap().running_hash.unwrap();
///
/// service.append(session.key(), Event::new("user").with_content("more"), Default::default()).await?;
/// let verified = service.verify_session_against(session.key(), &noted).await?.unwrap();
/// assert_eq!(verified.noted, Some(1), "after the first event the running hash was the noted one");
/// assert_eq!(noted.to_string().parse::<scratchbook::session::RunningHash>()?, noted);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunningHash([u8; 32]);

impl RunningHash {
    /// Returns the hash with these bytes, as a store has kept them.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for RunningHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunningHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningHash({self})")
    }
}

impl FromStr for RunningHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = text.as_bytes().chunks(2).map(|pair| {
            let pair = str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let hash = bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
        hash.map(Self).ok_or_else(|| {
            Error::invalid(format!(
                "'{text}' is not a running hash, which has 64 hexadecimal digits, as verify shows it"
            ))
        })
    }
}

impl Serialize for RunningHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A page of the hashes of a session's events, in their order, as a store reports them for verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventHashes {
    /// The number of the last pruned event, 0 if none was pruned.
    pub base: u64,
    /// The running hash before the first remaining event; `None` if an older program, which knows no running hash, has
    /// pruned the events before it.
    pub start: Option<RunningHash>,
    /// The number of the session's last event.
    pub last: u64,
    /// The number of the last event that has a running hash. Later events, which an older program has appended, have
    /// none until [`hash_events`](super::SessionService::hash_events) has computed it.
    pub hashed: u64,
    /// The running hash up to the event `hashed` in the session's row, if the store keeps it there as well.
    pub head: Option<RunningHash>,
    /// The hashes of the events of this page.
    pub events: Vec<EventHash>,
}

/// The hashes of one stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventHash {
    /// The number of the event.
    pub seq: u64,
    /// The stored hash of the event as it was sent, by which a retry is recognized.
    pub sent: Vec<u8>,
    /// The SHA-256 of the event's stored text, computed from the text when it is read.
    pub text: [u8; 32],
    /// The stored running hash up to this event, if there is one.
    pub running: Option<RunningHash>,
}

impl EventHashes {
    /// Creates a page without events.
    #[must_use]
    pub fn new(base: u64, start: Option<RunningHash>, last: u64, hashed: u64) -> Self {
        Self { base, start, last, hashed, head: None, events: Vec::new() }
    }

    /// Sets the running hash of the session's row.
    #[must_use]
    pub fn with_head(mut self, head: Option<RunningHash>) -> Self {
        self.head = head;
        self
    }

    /// Sets the hashes of the events.
    #[must_use]
    pub fn with_events(mut self, events: Vec<EventHash>) -> Self {
        self.events = events;
        self
    }
}

impl EventHash {
    /// Creates the hashes of an event.
    #[must_use]
    pub fn new(seq: u64, sent: Vec<u8>, text: [u8; 32], running: Option<RunningHash>) -> Self {
        Self { seq, sent, text, running }
    }
}
