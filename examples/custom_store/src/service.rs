//! Sessions and state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use scratchbook_core::environment::{Environment, SystemEnvironment};
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::{
    EventQuery, Feed, Found, ListPosition, ListQuery, LocateQuery, Room, StateQuery, check_event_number,
    event_text_hash, fork_key, log_pruned, prepare_append, prepare_session, prepare_state, prepare_update,
};
use scratchbook_core::session::{
    AppendOptions, Capabilities, ChangeQuery, CommitNotices, Committed, CreateSessionConfig, EventHash, EventHashes,
    FeedCommit, FeedPage, FeedStart, ForkConfig, GetSessionConfig, IdScope, InitialState, ListSessionsConfig,
    ListSessionsResponse, ListStateConfig, Outcome, Prune, PutStateOptions, Removal, RemovalKind, Session, SessionKey,
    SessionService, SessionUpdate, StateBytes, StateChange, StateOwner, StatePage,
};
use scratchbook_core::state::{Scope, StateDelta, StateMap};
use serde_json::{Map, Value};

use super::inner::owner_of;
use super::kept::Kept;
use super::{MapStore, micros, missing, now, seconds, taken};

/// The maximum number of bytes in a page of a log.
const LOG_BYTES: u64 = 16 << 20;

/// Returns the size of a value as JSON text, in bytes.
fn bytes(value: &Value) -> u64 {
    value.to_string().len() as u64
}

#[async_trait]
impl SessionService for MapStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let prepared = prepare_session(app_name, user_id, config, &SystemEnvironment, &self.limits)?;
        let (key, mut inner) = (prepared.key.clone(), self.open()?);
        inner.drop_expired(&key);
        let is_taken = match prepared.id_scope {
            IdScope::App => inner.users_with(key.app_name(), key.session_id()).next().is_some(),
            _ => inner.sessions.contains_key(&key),
        };
        if is_taken {
            return Err(taken(&key));
        }
        let mut found = Found::new(0);
        inner.find(&key, prepared.reads(), &mut found)?;
        inner.find_all(&key, prepared.reads_scopes(), &mut found)?;
        let prepared = prepared.resolve(found).map_err(|refusal| inner.refused(&key, refusal))?;
        for scope in [Scope::User, Scope::App] {
            let names = inner.names(&key, scope)?;
            prepared.check_keys(scope, names.len(), |name| names.contains(name))?;
        }
        inner.state_bytes(&key.user(), None).check()?;
        let (initial, state) = (prepared.initial.clone(), prepared.initial);
        inner.position += 1;
        let (position, micros, expires) = (inner.position, prepared.created, prepared.expires);
        let metadata = prepared.metadata;
        let made = FeedCommit::Created { session: key.clone(), state: initial.clone(), forked_at: None };
        inner.sessions.insert(
            key.clone(),
            Kept { initial, state, metadata, position, made: micros, micros, expires, ..Kept::default() },
        );
        for change in &prepared.shared {
            inner.change(owner_of(change.scope, &key)?, change, |change| {
                change.with_origin(key.clone(), 0, "").with_author("user", seconds(prepared.created))
            });
        }
        inner.feed_changes(&key.user());
        inner.feed_changes(&key.app());
        if matches!(&made, FeedCommit::Created { state, .. } if !state.is_empty()) {
            inner.feed.push((position, made));
        }
        for event in prepared.events {
            inner.append(&key, event, &AppendOptions::default())?;
        }
        self.notifier.notify();
        inner.session(&key, EventQuery::All, &StateQuery::All)?.ok_or_else(|| missing(&key))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let query = EventQuery::new(config)?;
        let session = self.open()?.session(key, query, &StateQuery::new(&config.state)?)?;
        Ok(session.map(|session| {
            let events = query.fit(session.events().clone(), config.page_bytes);
            session.with_events(events)
        }))
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        Ok(self.open()?.live(key).map(|kept| InitialState::new(kept.base, kept.initial.clone())))
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        let inner = self.open()?;
        let kept = inner.live(key).ok_or_else(|| missing(key))?;
        check_event_number(key, seq, kept.base, kept.last())?;
        let position = kept.position_at(seq);
        let mut state: Map<String, Value> =
            kept.state_at(seq).into_iter().map(|(name, (_, value))| (name, value)).collect();
        for (scope, owner) in [(Scope::User, key.user()), (Scope::App, key.app())] {
            let Some(owned) = inner.owned.get(&owner) else { continue };
            if position + 1 < owned.pruned {
                return Err(log_pruned(key, seq));
            }
            for change in owned.log.iter().take_while(|change| change.position <= position) {
                let key = scope.key(&change.name).into_owned();
                match &change.value {
                    Some(value) => drop(state.insert(key, value.clone())),
                    None => drop(state.shift_remove(&key)),
                }
            }
        }
        let state = StateMap::from(state);
        StateBytes::of(&state).check()?;
        Ok(state)
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        let inner = self.open()?;
        let kept = inner.live(key).ok_or_else(|| missing(key))?;
        let mut writers = BTreeMap::new();
        for name in kept.state.keys() {
            let place = kept.written.get(name).copied().unwrap_or_default();
            let unknown = || KeyWriter::default().with_event(key.user_id(), key.session_id(), place, "");
            let writer = inner.writer(key, Scope::Session, name, place).unwrap_or_else(unknown);
            writers.insert(name.clone(), writer);
        }
        for scope in [Scope::User, Scope::App] {
            let Some(owned) = inner.owned.get(&owner_of(scope, key)?) else { continue };
            for name in owned.values.keys() {
                let last = owned.log.iter().rev().find(|change| change.name == *name);
                let place = last.map_or(0, |change| change.position);
                writers
                    .extend(inner.writer(key, scope, name, place).map(|writer| (scope.key(name).into_owned(), writer)));
            }
        }
        Ok(writers)
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        let (fork, mut inner) = (fork_key(key, &config, &SystemEnvironment)?, self.open()?);
        inner.drop_expired(&fork);
        let kept = inner.live(key).ok_or_else(|| missing(key))?;
        let at = config.at.unwrap_or_else(|| kept.last());
        check_event_number(key, at, kept.base, kept.last())?;
        if inner.sessions.contains_key(&fork) {
            return Err(taken(&fork));
        }
        inner.state_bytes(&key.user(), Some(key.session_id())).check()?;
        let state = kept.state_at(at);
        let written = state.iter().map(|(name, (seq, _))| (name.clone(), *seq)).collect();
        let events: Vec<_> = kept.events.iter().filter(|event| event.seq <= Some(at)).cloned().collect();
        let ids: BTreeSet<_> = events.iter().map(|event| event.id.as_str()).collect();
        let known = kept.known.iter().filter(|(id, _)| ids.contains(id.as_str()));
        let known = known.map(|(id, known)| (id.clone(), *known)).collect();
        let micros = events.last().and_then(|event| event.timestamp).map_or_else(now, micros);
        let initial = kept.initial.clone();
        let copy = Kept {
            initial: initial.clone(),
            base: kept.base,
            position: kept.position,
            state: state.into_iter().map(|(name, (_, value))| (name, value)).collect(),
            written,
            positions: kept.positions_up_to(at).to_vec(),
            events,
            known,
            made: now(),
            micros,
            expires: None,
            metadata: kept.metadata.clone(),
        };
        let artifacts = inner.artifacts.iter().filter(|((app, user, session, _), _)| {
            (app.as_str(), user.as_str(), session.as_deref()) == (key.app_name(), key.user_id(), Some(key.session_id()))
        });
        let copies: Vec<_> = artifacts
            .map(|((app, user, _, name), versions)| {
                ((app.clone(), user.clone(), Some(fork.session_id().to_owned()), name.clone()), versions.clone())
            })
            .collect();
        inner.artifacts.extend(copies);
        inner.sessions.insert(fork.clone(), copy);
        inner.position += 1;
        let made = FeedCommit::Created { session: fork.clone(), state: initial, forked_at: Some(at) };
        let position = inner.position;
        inner.feed.push((position, made));
        self.notifier.notify();
        inner.session(&fork, EventQuery::None, &StateQuery::All)?.ok_or_else(|| missing(&fork))
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        config.check()?;
        let inner = self.open()?;
        let values = inner.owned.get(owner).into_iter().flat_map(|owned| &owned.values);
        let mut wanted = values
            .filter(|(name, _)| name.starts_with(&config.prefix))
            .filter(|(name, _)| config.after.as_ref().is_none_or(|after| *name > after));
        let (mut page, mut room) = (Map::new(), Room::new(config.page_bytes));
        let full = wanted.find(|(name, value)| {
            let fits = page.len() < config.page_size && room.takes(bytes(value));
            if fits {
                page.insert((*name).clone(), (*value).clone());
            }
            !fits
        });
        let next = full.and_then(|_| page.keys().next_back().cloned());
        Ok(StatePage::new(page, next))
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let inner = self.open()?;
        let feed = Feed::new(&self.id, owner);
        let after = feed.start(start, inner.position)?;
        let commits = inner.feed.iter().filter(|(position, commit)| {
            let of = match commit {
                FeedCommit::Event { session, .. } | FeedCommit::Created { session, .. } => session.user(),
                FeedCommit::State { owner, .. } => owner.clone(),
                FeedCommit::Removed(removal) => removal.user.clone(),
                _ => return false,
            };
            let is_of = of == *owner || owner.user_id().is_none() && of.app_name() == owner.app_name();
            is_of && *position >= after.position
        });
        Ok(feed.page(after, commits.cloned(), limit.clamp(1, 1000)))
    }

    fn commits(&self) -> Result<CommitNotices> {
        drop(self.open()?);
        Ok(self.notifier.subscribe())
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        let (update, mut inner) = (prepare_update(update, &SystemEnvironment)?, self.open()?);
        inner.drop_expired(key);
        let kept = inner.sessions.get_mut(key).ok_or_else(|| missing(key))?;
        (kept.metadata, kept.expires) = update.apply(&kept.metadata, kept.expires)?;
        Ok(())
    }

    async fn prune(&self, what: Prune, limit: usize) -> Result<u64> {
        match what {
            Prune::Expired => self.prune_expired(limit).await,
            Prune::Events { session, before } => self.prune_events(&session, before, limit).await,
            Prune::StateLog { owner, before } => self.prune_state_log(&owner, before, limit).await,
        }
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        StateOwner::app(app_name)?; // checks the name
        let (query, inner) = (ListQuery::new(config)?, self.open()?);
        let of_app = inner.sessions.iter().filter(|(key, _)| key.app_name() == app_name);
        let place = |key: &SessionKey, micros| ListPosition {
            micros,
            user_id: key.user_id().to_owned(),
            session_id: key.session_id().to_owned(),
        };
        let mut places: Vec<_> = of_app
            .filter(|(_, kept)| !kept.is_expired())
            .filter(|(key, _)| query.user_id.as_deref().is_none_or(|user_id| user_id == key.user_id()))
            .map(|(key, kept)| (place(key, kept.micros), (key, kept)))
            .filter(|(place, _)| query.is_after(place))
            .collect();
        query.sort(&mut places);
        let (page, token) = query.pick(places, |(_, kept)| &kept.metadata);
        let (page, token) = query.fit(page, token, |_, (_, kept)| kept.state.values().map(bytes).sum());
        let mut sessions = Vec::new();
        for (_, (key, _)) in page {
            sessions.extend(inner.session(key, EventQuery::None, &StateQuery::All)?);
        }
        Ok(ListSessionsResponse::new(sessions, token))
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        let (query, inner) = (LocateQuery::new(app_name, session_id)?, self.open()?);
        query.pick(inner.users_with(&query.app_name, &query.session_id))
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.open()?.delete(key, RemovalKind::Deleted);
        // Watchers of the session see that it was deleted.
        self.notifier.notify();
        Ok(())
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        if event.is_partial() {
            drop(self.open()?);
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let prepared = prepare_append(event, &options, &SystemEnvironment, &self.limits)?;
        let committed = self.open()?.append(key, prepared, &options)?;
        self.notifier.notify();
        Ok(committed)
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let inner = self.open()?;
        inner.state_bytes(owner, None).alone(owner).check()?;
        let values = inner.owned.get(owner).map(|owned| owned.values.clone());
        Ok(values.into_iter().flatten().collect())
    }

    async fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> Result<StateBytes> {
        Ok(self.open()?.state_bytes(owner, session_id))
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let prepared = prepare_state(owner, delta, &options, &self.limits)?;
        let ((author, time), mut inner) = (options.checked(|| SystemEnvironment.now())?, self.open()?);
        // The owner's keys are looked up by the address of a session, which need not exist.
        let of = SessionKey::new(owner.app_name(), owner.user_id().unwrap_or_default(), "any")?;
        let mut found = Found::new(0);
        inner.find(&of, prepared.reads().map(|change| (change.scope, change.name.as_str())), &mut found)?;
        inner.find_all(&of, prepared.reads_scopes(), &mut found)?;
        let changes = prepared.resolve(&found).map_err(|refusal| inner.refused(&of, refusal))?;
        for scope in [Scope::User, Scope::App] {
            let names = inner.names(&of, scope)?;
            prepared.limits.check_changes(scope, &changes, names.len(), |name| names.contains(name))?;
        }
        inner.position += 1;
        for change in &changes {
            inner.change(owner.clone(), change, |change| change.with_author(&author, time));
        }
        inner.feed_changes(owner);
        self.notifier.notify();
        Ok(inner.position)
    }

    async fn list_state_changes(
        &self,
        owner: &StateOwner,
        query: &ChangeQuery,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        let inner = self.open()?;
        query.check(owner)?;
        let mut up_to = u64::MAX;
        if let ChangeQuery::OfKey { at: Some((session, seq)), .. } = query {
            let kept = inner.live(session).ok_or_else(|| missing(session))?;
            check_event_number(session, *seq, kept.base, kept.last())?;
            up_to = kept.position_at(*seq) + 1;
        }
        let (log, mut room) = (inner.owned.get(owner).map_or(&[][..], |owned| &owned.log), Room::new(LOG_BYTES));
        match query {
            ChangeQuery::After(after) => {
                let log: Vec<_> = log.iter().filter(|change| change.position > *after).cloned().collect();
                let limit = log.iter().take(limit).take_while(|change| room.takes(change.bytes())).count();
                // A page ends between two commits, never within one.
                let end = log.get(limit.wrapping_sub(1)).map_or(0, |last| last.position);
                Ok(log
                    .into_iter()
                    .enumerate()
                    .filter(|(n, c)| *n < limit || c.position == end)
                    .map(|(_, c)| c)
                    .collect())
            }
            ChangeQuery::OfKey { name, before, .. } => {
                let before = up_to.min(*before);
                let of_key = log.iter().rev().filter(|change| change.position < before && change.name == *name);
                Ok(of_key.take(limit).take_while(|change| room.takes(change.bytes())).cloned().collect())
            }
        }
    }

    async fn list_event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Result<Option<EventHashes>> {
        let inner = self.open()?;
        let Some(kept) = inner.live(key) else { return Ok(None) };
        let mut events = Vec::new();
        for event in &kept.events {
            let seq = event.seq.unwrap_or_default();
            if seq > after && events.len() < limit {
                let sent = kept.known.get(&event.id).map(|(hash, _)| hash.to_vec()).unwrap_or_default();
                events.push(EventHash::new(seq, event.id.as_str(), sent, event_text_hash(event)?));
            }
        }
        Ok(Some(EventHashes::new(kept.base, kept.last()).with_events(events)))
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        let inner = self.open()?;
        let mut owners: BTreeSet<_> = inner.owned.keys().cloned().collect();
        for key in inner.sessions.keys() {
            owners.insert(StateOwner::user(key.app_name(), key.user_id())?);
        }
        for (app_name, user_id, ..) in inner.artifacts.keys() {
            owners.insert(StateOwner::user(app_name, user_id)?);
        }
        for owner in owners.clone() {
            owners.insert(StateOwner::app(owner.app_name())?);
        }
        Ok(owners.into_iter().filter(|owner| after.is_none_or(|after| owner > after)).take(limit).collect())
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        let (user, mut inner) = (StateOwner::user(app_name, user_id)?, self.open()?);
        let sessions = inner.sessions.keys().filter(|key| key.user() == user).count() as u64;
        let is_there = sessions > 0
            || inner.owned.contains_key(&user)
            || inner.artifacts.keys().any(|(app, of, ..)| (app.as_str(), of.as_str()) == (app_name, user_id));
        inner.sessions.retain(|key, _| (key.app_name(), key.user_id()) != (app_name, user_id));
        if is_there {
            inner.record(Removal::of_user(user.clone(), sessions, SystemEnvironment.now()));
        }
        inner.feed.retain(|(_, commit)| match commit {
            FeedCommit::Event { session, .. } | FeedCommit::Created { session, .. } => session.user() != user,
            FeedCommit::State { owner, .. } => *owner != user,
            _ => true,
        });
        inner.artifacts.retain(|(app, of, ..), _| (app.as_str(), of.as_str()) != (app_name, user_id));
        inner.owned.remove(&user);
        let of_app = inner.owned.get_mut(&StateOwner::app(app_name)?).into_iter().flat_map(|owned| &mut owned.log);
        for change in of_app {
            change.origin.take_if(|(key, _)| key.user_id() == user_id);
            if change.author == user_id {
                change.author.clear();
            }
        }
        self.notifier.notify();
        Ok(())
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        self.open().map(|_| Vec::new())
    }

    async fn close(&self) -> Result<()> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.notifier.close();
        Ok(())
    }
}

impl MapStore {
    async fn prune_expired(&self, limit: usize) -> Result<u64> {
        let mut inner = self.open()?;
        let expired = inner.sessions.iter().filter(|(_, kept)| kept.is_expired()).map(|(key, _)| key.clone());
        let expired: Vec<_> = expired.take(limit).collect();
        expired.iter().for_each(|key| inner.delete(key, RemovalKind::Expired));
        self.notifier.notify();
        Ok(expired.len() as u64)
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        let mut inner = self.open()?;
        inner.drop_expired(key);
        let Some(kept) = inner.sessions.get_mut(key) else { return Ok(0) };
        let old = kept.events.iter().take_while(|event| event.seq.unwrap_or_default() < before).count().min(limit);
        let base = kept.base + old as u64;
        if old > 0 {
            kept.initial = kept.state_at(base).into_iter().map(|(name, (_, value))| (name, value)).collect();
            kept.base = base;
            kept.position = kept.positions[old - 1];
            kept.positions.drain(..old);
            for event in kept.events.drain(..old) {
                kept.known.remove(&event.id);
            }
            inner.feed.retain(|(_, commit)| {
                !matches!(commit, FeedCommit::Event { session, event } if session == key && event.seq <= Some(base))
            });
            let now = SystemEnvironment.now();
            inner.record(Removal::of_session(RemovalKind::Pruned, key.clone(), base, now));
        }
        Ok(old as u64)
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        let mut inner = self.open()?;
        // Changes that are written from now on are not pruned, whatever position was requested.
        let before = before.min(inner.position + 1);
        let Some(owned) = inner.owned.get_mut(owner).filter(|_| limit > 0) else { return Ok(0) };
        owned.pruned = owned.pruned.max(before);
        let old = owned.log.iter().filter(|change| change.position < before);
        let last: HashMap<_, _> = old.map(|change| (change.name.clone(), change.position)).collect();
        let mut removed = 0;
        owned.log.retain(|change| {
            let goes = removed < limit
                && change.position < before
                && last.get(&change.name).is_some_and(|last| change.position < *last);
            removed += usize::from(goes);
            !goes
        });
        Ok(removed as u64)
    }
}
