//! The hashes of stored events, as a store reports them.

/// A page of the hashes of a session's events, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventHashes {
    /// The number of the last pruned event, 0 if none was pruned.
    pub base: u64,
    /// The number of the session's last event.
    pub last: u64,
    /// The hashes of the events of this page.
    pub events: Vec<EventHash>,
}

/// The hashes of one stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventHash {
    /// The number of the event.
    pub seq: u64,
    /// The id of the event.
    pub id: String,
    /// The stored hash of the event as it was sent, by which a retry is recognized.
    pub sent: Vec<u8>,
    /// The SHA-256 of the event's text as it is stored, computed from the text when it is read.
    pub text: [u8; 32],
}

impl EventHashes {
    /// Creates a page without events.
    #[must_use]
    pub fn new(base: u64, last: u64) -> Self {
        Self { base, last, events: Vec::new() }
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
    pub fn new(seq: u64, id: impl Into<String>, sent: Vec<u8>, text: [u8; 32]) -> Self {
        Self { seq, id: id.into(), sent, text }
    }
}
