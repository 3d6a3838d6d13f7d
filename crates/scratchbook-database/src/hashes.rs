//! The data that a database has stored about a session's running hash.

use scratchbook_core::plan::running_hash::StoredStart;
use scratchbook_core::session::{EventHash, EventHashes, RunningHash, SessionKey};

/// What a session's rows contain about its running hash, and a page of its events.
#[derive(Debug)]
pub struct HashedSession {
    /// The number of the last event.
    #[doc(hidden)]
    pub last: u64,
    /// The number of the last event that has a running hash.
    #[doc(hidden)]
    pub hashed: u64,
    /// The running hash in the session's row.
    #[doc(hidden)]
    pub head: Option<RunningHash>,
    #[doc(hidden)]
    pub start: StoredStart,
    #[doc(hidden)]
    pub events: Vec<EventHash>,
}

impl HashedSession {
    /// Returns the number of the last event as the database stores it.
    #[doc(hidden)]
    #[must_use]
    pub fn last_number(&self) -> i64 {
        i64::try_from(self.last).unwrap_or(i64::MAX)
    }

    /// Returns the page for a verification of this session.
    #[doc(hidden)]
    #[must_use]
    pub fn page(self, key: &SessionKey) -> EventHashes {
        let page = EventHashes::new(self.start.base, self.start.hash(key), self.last, self.hashed);
        page.with_head(self.head).with_events(self.events)
    }
}
