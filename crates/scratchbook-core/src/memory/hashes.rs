//! The hashes of events, computed when they are asked for.

use std::sync::Arc;

use super::app::MemorySession;
use crate::error::Result;
use crate::event::Event;
use crate::json;
use crate::plan::sent::{Completed, text_hash};
use crate::session::{EventHash, EventHashes, Events};

/// How an event was sent. A retry is recognized by this.
#[derive(Clone, Debug)]
pub(super) enum SentForm {
    /// The event is stored as it was sent, except for what the store has set.
    AsStored(Completed),
    /// The hash of what was sent, for an event with operations or with an update of its session.
    Hash(Arc<[u8; 32]>),
}

impl SentForm {
    /// Returns the hash of the event as it was sent, for the event as it is stored.
    pub(super) fn hash(&self, event: &Event) -> Result<[u8; 32]> {
        match self {
            Self::AsStored(completed) => completed.hash(event, &json::to_text(event, "the event")?),
            Self::Hash(hash) => Ok(**hash),
        }
    }
}

/// Some events of a session, and how each was sent.
pub(super) struct ListedEvents {
    base: u64,
    last: u64,
    events: Events,
    sent: Vec<SentForm>,
}

impl MemorySession {
    /// Returns at most `limit` events after a number. The events themselves are shared, not copied.
    pub(super) fn listed_for_hashes(&self, after: u64, limit: usize) -> ListedEvents {
        let from = self.count_up_to(after);
        let to = self.events.len().min(from.saturating_add(limit));
        let sent = self.entries.range(from..to).map(|entry| entry.sent.clone()).collect();
        ListedEvents { base: self.base, last: self.last(), events: self.events.slice(from, to), sent }
    }
}

impl ListedEvents {
    pub(super) fn hashes(self) -> Result<EventHashes> {
        let mut hashes = Vec::with_capacity(self.sent.len());
        for (event, sent) in self.events.iter().zip(self.sent) {
            let text = json::to_text(event, "the event")?;
            let sent = match sent {
                SentForm::AsStored(completed) => completed.hash(event, &text)?.to_vec(),
                SentForm::Hash(hash) => hash.to_vec(),
            };
            hashes.push(EventHash::new(event.seq.unwrap_or_default(), event.id.as_str(), sent, text_hash(&text)));
        }
        Ok(EventHashes::new(self.base, self.last).with_events(hashes))
    }
}
