//! The running hashes that this process expects to find in the rows of sessions.
//!
//! If a batch has several events of a session, each event continues the running hash of the event before it. In SQL
//! this needs a recursion, which takes more than a tenth of the time of such a batch. So the hashes are computed here,
//! unless another process has appended to the session lately. The statement stores an event with its expected hash only
//! if the locked row shows that the hash is right. It leaves the other events, and the statement with the recursion
//! stores them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use scratchbook_core::session::{RunningHash, SessionKey};
use scratchbook_database::NewAppend;

/// The maximum number of sessions to remember. If there are more, all are forgotten.
const MOST: usize = 4096;

/// The running hashes of sessions after the last append of this process.
#[derive(Debug, Default)]
pub(super) struct Heads {
    known: Mutex<HashMap<SessionKey, SessionHead>>,
}

/// The running hash of a session up to the event with this number.
#[derive(Clone, Copy, Debug)]
struct SessionHead {
    seq: u64,
    hash: RunningHash,
    /// Whether nobody else has appended between the last two appends of this process.
    is_ours: bool,
}

/// What is sent for an event, and the running hash that its session is expected to have before the batch.
#[derive(Debug)]
pub(super) struct ExpectedHead {
    /// The hash of the event's text. If the session's running hash is known, that running hash, the event's number and
    /// the running hash after the event follow.
    pub(super) sent: Vec<u8>,
    pub(super) before: Option<RunningHash>,
}

/// An answered append, the running hash that its session had before the batch, and the number of the event if it was
/// stored.
#[derive(Debug)]
pub(super) struct AnsweredAppend<'a> {
    pub(super) append: &'a NewAppend,
    pub(super) before: Option<RunningHash>,
    pub(super) stored: Option<u64>,
}

impl Heads {
    /// Returns what is expected of each event of a batch, which is sorted by session. Returns `None` if the batch has
    /// several events of a session whose running hash is not known.
    pub(super) fn expect(&self, sorted: &[&NewAppend]) -> Option<Vec<ExpectedHead>> {
        let known = self.known();
        let mut events = Vec::with_capacity(sorted.len());
        for session in sorted.chunk_by(|a, b| a.key == b.key) {
            let head = match session {
                // Computing the hash of a single event costs no more than comparing it.
                [] | [_] => None,
                [first, ..] => Some(*known.get(&first.key).filter(|head| head.is_ours)?),
            };
            let mut next = head;
            for append in session {
                let mut sent = append.event.prepared.text_hash.to_vec();
                next = next.map(|head| head.next(head.seq + 1, append));
                if let (Some(before), Some(after)) = (head, next) {
                    sent.extend_from_slice(before.hash.as_bytes());
                    sent.extend_from_slice(&after.seq.to_be_bytes());
                    sent.extend_from_slice(after.hash.as_bytes());
                }
                events.push(ExpectedHead { sent, before: head.map(|head| head.hash) });
            }
        }
        Some(events)
    }

    /// Remembers the running hashes after a batch, which is sorted by session.
    pub(super) fn learn(&self, batch: &[AnsweredAppend<'_>]) {
        let mut known = self.known();
        if known.len() > MOST {
            known.clear();
        }
        for session in batch.chunk_by(|a, b| a.append.key == b.append.key) {
            let Some(AnsweredAppend { append, before, .. }) = session.first() else { continue };
            let Some(hash) = *before else {
                known.remove(&append.key);
                continue;
            };
            let is_ours = known.get(&append.key).is_some_and(|head| head.hash == hash);
            let mut head = SessionHead { seq: 0, hash, is_ours };
            for AnsweredAppend { append, stored, .. } in session {
                head = stored.map_or(head, |seq| head.next(seq, append));
            }
            if head.hash != hash {
                known.insert(append.key.clone(), head);
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionKey, SessionHead>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionHead {
    /// Returns the running hash after the next event.
    fn next(self, seq: u64, append: &NewAppend) -> Self {
        let prepared = &append.event.prepared;
        Self { seq, hash: self.hash.next(seq, &prepared.hash, &prepared.text_hash), ..self }
    }
}
