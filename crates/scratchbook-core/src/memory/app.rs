//! The data of an app, and how commits change it. The caller holds the app's lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::feed::FeedItem;
use super::hashes::SentForm;
use super::ids::EventIds;
use super::owned::{Origin, OwnedState};
use super::place::SharedListPosition;
use super::removal::Removed;
use crate::error::Result;
use crate::event::Event;
use crate::plan::artifact::PreparedArtifact;
use crate::plan::commit::{KeyChange, PreparedSession};
use crate::plan::limits::Limits;
use crate::plan::query::{EventQuery, StateQuery, since_bounds};
use crate::session::{
    Events, LogPositions, Session, SessionKey, SessionMetadata, StateBytes, StateOwner, seconds_of_micros,
};
use crate::state::{Scope, ScopeMap, StateMap};

/// The number of events between two states that are kept of a session. A kept state takes almost no memory, because the
/// maps are persistent.
pub(super) const CHECKPOINT_EVENTS: u64 = 256;

#[derive(Debug, Default)]
pub(super) struct AppData {
    pub(super) state: OwnedState,
    pub(super) users: HashMap<Arc<str>, User>,
    pub(super) by_update: BTreeSet<SharedListPosition>,
    /// The ids of sessions, each with its user.
    by_id: BTreeSet<(Arc<str>, Arc<str>)>,
    /// The commits, by position.
    pub(super) feed: BTreeMap<u64, FeedItem>,
    /// The removals, by user and session; for the removal of a user, the session is empty.
    pub(super) removed: BTreeMap<(Arc<str>, Arc<str>), Removed>,
    /// The removals of sessions and users by position, and so by age.
    pub(super) removed_at: BTreeMap<u64, (Arc<str>, Arc<str>)>,
    /// The position up to which removals of sessions and users were dropped.
    pub(super) let_go: u64,
}

#[derive(Debug, Default)]
pub(super) struct User {
    pub(super) state: OwnedState,
    /// Boxed, so that the map moves pointers and not sessions when it grows.
    pub(super) sessions: HashMap<Arc<str>, Box<MemorySession>>,
    pub(super) by_update: BTreeSet<SharedListPosition>,
    pub(super) artifacts: BTreeMap<ArtifactName, ArtifactVersions>,
    /// The positions of the user's own commits in the app's feed.
    pub(super) feed: BTreeSet<u64>,
}

/// The versions of an artifact, each with the time it was saved.
pub(super) type ArtifactVersions = Vec<(PreparedArtifact, f64)>;

/// The session of an artifact (`None` if it belongs to the user), and the artifact's name.
pub(super) type ArtifactName = (Option<Arc<str>>, String);

#[derive(Debug)]
pub(super) struct MemorySession {
    pub(super) key: SessionKey,
    /// The state with which the fold begins: the state after event `base`, which is the last pruned event, or 0 if none
    /// was pruned.
    pub(super) initial: ScopeMap,
    pub(super) base: u64,
    /// The position in the logs of the user and the app at which the fold starts.
    pub(super) position: u64,
    pub(super) state: ScopeMap,
    /// The size of the keys and values in `state`.
    pub(super) state_bytes: u64,
    /// The number of the event that last wrote a key, 0 for the session's creation.
    pub(super) written: HashMap<String, u64>,
    pub(super) events: Events,
    /// What is kept beside each event.
    pub(super) entries: VecDeque<EventRecord>,
    /// The size of all events and the initial state together.
    pub(super) bytes: u64,
    /// The state after some of the events, by number.
    pub(super) checkpoints: BTreeMap<u64, ScopeMap>,
    pub(super) ids: EventIds,
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

/// What is kept beside an event.
#[derive(Clone, Debug)]
pub(super) struct EventRecord {
    /// The position of the event's commit in the logs.
    pub(super) position: u64,
    /// The size of the event as JSON, in bytes.
    pub(super) bytes: u64,
    pub(super) sent: SentForm,
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

impl AppData {
    /// Returns the owners of data in no particular order: the app, if it or one of its users has data, and each user
    /// that has data.
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
        self.users.entry(user_id.into()).or_default()
    }

    /// Applies changes to user and app keys.
    pub(super) fn change_shared(&mut self, user_id: &str, changes: &[KeyChange], origin: &Origin<'_>) {
        let of_user = || changes.iter().filter(|change| change.scope == Scope::User);
        if of_user().next().is_some() {
            self.user(user_id).state.change_all(of_user(), origin);
        }
        self.state.change_all(changes.iter().filter(|change| change.scope == Scope::App), origin);
    }

    pub(super) fn session(&self, key: &SessionKey) -> Option<(&User, &MemorySession)> {
        let user = self.users.get(key.user_id())?;
        Some((user, user.sessions.get(key.session_id())?.as_ref()))
    }

    /// Returns the users who have a session with this id, expired ones included.
    pub(super) fn users_with(&self, session_id: &str) -> impl Iterator<Item = (&str, &MemorySession)> {
        let from = (Arc::from(session_id), Arc::from(""));
        let same = self.by_id.range(from..).take_while(move |(id, _)| **id == *session_id);
        same.filter_map(|(id, user_id)| Some((user_id.as_ref(), self.users.get(user_id)?.sessions.get(id)?.as_ref())))
    }

    /// Adds a new session to all indexes.
    pub(super) fn keep(&mut self, stored: MemorySession) {
        let (user_id, session_id) = stored.key.shared_ids();
        let (place, position) = (SharedListPosition::new(stored.micros, &stored.key), stored.created);
        self.by_id.insert((Arc::clone(&session_id), Arc::clone(&user_id)));
        self.by_update.insert(place.clone());
        self.feed.insert(position, FeedItem::Created(stored.key.clone()));
        let user = self.users.entry(user_id).or_default();
        user.feed.insert(position);
        user.by_update.insert(place);
        user.sessions.insert(session_id, Box::new(stored));
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
            self.by_id.remove(&(Arc::clone(&place.session_id), Arc::clone(&place.user_id)));
        }
        for position in &user.feed {
            self.feed.remove(position);
        }
        Some(user.sessions.len() as u64)
    }

    pub(super) fn merged(&self, user: &User, stored: &MemorySession, query: &StateQuery) -> StateMap {
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

    /// Returns the size of the state of a session, which need not exist yet, and of its user and its app.
    pub(super) fn state_bytes(&self, user_id: Option<&str>, session: u64) -> StateBytes {
        let user = user_id.and_then(|user_id| self.users.get(user_id));
        StateBytes { session, user: user.map_or(0, |user| user.state.bytes), app: self.state.bytes }
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

    /// Removes a session; returns the number of its last event, if it existed.
    pub(super) fn remove_session(&mut self, key: &SessionKey) -> Option<u64> {
        let user = self.users.get_mut(key.user_id())?;
        let stored = user.sessions.remove(key.session_id())?;
        let place = SharedListPosition::new(stored.micros, &stored.key);
        user.by_update.remove(&place);
        user.artifacts.retain(|(session, _), _| session.as_deref() != Some(key.session_id()));
        self.by_update.remove(&place);
        self.by_id.remove(&(key.session_id().into(), key.user_id().into()));
        self.leave_feed(key, stored.entries.iter().map(|entry| entry.position));
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

impl MemorySession {
    /// Returns the current session. `position` is the last position that was assigned.
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

    /// Returns the number of the last event.
    pub(super) fn last(&self) -> u64 {
        self.base + self.events.len() as u64
    }

    /// Returns how many of the existing events have a number up to this one.
    pub(super) fn count_up_to(&self, seq: u64) -> usize {
        usize::try_from(seq.saturating_sub(self.base)).map_or(self.events.len(), |count| count.min(self.events.len()))
    }

    pub(super) fn event(&self, seq: u64) -> Option<&Arc<Event>> {
        if seq <= self.base { None } else { self.events.get(self.count_up_to(seq - 1)) }
    }

    /// Returns the event with this id; `hash` is the hash of the id.
    pub(super) fn event_with_id(&self, hash: u64, id: &str) -> Option<&Arc<Event>> {
        self.ids.candidates(hash).filter_map(|seq| self.event(seq)).find(|event| event.id == id)
    }

    /// Returns what is kept beside an event.
    pub(super) fn entry(&self, seq: u64) -> Option<&EventRecord> {
        if seq <= self.base { None } else { self.entries.get(self.count_up_to(seq - 1)) }
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

pub(super) fn owned<'a>(app: &'a AppData, owner: &StateOwner) -> Option<&'a OwnedState> {
    match owner.user_id() {
        Some(user_id) => app.users.get(user_id).map(|user| &user.state),
        None => Some(&app.state),
    }
}
