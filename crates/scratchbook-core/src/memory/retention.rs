//! Removal of old data. The caller holds the app's lock.

use std::collections::HashMap;
use std::sync::Arc;

use super::app::{AppData, MemorySession, time_order};
use super::history::initial_bytes;
use super::owned::OwnedState;
use crate::error::Result;
use crate::session::{SessionKey, StateOwner};

impl AppData {
    pub(super) fn session_mut(&mut self, key: &SessionKey) -> Option<&mut MemorySession> {
        self.users.get_mut(key.user_id())?.sessions.get_mut(key.session_id()).map(Box::as_mut)
    }

    pub(super) fn owned_mut(&mut self, owner: &StateOwner) -> Option<&mut OwnedState> {
        match owner.user_id() {
            Some(user_id) => self.users.get_mut(user_id).map(|user| &mut user.state),
            None => Some(&mut self.state),
        }
    }

    /// Returns expired sessions, at most this many.
    pub(super) fn expired(&self, now: i64, limit: usize) -> Vec<SessionKey> {
        let sessions = self.users.values().flat_map(|user| user.sessions.values());
        let expired = sessions.filter(|stored| stored.is_expired(|| now)).take(limit);
        expired.map(|stored| stored.key.clone()).collect()
    }

    /// Prunes events; returns how many, and the number of the last one removed.
    pub(super) fn prune_events(&mut self, key: &SessionKey, before: u64, limit: usize) -> Result<(usize, u64)> {
        let Some(stored) = self.session_mut(key) else {
            return Ok((0, 0));
        };
        let (pruned, last) = (stored.prune(before, limit)?, stored.base);
        let count = pruned.len();
        self.leave_feed(key, pruned);
        Ok((count, last))
    }
}

impl MemorySession {
    /// Removes the oldest events and returns their positions.
    fn prune(&mut self, before: u64, limit: usize) -> Result<Vec<u64>> {
        let count = self.count_up_to(before.saturating_sub(1)).min(limit);
        let base = self.base + count as u64;
        if count == 0 {
            return Ok(Vec::new());
        }
        let pruned: Vec<_> = self.entries.drain(..count).collect();
        let (begins, pruned_bytes) =
            (initial_bytes(&self.initial), pruned.iter().map(|entry| entry.bytes).sum::<u64>());
        self.initial = self.state_at(base);
        self.bytes = self.bytes - begins - pruned_bytes + initial_bytes(&self.initial);
        for event in self.events.slice(0, count).iter() {
            self.ids.remove(event);
            self.by_time.remove(&(time_order(event.timestamp.unwrap_or_default()), event.seq.unwrap_or_default()));
        }
        self.events = self.events.slice(count, self.events.len());
        self.position = pruned.last().map_or(self.position, |entry| entry.position);
        self.checkpoints.retain(|seq, _| *seq > base);
        self.base = base;
        Ok(pruned.into_iter().map(|entry| entry.position).collect())
    }
}

impl OwnedState {
    /// Removes the oldest changes that were overwritten before a position.
    pub(super) fn prune(&mut self, before: u64, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        self.pruned = self.pruned.max(before);
        let until = self.log.partition_point(|change| change.position < before);
        let last: HashMap<Arc<str>, u64> =
            self.log[..until].iter().map(|change| (Arc::clone(&change.name), change.position)).collect();
        let mut removed = 0;
        self.log.retain(|change| {
            let is_overwritten = last.get(&change.name).is_some_and(|last| change.position < *last);
            let goes = removed < limit && change.position < before && is_overwritten;
            removed += usize::from(goes);
            !goes
        });
        removed
    }
}
