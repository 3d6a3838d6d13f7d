//! A stored session.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use scratchbook_core::event::Event;
use scratchbook_core::session::SessionMetadata;
use scratchbook_core::state::Scope;
use serde_json::{Map, Value};

use super::now;

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The state with which the fold begins: the state after the event `base`, at `position` in the logs.
    pub(super) initial: Map<String, Value>,
    pub(super) base: u64,
    pub(super) position: u64,
    pub(super) state: Map<String, Value>,
    /// The number of the event that last wrote each key.
    pub(super) written: HashMap<String, u64>,
    pub(super) events: Vec<Arc<Event>>,
    /// The position of each event in the logs.
    pub(super) positions: Vec<u64>,
    /// By event id, the hash of the event as it was sent, and the position of its commit.
    pub(super) known: HashMap<String, ([u8; 32], u64)>,
    pub(super) made: i64,
    pub(super) micros: i64,
    pub(super) expires: Option<i64>,
    pub(super) metadata: SessionMetadata,
}

impl Kept {
    pub(super) fn last(&self) -> u64 {
        self.base + self.events.len() as u64
    }

    pub(super) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= now())
    }

    pub(super) fn positions_up_to(&self, seq: u64) -> &[u64] {
        &self.positions[..(seq - self.base) as usize]
    }

    pub(super) fn position_at(&self, seq: u64) -> u64 {
        self.positions_up_to(seq).last().copied().unwrap_or(self.position)
    }

    /// Returns the session's keys after an event, each with the number of the event that wrote it.
    pub(super) fn state_at(&self, seq: u64) -> Map2 {
        let mut state: Map2 =
            self.initial.clone().into_iter().map(|(name, value)| (name, (self.base, value))).collect();
        for event in self.events.iter().filter(|event| event.seq <= Some(seq)) {
            for (key, change) in
                event.actions.state_delta.iter().filter(|(key, _)| Scope::split(key).0 == Scope::Session)
            {
                match change.value() {
                    Some(value) => state.insert(key.to_owned(), (event.seq.unwrap_or_default(), value.clone())),
                    None => state.remove(key),
                };
            }
        }
        state
    }
}

/// Values by key, each with the number of the event that wrote it.
pub(super) type Map2 = BTreeMap<String, (u64, Value)>;
