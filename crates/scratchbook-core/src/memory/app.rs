//! The data of an app, and how commits change it. The caller holds the app's lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::plan::artifact::PreparedArtifact;
use crate::plan::commit::{KeyChange, Prepared, PreparedSession, replay};
use crate::plan::limits::Limits;
use crate::plan::query::{EventQuery, ListPosition, StateQuery, since_bounds};
use crate::plan::running_hash::event_text_hash;
use crate::session::{
    AppendOptions, Committed, EventHash, EventHashes, Events, LogPositions, Outcome, RunningHash, Session, SessionKey,
    SessionMetadata, StateChange, StateOwner, no_session, seconds_of_micros,
};
use crate::state::{Scope, ScopeMap, StateMap, change_scope};

use super::feed::Item;
use super::removal::Removed;

/// The state of a session is kept after this number of events. With persistent maps, this costs next to nothing.
pub(super) const CHECKPOINT_EVENTS: u64 = 256;

#[derive(Debug, Default)]
pub(super) struct App {
    pub(super) state: OwnedState,
    pub(super) users: HashMap<Arc<str>, User>,
    pub(super) by_update: BTreeSet<ListPosition>,
    /// The ids of sessions, each with its user.
    by_id: BTreeSet<(Arc<str>, Arc<str>)>,
    /// The commits, by position.
    pub(super) feed: BTreeMap<u64, Item>,
    /// The removals, by user and session; the removal of a user has an empty session.
    pub(super) removed: BTreeMap<(Arc<str>, Arc<str>), Removed>,
    /// The removals of sessions and users by position, and so by age.
    pub(super) removed_at: BTreeMap<u64, (Arc<str>, Arc<str>)>,
    /// The position up to which removals of sessions and users were dropped.
    pub(super) let_go: u64,
}

#[derive(Debug, Default)]
pub(super) struct User {
    pub(super) state: OwnedState,
    pub(super) sessions: HashMap<Arc<str>, Stored>,
    pub(super) by_update: BTreeSet<ListPosition>,
    pub(super) artifacts: BTreeMap<ArtifactName, Versions>,
    /// The positions of the user's own commits in the app's feed.
    pub(super) feed: BTreeSet<u64>,
}

/// The versions of an artifact, each with the time it was saved.
pub(super) type Versions = Vec<(PreparedArtifact, f64)>;

/// The session of an artifact, `None` for the user's, and its name.
pub(super) type ArtifactName = (Option<Arc<str>>, String);

/// The state of a user or an app, and the log of which the state is the fold.
#[derive(Debug, Default)]
pub(super) struct OwnedState {
    pub(super) values: ScopeMap,
    /// The version of every key ever written, and the position of its last write.
    pub(super) versions: HashMap<String, (u64, u64)>,
    pub(super) log: Vec<StateChange>,
    /// The log was pruned below this position.
    pub(super) pruned: u64,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) key: SessionKey,
    /// The state with which the fold begins: the state after event `base`, which is the last pruned event, or 0 if none
    /// was pruned.
    pub(super) initial: ScopeMap,
    pub(super) base: u64,
    /// The position in the logs of the user and the app at which the fold starts.
    pub(super) position: u64,
    pub(super) state: ScopeMap,
    /// The number of the event that last wrote a key, 0 for the session's creation.
    pub(super) written: HashMap<String, u64>,
    pub(super) events: Events,
    /// The position of each event's commit in the logs.
    pub(super) positions: VecDeque<u64>,
    /// The running hash before the first event, and that up to each event.
    pub(super) start: RunningHash,
    pub(super) running: VecDeque<RunningHash>,
    /// The size of each event as JSON, in bytes.
    pub(super) sizes: VecDeque<u64>,
    /// The size of all events and the initial state together.
    pub(super) bytes: u64,
    /// The state after some of the events, by number.
    pub(super) checkpoints: BTreeMap<u64, ScopeMap>,
    pub(super) ids: HashMap<String, EventEntry>,
    /// Timestamps in order, each with the number of its event.
    pub(super) by_time: BTreeSet<(u64, u64)>,
    /// The times of creation and of the last update, in microseconds since 1970.
    pub(super) made: i64,
    pub(super) micros: i64,
    pub(super) expires: Option<i64>,
    pub(super) metadata: Arc<SessionMetadata>,
    /// The position of the session's creation in the feed.
    pub(super) created: u64,
    /// For a fork, the number of the last event copied from the other session.
    pub(super) forked_at: Option<u64>,
}

/// An event, found by its id.
#[derive(Clone, Debug)]
pub(super) struct EventEntry {
    hash: [u8; 32],
    pub(super) seq: u64,
    position: u64,
}

/// The origin of a write as logged, without the change itself.
pub(super) struct Origin<'a> {
    pub(super) position: u64,
    pub(super) session: Option<(&'a SessionKey, u64)>,
    pub(super) event_id: &'a str,
    pub(super) author: &'a str,
    pub(super) time: f64,
}

impl OwnedState {
    pub(super) fn change(&mut self, change: &KeyChange, origin: &Origin<'_>) {
        change_scope(&mut self.values, &change.name, &change.change);
        let (version, position) = self.versions.entry(change.name.clone()).or_default();
        *version += 1;
        *position = origin.position;
        self.log.push(StateChange {
            position: origin.position,
            name: change.name.clone(),
            version: *version,
            value: change.change.value().cloned(),
            origin: origin.session.map(|(key, seq)| (key.clone(), seq)),
            event_id: origin.event_id.to_owned(),
            author: origin.author.to_owned(),
            time: origin.time,
        });
    }
}

impl User {
    fn has_something(&self) -> bool {
        !self.sessions.is_empty() || !self.state.log.is_empty() || !self.artifacts.is_empty()
    }

    /// Whether no data of the user is left.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_something() && self.state.versions.is_empty() && self.feed.is_empty()
    }
}

impl App {
    /// Returns the app, if it or one of its users has data, and the users that have data, in no order.
    pub(super) fn owners(&self, app_name: &Arc<str>) -> Vec<StateOwner> {
        let users = self.users.iter().filter(|(_, user)| user.has_something());
        let user = |user_id: &Arc<str>| StateOwner::User { app_name: app_name.clone(), user_id: user_id.clone() };
        let mut owners: Vec<_> = users.map(|(user_id, _)| user(user_id)).collect();
        if !owners.is_empty() || !self.state.log.is_empty() {
            owners.push(StateOwner::App { app_name: app_name.clone() });
        }
        owners
    }

    pub(super) fn user(&mut self, user_id: &str) -> &mut User {
        if !self.users.contains_key(user_id) {
            self.users.insert(user_id.into(), User::default());
        }
        self.users.entry(user_id.into()).or_default()
    }

    /// Applies changes to user and app keys.
    pub(super) fn change_shared(&mut self, user_id: &str, changes: &[KeyChange], origin: &Origin<'_>) {
        for change in changes {
            match change.scope {
                Scope::User => self.user(user_id).state.change(change, origin),
                Scope::App => self.state.change(change, origin),
                Scope::Session | Scope::Temp => {}
            }
        }
    }

    pub(super) fn session(&self, key: &SessionKey) -> Option<(&User, &Stored)> {
        let user = self.users.get(key.user_id())?;
        Some((user, user.sessions.get(key.session_id())?))
    }

    /// Returns the users who have a session with this id, expired ones included.
    pub(super) fn users_with(&self, session_id: &str) -> impl Iterator<Item = (&str, &Stored)> {
        let from = (Arc::from(session_id), Arc::from(""));
        let same = self.by_id.range(from..).take_while(move |(id, _)| **id == *session_id);
        same.filter_map(|(id, user_id)| Some((user_id.as_ref(), self.users.get(user_id)?.sessions.get(id)?)))
    }

    /// Adds a new session to all indexes.
    pub(super) fn keep(&mut self, stored: Stored) {
        let (place, key) = (stored.list_position(), stored.key.clone());
        self.by_id.insert((key.session_id().into(), key.user_id().into()));
        self.by_update.insert(place.clone());
        self.enter_feed(stored.created, Item::Created(key.clone()));
        let user = self.user(key.user_id());
        user.by_update.insert(place);
        user.sessions.insert(key.session_id().into(), stored);
    }

    /// Removes a user with all data, except for entries in the app's log; returns the number of sessions, if the user
    /// existed.
    pub(super) fn remove_user(&mut self, user_id: &str) -> Option<u64> {
        let has_something = self.users.get(user_id)?.has_something();
        let had_something = self.forget_removals(user_id) > 0;
        if !has_something && !had_something {
            return None;
        }
        let user = self.users.remove(user_id)?;
        for place in &user.by_update {
            self.by_update.remove(place);
            self.by_id.remove(&(place.session_id.as_str().into(), user_id.into()));
        }
        for position in &user.feed {
            self.feed.remove(position);
        }
        Some(user.sessions.len() as u64)
    }

    pub(super) fn merged(&self, user: &User, stored: &Stored, query: &StateQuery) -> StateMap {
        let part = |scope, values: &ScopeMap| match query.names(scope) {
            None => values.clone(),
            Some(names) => names
                .iter()
                .filter_map(|name| Some((Arc::from(name.as_str()), values.get(name.as_str())?.clone())))
                .collect(),
        };
        StateMap::new(
            part(Scope::Session, &stored.state),
            part(Scope::User, &user.state.values),
            part(Scope::App, &self.state.values),
        )
    }

    /// Commits a prepared event to an existing session. `next_position` is called only if the event is stored.
    pub(super) fn append(
        &mut self,
        key: &SessionKey,
        prepared: Prepared,
        options: &AppendOptions,
        next_position: impl FnOnce() -> u64,
    ) -> Result<Committed> {
        let Some((_, stored)) = self.session(key) else {
            return Err(no_session(key));
        };
        if let Some(EventEntry { hash, seq, position }) = stored.ids.get(&prepared.event.id) {
            let outcome = replay(&prepared, hash)?;
            let event = stored.event(*seq).ok_or_else(|| Error::internal("an event without its place"))?;
            return Ok(Committed::new(Arc::clone(event), outcome).with_log_positions(LogPositions::of_feed(*position)));
        }
        let prepared = match prepared.is_plain(options) {
            true => prepared,
            false => self.resolve(key, &prepared, options)?,
        };
        prepared.limits.check_seq(stored.last() + 1)?;
        if !prepared.changes.is_empty() {
            let has = |name: &str| stored.state.contains_key(name);
            prepared.limits.check_changes(Scope::Session, &prepared.changes, stored.state.len(), has)?;
            self.check_shared(key.user_id(), &prepared.changes, &prepared.limits)?;
        }
        let update = prepared.update.as_ref();
        let updated = update.map(|update| update.apply(&stored.metadata, stored.expires)).transpose()?;
        let committed = self.commit(key, prepared, next_position())?;
        if let (Some((metadata, expires)), Some(stored)) = (updated, self.session_mut(key)) {
            (stored.metadata, stored.expires) = (metadata.into(), expires);
        }
        Ok(committed)
    }

    /// Refuses a session that would exceed the limit on keys of the user or the app.
    pub(super) fn check_created(&self, prepared: &PreparedSession) -> Result<()> {
        self.check_owned(prepared.key.user_id(), |scope, values| {
            prepared.check_keys(scope, values.len(), |name| values.contains_key(name))
        })
    }

    /// Refuses changes that would exceed the limit on keys of the user or the app.
    pub(super) fn check_shared(&self, user_id: &str, changes: &[KeyChange], limits: &Limits) -> Result<()> {
        self.check_owned(user_id, |scope, values| {
            limits.check_changes(scope, changes, values.len(), |name| values.contains_key(name))
        })
    }

    fn check_owned(&self, user_id: &str, check: impl Fn(Scope, &ScopeMap) -> Result<()>) -> Result<()> {
        let user = self.users.get(user_id);
        check(Scope::User, user.map_or(&ScopeMap::new(), |user| &user.state.values))?;
        check(Scope::App, &self.state.values)
    }

    fn commit(&mut self, key: &SessionKey, prepared: Prepared, position: u64) -> Result<Committed> {
        let user = self.users.get_mut(key.user_id()).ok_or_else(|| no_session(key))?;
        let stored = user.sessions.get_mut(key.session_id()).ok_or_else(|| no_session(key))?;
        let Prepared { mut event, hash, text_hash, micros, changes, text, .. } = prepared;
        let size = text.len() as u64;
        let seq = stored.last() + 1;
        event.seq = Some(seq);
        let event = Arc::new(event);
        let time = event.timestamp.unwrap_or_default();
        stored.ids.insert(event.id.clone(), EventEntry { hash, seq, position });
        stored.by_time.insert((time_order(time), seq));
        stored.events.insert(stored.events.len(), Arc::clone(&event));
        stored.positions.push_back(position);
        stored.running.push_back(stored.head().next(seq, &hash, &text_hash));
        stored.sizes.push_back(size);
        stored.bytes += size;
        for change in changes.iter().filter(|change| change.scope == Scope::Session) {
            change_scope(&mut stored.state, &change.name, &change.change);
            // Usually the key exists already, and nothing is copied.
            match stored.written.get_mut(&change.name) {
                Some(written) => *written = seq,
                None => drop(stored.written.insert(change.name.clone(), seq)),
            }
        }
        if seq.is_multiple_of(CHECKPOINT_EVENTS) {
            stored.checkpoints.insert(seq, stored.state.clone());
        }
        user.feed.insert(position);
        self.feed.insert(position, Item::Event(stored.key.clone(), seq));
        let before = stored.list_position();
        stored.micros = micros;
        for places in [&mut user.by_update, &mut self.by_update] {
            let place = places.take(&before).unwrap_or_else(|| before.clone());
            places.insert(ListPosition { micros, ..place });
        }
        let origin = Origin { position, session: Some((key, seq)), event_id: &event.id, author: &event.author, time };
        self.change_shared(key.user_id(), &changes, &origin);
        Ok(Committed::new(event, Outcome::Stored).with_log_positions(LogPositions::of_feed(position)))
    }

    /// Removes a session; returns the number of its last event, if it existed.
    pub(super) fn remove_session(&mut self, key: &SessionKey) -> Option<u64> {
        let user = self.users.get_mut(key.user_id())?;
        let stored = user.sessions.remove(key.session_id())?;
        let position = stored.list_position();
        user.by_update.remove(&position);
        user.artifacts.retain(|(session, _), _| session.as_deref() != Some(key.session_id()));
        self.by_update.remove(&position);
        self.by_id.remove(&(key.session_id().into(), key.user_id().into()));
        self.leave_feed(key, &stored.positions);
        // If the creation wrote keys of the user or the app, these stay, and so does the creation's entry in the feed.
        if self.changes_at(stored.created, key.user()).or_else(|| self.changes_at(stored.created, key.app())).is_none()
        {
            self.drop_from_feed(key.user_id(), stored.created);
        }
        Some(stored.last())
    }
}

/// Returns the bits of a time that is not negative. They sort in the order of the times, and `-0.0` equals `0.0`.
pub(super) fn time_order(seconds: f64) -> u64 {
    (seconds + 0.0).to_bits()
}

impl Stored {
    pub(super) fn list_position(&self) -> ListPosition {
        ListPosition {
            micros: self.micros,
            user_id: self.key.user_id().to_owned(),
            session_id: self.key.session_id().to_owned(),
        }
    }

    /// Returns the current session; the position is the last one assigned.
    pub(super) fn to_session(&self, state: StateMap, events: Events, position: u64) -> Session {
        Session::new(self.key.clone(), state)
            .with_events(events)
            .with_create_time(seconds_of_micros(self.made))
            .with_last_update_time(seconds_of_micros(self.micros))
            .with_seq(self.last())
            .with_expire_time(self.expires.map(seconds_of_micros))
            .with_metadata(Arc::clone(&self.metadata))
            .with_stored_bytes(self.bytes)
            .with_log_positions(LogPositions::of_feed(position))
    }

    /// Returns the running hash up to the last event.
    pub(super) fn head(&self) -> RunningHash {
        self.running.back().copied().unwrap_or(self.start)
    }

    /// Returns the hashes of the events after a number.
    pub(super) fn event_hashes(&self, after: u64, limit: usize) -> Result<EventHashes> {
        let from = self.count_up_to(after);
        let events = self.events.slice(from, self.events.len().min(from.saturating_add(limit)));
        let hashes = events.iter().zip(self.running.range(from..)).map(|(event, running)| {
            let sent = self.ids.get(&event.id).map(|entry| entry.hash.to_vec()).unwrap_or_default();
            Ok(EventHash::new(event.seq.unwrap_or_default(), sent, event_text_hash(event)?, Some(*running)))
        });
        let last = self.last();
        let page = EventHashes::new(self.base, Some(self.start), last, last).with_head(Some(self.head()));
        Ok(page.with_events(hashes.collect::<Result<_>>()?))
    }

    /// Returns the number of the last event.
    pub(super) fn last(&self) -> u64 {
        self.base + self.events.len() as u64
    }

    /// Returns the number of existing events with a number up to this one.
    pub(super) fn count_up_to(&self, seq: u64) -> usize {
        usize::try_from(seq.saturating_sub(self.base)).map_or(self.events.len(), |count| count.min(self.events.len()))
    }

    pub(super) fn event(&self, seq: u64) -> Option<&Arc<Event>> {
        if seq <= self.base { None } else { self.events.get(self.count_up_to(seq - 1)) }
    }

    /// Whether the session has expired. The clock is read only if the session has an expiry time.
    pub(super) fn is_expired(&self, now: impl FnOnce() -> i64) -> bool {
        self.expires.is_some_and(|expires| expires <= now())
    }

    pub(super) fn select(&self, query: EventQuery) -> Events {
        let len = self.events.len();
        let slice = |from: usize, to: usize| match (from, to) {
            (0, to) if to == len => self.events.clone(),
            (from, to) if from >= to => Events::default(),
            (from, to) => self.events.slice(from, to),
        };
        match query {
            EventQuery::None => Events::default(),
            EventQuery::All => self.events.clone(),
            EventQuery::Last(count) => slice(len.saturating_sub(count), len),
            EventQuery::After(seq, limit) => {
                let from = self.count_up_to(seq);
                slice(from, from.saturating_add(limit).min(len))
            }
            EventQuery::Before(seq, limit) => {
                let to = self.count_up_to(seq.saturating_sub(1));
                slice(to.saturating_sub(limit), to)
            }
            EventQuery::Since(seconds, count) => self.since(seconds, count.unwrap_or(usize::MAX)),
        }
    }

    /// Returns the events from a time on, at most the last `count` of them in the store's order.
    ///
    /// If few events match, the index on time finds them. If many match, a search backwards by number soon finds the
    /// last ones, unless the clock was very wrong.
    pub(super) fn since(&self, seconds: f64, count: usize) -> Events {
        let matching = || self.by_time.range((time_order(seconds), 0)..);
        if let Some((many, far)) = since_bounds(count)
            && matching().take(many).count() == many
        {
            let recent = |event: &&Arc<Event>| event.timestamp.is_some_and(|t| t >= seconds);
            let tail: Vec<_> = self.events.iter().rev().take(far).filter(recent).take(count).cloned().collect();
            if tail.len() == count {
                return tail.into_iter().rev().collect();
            }
        }
        let mut numbers: Vec<_> = matching().map(|(_, seq)| *seq).collect();
        numbers.sort_unstable();
        let skip = numbers.len().saturating_sub(count);
        numbers[skip..].iter().filter_map(|seq| self.event(*seq).cloned()).collect()
    }
}

pub(super) fn owned<'a>(app: &'a App, owner: &StateOwner) -> Option<&'a OwnedState> {
    match owner.user_id() {
        Some(user_id) => app.users.get(user_id).map(|user| &user.state),
        None => Some(&app.state),
    }
}
