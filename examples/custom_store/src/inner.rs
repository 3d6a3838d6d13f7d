//! All data of the store, and how commits change it. The caller holds the lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{Error, KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::json::bytes_of;
use scratchbook_core::plan::{
    EventQuery, Found, KeyChange, PreparedArtifact, PreparedEvent, Refusal, StateQuery, replay,
};
use scratchbook_core::session::{
    AppendOptions, Committed, FeedCommit, LogPositions, Outcome, Removal, RemovalKind, Session, SessionKey, StateBytes,
    StateChange, StateOwner,
};
use scratchbook_core::state::{Scope, StateMap};
use serde_json::{Map, Value};

use super::kept::Kept;
use super::{missing, seconds};

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) closed: bool,
    pub(super) position: u64,
    pub(super) sessions: BTreeMap<SessionKey, Kept>,
    pub(super) owned: HashMap<StateOwner, Owned>,
    pub(super) artifacts: BTreeMap<ArtifactName, Vec<(PreparedArtifact, f64)>>,
    /// The commits, each with its position.
    pub(super) feed: Vec<(u64, FeedCommit)>,
}

/// The app, the user, the session (`None` for an artifact of the user), and the name.
pub(super) type ArtifactName = (String, String, Option<String>, String);

/// The state of a user or an app, and its log.
#[derive(Debug, Default)]
pub(super) struct Owned {
    pub(super) values: BTreeMap<String, Value>,
    pub(super) versions: HashMap<String, u64>,
    pub(super) log: Vec<StateChange>,
    pub(super) pruned: u64,
}

impl Inner {
    /// Returns a session, unless it has expired.
    pub(super) fn live(&self, key: &SessionKey) -> Option<&Kept> {
        self.sessions.get(key).filter(|kept| !kept.is_expired())
    }

    /// Returns the users of an app who have a session with this id.
    pub(super) fn users_with(&self, app_name: &str, session_id: &str) -> impl Iterator<Item = &str> {
        let of_app = self.sessions.iter().filter(move |(key, kept)| {
            (key.app_name(), key.session_id()) == (app_name, session_id) && !kept.is_expired()
        });
        of_app.map(|(key, _)| key.user_id())
    }

    pub(super) fn drop_expired(&mut self, key: &SessionKey) {
        if self.sessions.get(key).is_some_and(Kept::is_expired) {
            self.delete(key, RemovalKind::Expired);
        }
    }

    /// Adds a removal to the feed. It replaces earlier removals of the same session, or of all sessions of a removed
    /// user. A pruning replaces only an earlier pruning.
    pub(super) fn record(&mut self, removal: Removal) {
        self.feed.retain(|(_, commit)| {
            let FeedCommit::Removed(old) = commit else { return true };
            let is_of = old.user == removal.user && (removal.session.is_none() || old.session == removal.session);
            !is_of || removal.kind == RemovalKind::Pruned && old.kind != RemovalKind::Pruned
        });
        self.position += 1;
        self.feed.push((self.position, FeedCommit::Removed(removal)));
    }

    pub(super) fn delete(&mut self, key: &SessionKey, kind: RemovalKind) {
        let Some(kept) = self.sessions.remove(key) else { return };
        let last = kept.base + kept.events.len() as u64;
        self.record(Removal::of_session(kind, key.clone(), last, SystemEnvironment.now()));
        let session = Some(key.session_id());
        self.artifacts.retain(|(app, user, of, _), _| {
            (app.as_str(), user.as_str(), of.as_deref()) != (key.app_name(), key.user_id(), session)
        });
        self.feed.retain(|(_, commit)| {
            !matches!(commit,
            FeedCommit::Event { session, .. } | FeedCommit::Created { session, .. } if session == key)
        });
    }

    /// Adds the changes at the last position to the feed, for changes outside of events.
    pub(super) fn feed_changes(&mut self, owner: &StateOwner) {
        let position = self.position;
        let log = self.owned.get(owner).into_iter().flat_map(|owned| &owned.log);
        let changes: Vec<_> = log.filter(|change| change.position == position).cloned().collect();
        if !changes.is_empty() {
            self.feed.push((position, FeedCommit::State { owner: owner.clone(), changes }));
        }
    }

    /// Applies a change to a user's or an app's key and logs it.
    pub(super) fn change(
        &mut self,
        owner: StateOwner,
        change: &KeyChange,
        logged: impl Fn(StateChange) -> StateChange,
    ) {
        let position = self.position;
        let owned = self.owned.entry(owner).or_default();
        let version = owned.versions.entry(change.name.clone()).or_default();
        *version += 1;
        let value = change.change.value().cloned();
        match &value {
            Some(value) => owned.values.insert(change.name.clone(), value.clone()),
            None => owned.values.remove(&change.name),
        };
        owned.log.push(logged(StateChange::new(position, &change.name, *version, value)));
    }

    pub(super) fn append(
        &mut self,
        key: &SessionKey,
        prepared: PreparedEvent,
        options: &AppendOptions,
    ) -> Result<Committed> {
        self.drop_expired(key);
        let kept = self.sessions.get(key).ok_or_else(|| missing(key))?;
        if let Some((hash, position)) = kept.known.get(&prepared.event.id) {
            let outcome = replay(&prepared, hash)?;
            let stored = kept.events.iter().find(|event| event.id == prepared.event.id).ok_or_else(|| missing(key))?;
            return Ok(Committed::new(stored.clone(), outcome).with_log_positions(LogPositions::of_feed(*position)));
        }
        let seq = kept.last() + 1;
        let prepared = match prepared.is_plain(options) {
            true => prepared,
            // Operations, guards and optimistic locking depend on stored values.
            false => {
                let mut found = Found::new(seq - 1).with_create_time(kept.made);
                let reads = prepared.reads(options).map(|change| (change.scope, change.name.as_str()));
                self.find(key, reads, &mut found)?;
                self.find_all(key, prepared.reads_scopes(options), &mut found)?;
                prepared.resolve(options, &found).map_err(|refusal| self.refused(key, refusal))?
            }
        };
        prepared.limits.check_seq(seq)?;
        for scope in [Scope::Session, Scope::User, Scope::App] {
            let names = self.names(key, scope)?;
            prepared.limits.check_changes(scope, &prepared.changes, names.len(), |name| names.contains(name))?;
        }
        let kept = self.sessions.get_mut(key).ok_or_else(|| missing(key))?;
        if let Some(update) = &prepared.update {
            (kept.metadata, kept.expires) = update.apply(&kept.metadata, kept.expires)?;
        }
        self.position += 1;
        let mut event = prepared.event;
        event.seq = Some(seq);
        let event = Arc::new(event);
        kept.events.push(event.clone());
        kept.positions.push(self.position);
        self.feed.push((self.position, FeedCommit::Event { session: key.clone(), event: event.clone() }));
        kept.known.insert(event.id.clone(), (prepared.hash, self.position));
        kept.micros = prepared.micros;
        for change in &prepared.changes {
            if change.scope == Scope::Session {
                let kept = self.sessions.get_mut(key).ok_or_else(|| missing(key))?;
                kept.written.insert(change.name.clone(), seq);
                match change.change.value() {
                    Some(value) => drop(kept.state.insert(change.name.clone(), value.clone())),
                    None => drop(kept.state.remove(&change.name)),
                }
                continue;
            }
            self.change(owner_of(change.scope, key)?, change, |change| {
                let time = event.timestamp.unwrap_or_default();
                change.with_origin(key.clone(), seq, &event.id).with_author(&event.author, time)
            });
        }
        Ok(Committed::new(event, Outcome::Stored).with_log_positions(LogPositions::of_feed(self.position)))
    }

    /// Reads keys: their values, and the places of their last writes.
    pub(super) fn find<'a>(
        &self,
        key: &SessionKey,
        names: impl IntoIterator<Item = (Scope, &'a str)>,
        found: &mut Found,
    ) -> Result<()> {
        for (scope, name) in names {
            if scope == Scope::Session {
                if let Some(kept) = self.sessions.get(key) {
                    let place = kept.written.get(name).copied().unwrap_or_default();
                    found.insert(scope, name, kept.state.get(name).cloned(), place);
                }
            } else if let Some(owned) = self.owned.get(&owner_of(scope, key)?) {
                let last = owned.log.iter().rev().find(|change| change.name == name);
                found.insert(scope, name, owned.values.get(name).cloned(), last.map_or(0, |change| change.position));
            }
        }
        Ok(())
    }

    /// Reads every key of these scopes.
    pub(super) fn find_all(
        &self,
        key: &SessionKey,
        scopes: impl Iterator<Item = Scope>,
        found: &mut Found,
    ) -> Result<()> {
        for scope in scopes {
            self.find(key, self.names(key, scope)?.into_iter().map(|name| (scope, name)), found)?;
        }
        Ok(())
    }

    /// Returns the names of the existing keys of a scope.
    pub(super) fn names(&self, key: &SessionKey, scope: Scope) -> Result<BTreeSet<&str>> {
        if scope == Scope::Session {
            let kept = self.sessions.get(key).into_iter().flat_map(|kept| kept.state.keys());
            return Ok(kept.map(String::as_str).collect());
        }
        let owned = self.owned.get(&owner_of(scope, key)?).into_iter().flat_map(|owned| owned.values.keys());
        Ok(owned.map(String::as_str).collect())
    }

    /// Returns the error of a refusal, with the writers of the conflicting keys.
    pub(super) fn refused(&self, key: &SessionKey, refusal: Refusal) -> Error {
        let writers: Vec<_> =
            refusal.keys().map(|written| self.writer(key, written.scope, &written.name, written.place)).collect();
        refusal.into_error(writers)
    }

    /// Returns the writer of a key at a place: the number of an event, or a position in the log.
    pub(super) fn writer(&self, key: &SessionKey, scope: Scope, name: &str, place: u64) -> Option<KeyWriter> {
        let of_event = |key: &SessionKey, seq| {
            let event = self.sessions.get(key)?.events.iter().find(|event| event.seq == Some(seq))?;
            let writer = KeyWriter::new(&event.author).with_event(key.user_id(), key.session_id(), seq, &event.id);
            Some(writer.with_invocation(&event.invocation_id).with_time(event.timestamp.unwrap_or_default()))
        };
        if scope == Scope::Session {
            return of_event(key, place);
        }
        let log = &self.owned.get(&owner_of(scope, key).ok()?)?.log;
        let change = log.iter().find(|change| change.position == place && change.name == name)?;
        let writer = KeyWriter::new(&change.author).with_time(change.time);
        Some(match &change.origin {
            Some((key, seq)) => of_event(key, *seq)
                .filter(|writer| writer.event_id == change.event_id)
                .unwrap_or_else(|| writer.with_event(key.user_id(), key.session_id(), *seq, &change.event_id)),
            None => writer,
        })
    }

    pub(super) fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> StateBytes {
        let owned = |owner: &StateOwner| self.owned.get(owner).map_or(0, |owned| bytes_of_keys(&owned.values));
        let app = StateOwner::App { app_name: owner.app_name().into() };
        let key =
            owner.user_id().zip(session_id).and_then(|(user, id)| SessionKey::new(owner.app_name(), user, id).ok());
        StateBytes {
            session: key.and_then(|key| self.sessions.get(&key)).map_or(0, |kept| bytes_of_keys(&kept.state)),
            user: if owner.user_id().is_some() { owned(owner) } else { 0 },
            app: owned(&app),
        }
    }

    pub(super) fn session(&self, key: &SessionKey, events: EventQuery, state: &StateQuery) -> Result<Option<Session>> {
        let Some(kept) = self.live(key) else {
            return Ok(None);
        };
        let mut merged = Map::new();
        let wanted = |scope, name: &str| state.names(scope).is_none_or(|names| names.contains(name));
        for (name, value) in kept.state.iter().filter(|(name, _)| wanted(Scope::Session, name)) {
            merged.insert(name.clone(), value.clone());
        }
        for scope in [Scope::User, Scope::App] {
            let owned = self.owned.get(&owner_of(scope, key)?);
            let values = owned.into_iter().flat_map(|owned| &owned.values).filter(|(name, _)| wanted(scope, name));
            merged.extend(values.map(|(name, value)| (scope.key(name).into_owned(), value.clone())));
        }
        let last = |events: Vec<Arc<Event>>, count: usize| events[events.len().saturating_sub(count)..].to_vec();
        let all = || kept.events.iter().cloned();
        let number = |event: &Arc<Event>| event.seq.unwrap_or_default();
        let events = match events {
            EventQuery::None => Vec::new(),
            EventQuery::Last(count) => last(all().collect(), count),
            EventQuery::Since(time, count) => {
                let recent = all().filter(|event| event.timestamp.is_some_and(|t| t >= time));
                last(recent.collect(), count.unwrap_or(usize::MAX))
            }
            EventQuery::After(seq, limit) => all().filter(|event| number(event) > seq).take(limit).collect(),
            EventQuery::Before(seq, limit) => last(all().filter(|event| number(event) < seq).collect(), limit),
            _ => all().collect(),
        };
        let merged = StateMap::from(merged);
        if matches!(state, StateQuery::All) {
            StateBytes::of(&merged).check()?;
        }
        let session = Session::new(key.clone(), merged)
            .with_events(events.into_iter().collect())
            .with_create_time(seconds(kept.made))
            .with_last_update_time(seconds(kept.micros))
            .with_seq(kept.last())
            .with_expire_time(kept.expires.map(seconds))
            .with_metadata(kept.metadata.clone())
            .with_log_positions(LogPositions::of_feed(self.position));
        Ok(Some(session))
    }
}

fn bytes_of_keys<'a>(values: impl IntoIterator<Item = (&'a String, &'a Value)>) -> u64 {
    values.into_iter().map(|(name, value)| name.len() as u64 + bytes_of(value)).sum()
}

pub(super) fn owner_of(scope: Scope, key: &SessionKey) -> Result<StateOwner> {
    match scope {
        Scope::User => StateOwner::user(key.app_name(), key.user_id()),
        _ => StateOwner::app(key.app_name()),
    }
}
