//! The running hash of a session: how it begins, and how an event continues it.
//!
//! Every part has a fixed length or is preceded by its length, so different inputs never give the same bytes. The first
//! bytes say what is hashed, and in which version of this description.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::json;
use crate::session::{RunningHash, SessionKey};

/// The first bytes of what is hashed for a session.
pub const SESSION: &str = "scratchbook:s1:";

/// The first bytes of what is hashed for an event. They are short enough that the input for an event fits into two
/// blocks of SHA-256.
pub const EVENT: &str = "scratchbook:e1:";

/// The maximum number of events for which one commit computes running hashes, because other writes wait meanwhile.
pub const HASHED_AT_ONCE: usize = 500;

impl RunningHash {
    /// Returns the running hash before a session's first event. It is the SHA-256 of [`SESSION`] and, for each id in
    /// the session's address (app, user, session), its length in 8 bytes (big-endian) and its text.
    #[must_use]
    pub fn start(key: &SessionKey) -> Self {
        let mut hash = Sha256::new_with_prefix(SESSION);
        for part in [key.app_name(), key.user_id(), key.session_id()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self::new(hash.finalize().into())
    }

    /// Returns the running hash after the next event, which has this number: the SHA-256 of [`EVENT`], the running hash
    /// before it, the number in 8 bytes (big-endian), the stored hash of the event as it was sent, and the SHA-256 of
    /// the stored text.
    #[must_use]
    pub fn next(&self, seq: u64, sent: &[u8], text: &[u8; 32]) -> Self {
        let mut bytes = Vec::with_capacity(119);
        bytes.extend_from_slice(EVENT.as_bytes());
        bytes.extend_from_slice(self.as_bytes());
        bytes.extend_from_slice(&seq.to_be_bytes());
        bytes.extend_from_slice(sent);
        bytes.extend_from_slice(text);
        Self::new(Sha256::digest(&bytes).into())
    }

    /// Returns the running hash that a row holds, if it holds one.
    ///
    /// # Errors
    ///
    /// `DataCorrupted` with the place if the bytes are not a running hash.
    pub fn stored(bytes: Option<&[u8]>, place: impl Fn() -> String) -> Result<Option<Self>> {
        let hash = |bytes: &[u8]| match bytes.try_into() {
            Ok(bytes) => Ok(Self::new(bytes)),
            Err(_) => Err(Error::corrupted(format!(
                "the running hash of {} is damaged: it has {} bytes",
                place(),
                bytes.len()
            ))),
        };
        bytes.map(hash).transpose()
    }
}

/// Returns the SHA-256 of an event's stored text.
#[must_use]
pub fn text_hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Returns the SHA-256 of the text of an event that a store keeps in memory.
///
/// # Errors
///
/// None in practice: the event was written as text when it was prepared.
pub fn event_text_hash(event: &Event) -> Result<[u8; 32]> {
    Ok(text_hash(&json::to_text(event, "the event")?))
}

/// The parts of a session's initial-state row that concern the running hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredStart {
    /// The number of the last pruned event.
    pub base: u64,
    /// The running hash up to that event, and the number for which it was written.
    pub hash: Option<RunningHash>,
    pub hashed: u64,
}

impl StoredStart {
    /// Returns the running hash before the first remaining event. `None` if the events before it were pruned by a
    /// program that does not know the running hash.
    #[must_use]
    pub fn hash(&self, key: &SessionKey) -> Option<RunningHash> {
        match self.hash.filter(|_| self.hashed == self.base) {
            None if self.base == 0 => Some(RunningHash::start(key)),
            hash => hash,
        }
    }
}

/// The place after which a session's events have no running hash, and the running hash up to that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unhashed {
    /// The number of the last event that has a running hash or was pruned.
    pub after: u64,
    pub hash: RunningHash,
    /// Whether `hash` is the hash with which the running hash begins. If so, it has to be stored beside the session's
    /// initial state.
    pub is_start: bool,
}

impl Unhashed {
    /// Finds the place from the stored start and the session's row, whose `head` is the hash up to the event `hashed`.
    ///
    /// If events were pruned without keeping their running hash, the running hash begins again as in a new session.
    #[must_use]
    pub fn find(key: &SessionKey, hashed: u64, head: Option<RunningHash>, start: StoredStart) -> Self {
        if hashed > start.base
            && let Some(hash) = head
        {
            return Self { after: hashed, hash, is_start: false };
        }
        match start.hash(key) {
            Some(hash) => Self { after: start.base, hash, is_start: false },
            None => Self { after: start.base, hash: RunningHash::start(key), is_start: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Databases store these hashes and people note them: if the computation changed, none of them could be verified.
    #[test]
    fn the_running_hash_stays_what_it_is() {
        let key = SessionKey::new("app", "alice", "s").unwrap();
        let start = RunningHash::start(&key);
        assert_eq!(start.to_string(), "687cc96e6a685519a4d2074dedf243976e3f32e820afb18f21c85b8ca49b0ed4");
        let next = start.next(1, &[7; 32], &text_hash(r#"{"id":"e"}"#));
        assert_eq!(next.to_string(), "0fafb4aed5b912c15ac71316ebb445d0e1b9379ce549b146185a8503f177e5aa");
    }

    #[test]
    fn what_is_hashed_cannot_be_read_in_two_ways() {
        let start = |app, user, session| RunningHash::start(&SessionKey::new(app, user, session).unwrap());
        assert_ne!(start("ab", "c", "d"), start("a", "bc", "d"));
        assert_ne!(start("a", "bc", "d"), start("a", "b", "cd"));
        let (before, sent, text) = (start("a", "b", "c"), [1; 32], [2; 32]);
        assert_ne!(before.next(1, &sent, &text), before.next(2, &sent, &text));
        assert_ne!(before.next(1, &sent, &text), before.next(1, &text, &sent));
    }

    #[test]
    fn a_start_that_an_older_program_has_left_behind_is_not_used() {
        let key = SessionKey::new("app", "alice", "s").unwrap();
        let hash = Some(RunningHash::new([1; 32]));
        assert_eq!(StoredStart::default().hash(&key), Some(RunningHash::start(&key)));
        assert_eq!(StoredStart { base: 0, hash, hashed: 0 }.hash(&key), hash, "a fork's");
        assert_eq!(StoredStart { base: 9, hash, hashed: 9 }.hash(&key), hash);
        assert_eq!(StoredStart { base: 9, hash, hashed: 5 }.hash(&key), None);
        let begin = Unhashed::find(&key, 5, hash, StoredStart { base: 9, hash, hashed: 5 });
        assert_eq!(begin, Unhashed { after: 9, hash: RunningHash::start(&key), is_start: true });
    }
}
