//! Finds a session's events by their ids.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use crate::event::Event;
use crate::session::Events;

/// The numbers of events by the hash of their id.
///
/// The map holds hashes and no ids, so it is small, and growing it reads no event. Its hash function has random keys, so
/// nobody can choose ids with equal hashes; the few events with an equal hash are kept in a list.
#[derive(Clone, Debug, Default)]
pub(super) struct EventIds<S = RandomState> {
    hasher: S,
    first: HashMap<u64, u64, BuildHasherDefault<Unchanged>>,
    others: Vec<u64>,
}

impl EventIds {
    /// Returns the ids of a session with these events.
    pub(super) fn of(events: &Events) -> Self {
        let mut ids = Self::default();
        events.iter().for_each(|event| ids.insert(ids.hash(&event.id), event.seq.unwrap_or_default()));
        ids
    }
}

impl<S: BuildHasher> EventIds<S> {
    /// Returns the hash of an id, for the other functions.
    pub(super) fn hash(&self, id: &str) -> u64 {
        self.hasher.hash_one(id)
    }

    /// Returns the numbers of the events that may have an id with this hash.
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = u64> {
        self.first.get(&hash).into_iter().chain(&self.others).copied()
    }

    pub(super) fn insert(&mut self, hash: u64, seq: u64) {
        if let Some(seq) = self.first.insert(hash, seq) {
            self.others.push(seq);
        }
    }

    pub(super) fn remove(&mut self, event: &Event) {
        let (hash, seq) = (self.hash(&event.id), event.seq.unwrap_or_default());
        match self.first.get(&hash) {
            Some(first) if *first == seq => drop(self.first.remove(&hash)),
            _ => self.others.retain(|other| *other != seq),
        }
    }
}

/// Returns a hash as it is.
#[derive(Clone, Debug, Default)]
struct Unchanged(u64);

impl Hasher for Unchanged {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 << 8) | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every id has the same hash.
    #[derive(Default)]
    struct Equal;

    impl BuildHasher for Equal {
        type Hasher = Unchanged;

        fn build_hasher(&self) -> Unchanged {
            Unchanged(0)
        }

        fn hash_one<T: std::hash::Hash>(&self, _: T) -> u64 {
            7
        }
    }

    #[test]
    fn events_whose_ids_have_equal_hashes_are_all_found() {
        let mut ids = EventIds::<Equal>::default();
        let found = |ids: &EventIds<Equal>| {
            let mut found: Vec<_> = ids.candidates(ids.hash("any")).collect();
            found.sort_unstable();
            found
        };
        (1..=4).for_each(|seq| ids.insert(ids.hash("any"), seq));
        assert_eq!(found(&ids), [1, 2, 3, 4]);
        for (seq, left) in [(4, vec![1, 2, 3]), (1, vec![2, 3]), (3, vec![2]), (2, vec![])] {
            let mut event = Event::new("agent").with_id("any");
            event.seq = Some(seq);
            ids.remove(&event);
            assert_eq!(found(&ids), left);
        }
    }
}
