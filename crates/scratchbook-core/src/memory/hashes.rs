//! The running hash of a session. It is computed only on request, which is possible because a stored event never
//! changes. The caller holds the app's lock.

use std::sync::Arc;

use super::app::{EventRecord, MemorySession};
use crate::error::Result;
use crate::event::Event;
use crate::json;
use crate::plan::sent::Completed;
use crate::session::{EventHash, EventHashes, RunningHash};

/// How an event was sent. A retry is recognized by this.
#[derive(Clone, Debug)]
pub(super) enum SentForm {
    /// The event is stored as it was sent, except for what the store has set.
    AsStored(Completed),
    /// The hash of what was sent, for an event with operations or with an update of its session.
    Hash(Arc<[u8; 32]>),
}

impl SentForm {
    /// Returns the SHA-256 of the stored event's text, and the hash of the event as it was sent.
    pub(super) fn hashes(&self, event: &Event) -> Result<([u8; 32], [u8; 32])> {
        use sha2::Digest;
        let text = json::to_text(event, "the event")?;
        Ok(match self {
            Self::AsStored(completed) => {
                let (stored, sent) = completed.hash(event, &text)?;
                (stored.finalize().into(), sent.finalize().into())
            }
            Self::Hash(hash) => (sha2::Sha256::digest(&text).into(), **hash),
        })
    }
}

impl MemorySession {
    /// Continues the running hash by at most this many events; returns whether the hash now includes the last event.
    pub(super) fn hash_events(&mut self, most: usize) -> Result<bool> {
        let from = self.running.len();
        let events = self.events.slice(from, self.events.len().min(from.saturating_add(most)));
        for (event, entry) in events.iter().zip(self.entries.range(from..)) {
            let (text, sent) = entry.sent.hashes(event)?;
            self.running.push_back(self.head().next(event.seq.unwrap_or_default(), &sent, &text));
        }
        Ok(self.running.len() == self.events.len())
    }

    /// Returns the running hash, as far as it was computed.
    fn head(&self) -> RunningHash {
        self.running.back().copied().unwrap_or_else(|| self.start())
    }

    /// Returns the running hash before the first event.
    pub(super) fn start(&self) -> RunningHash {
        self.start.unwrap_or_else(|| RunningHash::start(&self.key))
    }

    /// Returns the hashes of the events after a number. The running hash has to include the last event.
    pub(super) fn event_hashes(&self, after: u64, limit: usize) -> Result<EventHashes> {
        let from = self.count_up_to(after);
        let events = self.events.slice(from, self.events.len().min(from.saturating_add(limit)));
        let kept = self.entries.range(from..).zip(self.running.range(from..));
        let hashes = events.iter().zip(kept).map(|(event, (EventRecord { sent, .. }, running))| {
            let (text, sent) = sent.hashes(event)?;
            Ok(EventHash::new(event.seq.unwrap_or_default(), sent.to_vec(), text, Some(*running)))
        });
        let last = self.last();
        let page = EventHashes::new(self.base, Some(self.start()), last, last).with_head(Some(self.head()));
        Ok(page.with_events(hashes.collect::<Result<_>>()?))
    }
}
