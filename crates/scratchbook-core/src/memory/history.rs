//! Point-in-time state, the writers of keys, and forks. The caller holds the app's lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Map;

use super::app::{AppData, MemorySession, User};
use super::ids::EventIds;
use super::owned::OwnedState;
use crate::error::{Error, KeyWriter, Result};
use crate::plan::fork::{check_event_number, log_pruned};
use crate::plan::limits::state_bytes;
use crate::plan::resolve::WrittenKey;
use crate::plan::room::{Room, bytes_of_values};
use crate::session::{Events, ListStateConfig, SessionKey, StateBytes, StatePage, no_session};
use crate::state::{Scope, ScopeMap, StateMap, change_scope};
use crate::store::taken;

impl AppData {
    pub(super) fn state_at(&self, user: &User, stored: &MemorySession, seq: u64) -> Result<StateMap> {
        check_event_number(&stored.key, seq, stored.base, stored.last())?;
        let position = stored.position_at(seq);
        let shared = |state: &OwnedState| state.at(position).ok_or_else(|| log_pruned(&stored.key, seq));
        let state = StateMap::new(stored.state_at(seq), shared(&user.state)?, shared(&self.state)?);
        StateBytes::of(&state).check()?;
        Ok(state)
    }

    pub(super) fn blame(&self, user: &User, stored: &MemorySession) -> BTreeMap<String, KeyWriter> {
        let key = &stored.key;
        let own = stored.state.iter().map(|(name, _)| {
            let seq = stored.written.get(name.as_ref()).copied().unwrap_or_default();
            let unknown = || KeyWriter::default().with_event(key.user_id(), key.session_id(), seq, "");
            (name.to_string(), stored.writer(key, seq).unwrap_or_else(unknown))
        });
        let shared = [(Scope::User, &user.state), (Scope::App, &self.state)].into_iter().flat_map(|(scope, state)| {
            state.values.iter().filter_map(move |(name, _)| {
                let place = state.written_at(name);
                let mut writer = state.writer(&WrittenKey { scope, name: name.to_string(), place })?;
                writer.invocation_id = self.invocation_of(key.app_name(), &writer).unwrap_or_default();
                Some((scope.key(name).into_owned(), writer))
            })
        });
        own.chain(shared).collect()
    }

    fn invocation_of(&self, app_name: &str, writer: &KeyWriter) -> Option<String> {
        let (user_id, session_id) = writer.session.as_ref()?;
        let (_, stored) = self.session(&SessionKey::new(app_name, user_id, session_id).ok()?)?;
        let event = stored.event(writer.seq).filter(|event| event.id == writer.event_id)?;
        Some(event.invocation_id.clone())
    }

    /// Creates a session from another session's events up to one of them, by default up to the last.
    pub(super) fn fork(
        &mut self,
        key: &SessionKey,
        fork: &SessionKey,
        at: Option<u64>,
        created: i64,
        next_position: impl FnOnce() -> u64,
    ) -> Result<()> {
        let (_, stored) = self.session(key).ok_or_else(|| no_session(key))?;
        let at = at.unwrap_or_else(|| stored.last());
        check_event_number(key, at, stored.base, stored.last())?;
        if self.session(fork).is_some() {
            return Err(taken(fork));
        }
        let position = next_position();
        let forked = stored.forked(fork, at, position, created);
        self.state_bytes(Some(key.user_id()), forked.state_bytes).check()?;
        let user = self.users.get_mut(key.user_id()).ok_or_else(|| Error::internal("a session without its user"))?;
        let names = user.artifacts.iter().filter(|((session, _), _)| session.as_deref() == Some(key.session_id()));
        let copies: Vec<_> =
            names.map(|((_, name), kept)| ((Some(fork.session_id().into()), name.clone()), kept.clone())).collect();
        user.artifacts.extend(copies);
        self.keep(forked);
        Ok(())
    }
}

impl MemorySession {
    /// Creates a session without events.
    pub(super) fn new(key: &SessionKey, initial: ScopeMap, position: u64, micros: i64) -> Self {
        Self {
            key: key.clone(),
            bytes: initial_bytes(&initial),
            state_bytes: bytes_of_values(&initial),
            state: initial.clone(),
            initial,
            base: 0,
            position,
            written: HashMap::new(),
            events: Events::default(),
            entries: VecDeque::new(),
            checkpoints: BTreeMap::new(),
            ids: EventIds::default(),
            by_time: BTreeSet::new(),
            made: micros,
            micros,
            expires: None,
            metadata: Arc::default(),
            created: position,
            forked_at: None,
        }
    }

    /// Returns the position of an event's commit in the logs; for the last pruned event, the position at which the
    /// fold starts.
    pub(super) fn position_at(&self, seq: u64) -> u64 {
        let last = self.count_up_to(seq).checked_sub(1);
        last.and_then(|place| self.entries.get(place)).map_or(self.position, |entry| entry.position)
    }

    /// Returns the session's own keys after an existing event, or after the last pruned event.
    pub(super) fn state_at(&self, seq: u64) -> ScopeMap {
        if seq == self.last() {
            return self.state.clone();
        }
        let kept = self.checkpoints.range(..=seq).next_back();
        let (from, state) = kept.map_or((self.base, &self.initial), |(seq, state)| (*seq, state));
        let mut state = state.clone();
        for event in self.events.slice(self.count_up_to(from), self.count_up_to(seq)).iter() {
            for (key, change) in event.actions.state_delta.iter() {
                let (scope, name) = Scope::split(key);
                if scope == Scope::Session {
                    change_scope(&mut state, name, change);
                }
            }
        }
        state
    }

    fn forked(&self, fork: &SessionKey, at: u64, created_at: u64, created: i64) -> Self {
        let count = self.count_up_to(at);
        let events = self.events.slice(0, count);
        let state = self.state_at(at);
        let mut written = HashMap::new();
        for name in state.keys() {
            let last = self.written.get(name.as_ref()).copied().filter(|last| *last <= at);
            // If an event after `at` wrote the key again, the key's last write up to `at` is in the copied events or
            // before them.
            let seq = last.or_else(|| last_write(&events, name)).unwrap_or(self.base);
            written.insert(name.to_string(), seq);
        }
        let micros = events.last().and_then(|event| event.timestamp);
        let entries: VecDeque<_> = self.entries.iter().take(count).cloned().collect();
        Self {
            key: fork.clone(),
            bytes: initial_bytes(&self.initial) + entries.iter().map(|entry| entry.bytes).sum::<u64>(),
            entries,
            initial: self.initial.clone(),
            base: self.base,
            position: self.position,
            state_bytes: bytes_of_values(&state),
            state,
            written,
            checkpoints: self.checkpoints.range(..=at).map(|(seq, state)| (*seq, state.clone())).collect(),
            ids: EventIds::of(&events),
            by_time: self.by_time.iter().filter(|(_, seq)| *seq <= at).copied().collect(),
            made: created,
            micros: micros.map_or(created, crate::session::micros_of_seconds),
            expires: None,
            metadata: Arc::clone(&self.metadata),
            created: created_at,
            forked_at: Some(at),
            events,
        }
    }
}

/// Returns the size of an initial state as JSON, in bytes. It was checked when it was written.
pub(super) fn initial_bytes(initial: &ScopeMap) -> u64 {
    state_bytes(initial.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))).unwrap_or_default()
}

fn last_write(events: &Events, name: &str) -> Option<u64> {
    let wrote = |event: &&Arc<crate::event::Event>| {
        event.actions.state_delta.iter().any(|(key, _)| Scope::split(key) == (Scope::Session, name))
    };
    events.iter().rev().find(wrote).and_then(|event| event.seq)
}

impl OwnedState {
    /// Returns the values as of a position; `None` if the log does not reach back far enough.
    fn at(&self, position: u64) -> Option<ScopeMap> {
        if self.log.last().is_none_or(|change| change.position <= position) {
            return Some(self.values.clone());
        }
        if position + 1 < self.pruned {
            return None;
        }
        let mut values = ScopeMap::new();
        for change in self.log.iter().take_while(|change| change.position <= position) {
            match &change.value {
                Some(value) => drop(values.insert(Arc::clone(&change.name), Arc::clone(value))),
                None => drop(values.remove(&change.name)),
            }
        }
        Some(values)
    }

    pub(super) fn page(&self, config: &ListStateConfig) -> StatePage {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let prefix = config.prefix.as_str();
        let from = match config.after.as_deref() {
            Some(after) if after >= prefix => Excluded(after),
            _ => Included(prefix),
        };
        let names = self.values.range::<_, str>((from, Unbounded)).take_while(|(name, _)| name.starts_with(prefix));
        let (mut values, mut room) = (Map::new(), Room::new(config.page_bytes));
        for (name, value) in names {
            if values.len() == config.page_size
                || !room.takes(name.len() as u64 + crate::json::bytes_of(value.as_ref()))
            {
                let next = values.keys().next_back().cloned();
                return StatePage::new(values, next);
            }
            values.insert(name.to_string(), value.as_ref().clone());
        }
        StatePage::new(values, None)
    }
}
