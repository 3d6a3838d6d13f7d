//! The commit of an event. The caller holds the app's lock.

use std::sync::Arc;

use super::app::{AppData, CHECKPOINT_EVENTS, EventRecord, MemorySession, time_order};
use super::feed::FeedItem;
use super::hashes::SentForm;
use super::owned::Origin;
use super::place::SharedListPosition;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::plan::commit::{Prepared, key_changes, replay_of};
use crate::plan::limits::Limits;
use crate::plan::room::key_bytes;
use crate::plan::sent::UnwrittenEvent;
use crate::plan::update::PreparedUpdate;
use crate::session::{
    AppendOptions, Committed, ConflictMode, LogPositions, Outcome, SessionKey, SharedKeys, no_session,
};
use crate::state::{Change, Scope, StateDelta, change_scope};

/// An event whose commit needs no stored value.
pub(super) struct EventWrite {
    event: Event,
    sent: SentForm,
    bytes: u64,
    micros: i64,
    update: Option<Box<PreparedUpdate>>,
    shared_keys: SharedKeys,
}

impl From<UnwrittenEvent> for EventWrite {
    fn from(unwritten: UnwrittenEvent) -> Self {
        let UnwrittenEvent { event, completed, bytes, micros } = unwritten;
        Self {
            event,
            sent: SentForm::AsStored(completed),
            bytes,
            micros,
            update: None,
            shared_keys: SharedKeys::Written,
        }
    }
}

impl From<Prepared> for EventWrite {
    fn from(prepared: Prepared) -> Self {
        let Prepared { event, text, hash, micros, update, .. } = prepared;
        let (sent, bytes) = (SentForm::Hash(Arc::new(hash)), text.len() as u64);
        Self { event, sent, bytes, micros, update, shared_keys: SharedKeys::Written }
    }
}

/// Whether the commit of an event needs neither stored values nor an update of the session.
pub(super) fn is_plain(event: &Event, options: &AppendOptions) -> bool {
    options.conflict == ConflictMode::Merge
        && options.check.is_none()
        && options.update.as_ref().is_none_or(|update| update.is_empty())
        && !event.actions.state_delta.has_operations()
}

impl AppData {
    /// Commits a prepared event to an existing session. The caller has checked that the session has not expired.
    /// `next_position` is called only if the event is stored.
    pub(super) fn append(
        &mut self,
        key: &SessionKey,
        prepared: Prepared,
        options: &AppendOptions,
        shared_keys: SharedKeys,
        next_position: impl FnOnce() -> u64,
    ) -> Result<Committed> {
        let (_, stored) = self.session(key).ok_or_else(|| no_session(key))?;
        let id = &prepared.event.id;
        if let Some(committed) = stored.replayed(stored.ids.hash(id), id, || Ok(prepared.hash))? {
            return Ok(committed);
        }
        let prepared = match prepared.is_plain(options) {
            true => prepared,
            false => self.resolve(key, &prepared, options)?,
        };
        let limits = prepared.limits;
        self.commit(key, EventWrite { shared_keys, ..prepared.into() }, &limits, || i64::MIN, next_position)
    }

    /// Commits an event that needs no stored value to a session that has not expired.
    pub(super) fn commit(
        &mut self,
        key: &SessionKey,
        write: EventWrite,
        limits: &Limits,
        now: impl FnOnce() -> i64,
        next_position: impl FnOnce() -> u64,
    ) -> Result<Committed> {
        let user = self.users.get_mut(key.user_id()).ok_or_else(|| no_session(key))?;
        let stored = user.sessions.get_mut(key.session_id()).filter(|stored| !stored.is_expired(now));
        let stored = stored.ok_or_else(|| no_session(key))?;
        let (id, id_hash) = (&write.event.id, stored.ids.hash(&write.event.id));
        if let Some(committed) = stored.replayed(id_hash, id, || write.sent.hash(&write.event))? {
            return Ok(committed);
        }
        let EventWrite { mut event, sent, bytes, micros, update, shared_keys } = write;
        let seq = stored.last() + 1;
        limits.check_seq(seq)?;
        let delta = &event.actions.state_delta;
        let is_written = |scope| scope == Scope::Session || shared_keys == SharedKeys::Written;
        let scopes =
            [(Scope::Session, &stored.state), (Scope::User, &user.state.values), (Scope::App, &self.state.values)];
        for (scope, values) in scopes.into_iter().filter(|(scope, _)| is_written(*scope)) {
            // Usually there is room for all changed keys, whether they are new or not.
            if !delta.is_empty() && (values.len() + delta.len()) as u64 > limits.keys_per_scope {
                let changes = key_changes(delta);
                limits.check_changes(scope, &changes, values.len(), |name| values.contains_key(name))?;
            }
        }
        let updated = update.map(|update| update.apply(&stored.metadata, stored.expires)).transpose()?;
        if let Some((metadata, expires)) = updated {
            (stored.metadata, stored.expires) = (metadata.into(), expires);
        }
        let position = next_position();
        event.seq = Some(seq);
        let event = Arc::new(event);
        let time = event.timestamp.unwrap_or_default();
        let origin = Origin { position, session: Some((key, seq)), event_id: &event.id, author: &event.author, time };
        for (scope, name, change) in in_order(&event.actions.state_delta) {
            match scope {
                Scope::Session => stored.change(name, change, seq),
                Scope::User if is_written(scope) => user.state.change(name, change, &origin),
                Scope::App if is_written(scope) => self.state.change(name, change, &origin),
                _ => {}
            }
        }
        stored.ids.insert(id_hash, seq);
        stored.by_time.insert((time_order(time), seq));
        stored.events.push_back(Arc::clone(&event));
        stored.entries.push_back(EventRecord { position, bytes, sent });
        stored.bytes += bytes;
        if seq.is_multiple_of(CHECKPOINT_EVENTS) {
            stored.checkpoints.insert(seq, stored.state.clone());
        }
        user.feed.insert(position);
        self.feed.insert(position, FeedItem::Event(stored.key.clone(), seq));
        if micros != stored.micros {
            let (before, after) =
                (SharedListPosition::new(stored.micros, &stored.key), SharedListPosition::new(micros, &stored.key));
            for places in [&mut user.by_update, &mut self.by_update] {
                places.remove(&before);
                places.insert(after.clone());
            }
            stored.micros = micros;
        }
        Ok(Committed::new(event, Outcome::Stored).with_log_positions(LogPositions::of_feed(position)))
    }
}

impl MemorySession {
    /// Returns the event with this id, if there is one. `sent` returns the hash of the event that was sent now; the
    /// call fails if the stored event has another hash.
    fn replayed(&self, id_hash: u64, id: &str, sent: impl FnOnce() -> Result<[u8; 32]>) -> Result<Option<Committed>> {
        let Some(event) = self.event_with_id(id_hash, id) else {
            return Ok(None);
        };
        let entry = event.seq.and_then(|seq| self.entry(seq));
        let entry = entry.ok_or_else(|| Error::internal("an event without its place"))?;
        let outcome = replay_of(id, sent()? == entry.sent.hash(event)?)?;
        let logs = LogPositions::of_feed(entry.position);
        Ok(Some(Committed::new(Arc::clone(event), outcome).with_log_positions(logs)))
    }

    /// Changes one of the session's own keys.
    fn change(&mut self, name: &str, change: &Change, seq: u64) {
        let before = self.state.get(name).map_or(0, |value| key_bytes(name, value));
        change_scope(&mut self.state, name, change);
        let after = self.state.get(name).map_or(0, |value| key_bytes(name, value));
        self.state_bytes = self.state_bytes - before + after;
        // Usually the key exists already, and nothing is copied.
        match self.written.get_mut(name) {
            Some(written) => *written = seq,
            None => drop(self.written.insert(name.to_owned(), seq)),
        }
    }
}

/// Returns the changes in the order in which all stores log them: by scope, and within a scope by name.
fn in_order(delta: &StateDelta) -> Vec<(Scope, &str, &Change)> {
    let mut changes: Vec<_> = delta
        .iter()
        .map(|(key, change)| {
            let (scope, name) = Scope::split(key);
            (scope, name, change)
        })
        .collect();
    changes.sort_unstable_by_key(|(scope, name, _)| (*scope, *name));
    changes
}
