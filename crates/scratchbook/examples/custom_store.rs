//! A store of your own: plain maps under one lock, on the descriptions of `scratchbook::plan`, held to every promise
//! by the conformance suite.
//!
//! It shows what a store has to do and no more: nothing in it is fast.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use scratchbook::plan::{
    EventQuery, Found, KeyChange, ListPosition, ListQuery, PreparedArtifact, PreparedEvent, Refusal, StateQuery,
    WrittenKey, check_filename, prepare_artifact, prepare_event, prepare_session, prepare_state, replay,
};
use scratchbook::*;
use serde_json::{Map, Value};

#[derive(Debug, Default)]
struct MapStore {
    limits: Limits,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    closed: bool,
    position: u64,
    sessions: BTreeMap<SessionKey, Kept>,
    owned: HashMap<StateOwner, Owned>,
    artifacts: BTreeMap<ArtifactName, Vec<(PreparedArtifact, f64)>>,
}

/// The app, the user, the session or `None` for the user's own, and the name.
type ArtifactName = (String, String, Option<String>, String);

#[derive(Debug, Default)]
struct Kept {
    initial: Map<String, Value>,
    state: Map<String, Value>,
    /// The number of the event that wrote a key last.
    written: HashMap<String, u64>,
    events: Vec<Arc<Event>>,
    /// The hash of an event as it was sent, and the position of its commit.
    known: HashMap<String, ([u8; 32], u64)>,
    micros: i64,
}

/// State of a user or an app, and its log.
#[derive(Debug, Default)]
struct Owned {
    values: BTreeMap<String, Value>,
    versions: HashMap<String, u64>,
    log: Vec<StateChange>,
}

fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

fn missing(key: &SessionKey) -> Error {
    Error::new(ErrorKind::NotFound, format!("session not found: {key}; create it first"))
}

impl MapStore {
    fn open(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.closed {
            return Err(Error::new(ErrorKind::FailedPrecondition, "the store was closed; open it again"));
        }
        Ok(inner)
    }
}

impl Inner {
    /// Applies a change to a user's or an app's key and logs it.
    fn change(&mut self, owner: StateOwner, change: &KeyChange, logged: impl Fn(StateChange) -> StateChange) {
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

    fn append(&mut self, key: &SessionKey, prepared: PreparedEvent, options: &AppendOptions) -> Result<Committed> {
        let kept = self.sessions.get(key).ok_or_else(|| missing(key))?;
        if let Some((hash, position)) = kept.known.get(&prepared.event.id) {
            let outcome = replay(&prepared, hash)?;
            let stored = kept.events.iter().find(|event| event.id == prepared.event.id).ok_or_else(|| missing(key))?;
            return Ok(Committed::new(stored.clone(), outcome).with_log_positions(LogPositions::of_feed(*position)));
        }
        let seq = kept.events.len() as u64 + 1;
        let prepared = match prepared.is_plain(options) {
            true => prepared,
            // Operations, guards, and appends that want to be refused for being late depend on what is stored.
            false => {
                let mut found = Found::new(seq - 1);
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
        self.position += 1;
        let kept = self.sessions.get_mut(key).ok_or_else(|| missing(key))?;
        let mut event = prepared.event;
        event.seq = Some(seq);
        let event = Arc::new(event);
        kept.events.push(event.clone());
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

    /// Reads keys: their values, and where they were written last.
    fn find<'a>(
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
    fn find_all(&self, key: &SessionKey, scopes: impl Iterator<Item = Scope>, found: &mut Found) -> Result<()> {
        for scope in scopes {
            self.find(key, self.names(key, scope)?.into_iter().map(|name| (scope, name)), found)?;
        }
        Ok(())
    }

    /// The keys of a scope that are there.
    fn names(&self, key: &SessionKey, scope: Scope) -> Result<BTreeSet<&str>> {
        if scope == Scope::Session {
            let kept = self.sessions.get(key).into_iter().flat_map(|kept| kept.state.keys());
            return Ok(kept.map(String::as_str).collect());
        }
        let owned = self.owned.get(&owner_of(scope, key)?).into_iter().flat_map(|owned| owned.values.keys());
        Ok(owned.map(String::as_str).collect())
    }

    /// Looks up who wrote the keys in the way.
    fn refused(&self, key: &SessionKey, refusal: Refusal) -> Error {
        let writer = |WrittenKey { scope, name, place, .. }: &WrittenKey| {
            if *scope == Scope::Session {
                let event = self.sessions.get(key)?.events.iter().find(|event| event.seq == Some(*place))?;
                let writer = KeyWriter::new(&event.author);
                return Some(writer.with_event(key.user_id(), key.session_id(), *place, &event.id));
            }
            let log = &self.owned.get(&owner_of(*scope, key).ok()?)?.log;
            let change = log.iter().find(|change| change.position == *place && change.name == *name)?;
            let writer = KeyWriter::new(&change.author);
            Some(match &change.origin {
                Some((key, seq)) => writer.with_event(key.user_id(), key.session_id(), *seq, &change.event_id),
                None => writer,
            })
        };
        let writers: Vec<_> = refusal.keys().map(writer).collect();
        refusal.into_error(writers)
    }

    fn session(&self, key: &SessionKey, events: EventQuery, state: &StateQuery) -> Result<Option<Session>> {
        let Some(kept) = self.sessions.get(key) else {
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
        let session = Session::new(key.clone(), merged.into())
            .with_events(events.into_iter().collect())
            .with_last_update_time(seconds(kept.micros))
            .with_seq(kept.events.len() as u64)
            .with_log_positions(LogPositions::of_feed(self.position));
        Ok(Some(session))
    }
}

fn owner_of(scope: Scope, key: &SessionKey) -> Result<StateOwner> {
    match scope {
        Scope::User => StateOwner::user(key.app_name(), key.user_id()),
        _ => StateOwner::app(key.app_name()),
    }
}

#[async_trait]
impl SessionService for MapStore {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let prepared = prepare_session(app_name, user_id, config, &SystemEnvironment, &self.limits)?;
        let (key, mut inner) = (prepared.key.clone(), self.open()?);
        if inner.sessions.contains_key(&key) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("session already exists: {key}")));
        }
        let mut found = Found::new(0);
        inner.find(&key, prepared.reads(), &mut found)?;
        inner.find_all(&key, prepared.reads_scopes(), &mut found)?;
        let prepared = prepared.resolve(found).map_err(|refusal| inner.refused(&key, refusal))?;
        for scope in [Scope::User, Scope::App] {
            let names = inner.names(&key, scope)?;
            prepared.check_keys(scope, names.len(), |name| names.contains(name))?;
        }
        let (initial, state) = (prepared.initial.clone(), prepared.initial);
        let kept = Kept { initial, state, micros: prepared.created, ..Kept::default() };
        inner.sessions.insert(key.clone(), kept);
        inner.position += 1;
        for change in &prepared.shared {
            inner.change(owner_of(change.scope, &key)?, change, |change| {
                change.with_origin(key.clone(), 0, "").with_author("user", seconds(prepared.created))
            });
        }
        for event in prepared.events {
            inner.append(&key, event, &AppendOptions::default())?;
        }
        inner.session(&key, EventQuery::All, &StateQuery::All)?.ok_or_else(|| missing(&key))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        self.open()?.session(key, EventQuery::new(config)?, &StateQuery::new(&config.state)?)
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<Map<String, Value>>> {
        Ok(self.open()?.sessions.get(key).map(|kept| kept.initial.clone()))
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        StateOwner::app(app_name)?; // checks the name
        let (query, inner) = (ListQuery::new(config)?, self.open()?);
        let of_app = inner.sessions.iter().filter(|(key, _)| key.app_name() == app_name);
        let places: BTreeSet<_> = of_app
            .filter(|(key, _)| query.user_id.as_deref().is_none_or(|user_id| user_id == key.user_id()))
            .map(|(key, kept)| ListPosition {
                micros: kept.micros,
                user_id: key.user_id().to_owned(),
                session_id: key.session_id().to_owned(),
            })
            .filter(|place| query.after.as_ref().is_none_or(|after| place > after))
            .collect();
        let page: Vec<_> = places.iter().take(query.limit).collect();
        let token = (places.len() > page.len()).then(|| page.last().map(|last| last.to_token())).flatten();
        let mut sessions = Vec::new();
        for place in page {
            let key = SessionKey::new(app_name, &place.user_id, &place.session_id)?;
            sessions.extend(inner.session(&key, EventQuery::None, &StateQuery::All)?);
        }
        Ok(ListSessionsResponse::new(sessions, token))
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        let mut inner = self.open()?;
        inner.sessions.remove(key);
        let session = Some(key.session_id());
        inner.artifacts.retain(|(app, user, of, _), _| {
            (app.as_str(), user.as_str(), of.as_deref()) != (key.app_name(), key.user_id(), session)
        });
        Ok(())
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        if event.is_partial() {
            drop(self.open()?);
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let prepared = prepare_event(event, &SystemEnvironment, &self.limits)?;
        self.open()?.append(key, prepared, &options)
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let values = self.open()?.owned.get(owner).map(|owned| owned.values.clone());
        Ok(values.into_iter().flatten().collect())
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let prepared = prepare_state(owner, delta, &options, &self.limits)?;
        let ((author, time), mut inner) = (options.checked(|| SystemEnvironment.now())?, self.open()?);
        // The owner's keys are looked up by the address of some session of its.
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
        Ok(inner.position)
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        let inner = self.open()?;
        let log = inner.owned.get(owner).into_iter().flat_map(|owned| &owned.log);
        let log: Vec<_> = log.filter(|change| change.position > after).cloned().collect();
        // A page holds commits whole.
        let end = log.get(limit.wrapping_sub(1)).map_or(0, |last| last.position);
        Ok(log.into_iter().enumerate().filter(|(n, c)| *n < limit || c.position == end).map(|(_, c)| c).collect())
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
        inner.sessions.retain(|key, _| (key.app_name(), key.user_id()) != (app_name, user_id));
        inner.artifacts.retain(|(app, of, ..), _| (app.as_str(), of.as_str()) != (app_name, user_id));
        inner.owned.remove(&user);
        let of_app = inner.owned.get_mut(&StateOwner::app(app_name)?).into_iter().flat_map(|owned| &mut owned.log);
        for change in of_app {
            change.origin.take_if(|(key, _)| key.user_id() == user_id);
            if change.author == user_id {
                change.author.clear();
            }
        }
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        Ok(())
    }
}

fn artifact_name(session: &SessionKey, filename: &str) -> Result<ArtifactName> {
    let of_user = check_filename(filename)?;
    let of_session = (!of_user).then(|| session.session_id().to_owned());
    Ok((session.app_name().to_owned(), session.user_id().to_owned(), of_session, filename.to_owned()))
}

#[async_trait]
impl ArtifactService for MapStore {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let (name, prepared) = (artifact_name(session, filename)?, prepare_artifact(artifact, custom_metadata)?);
        let mut inner = self.open()?;
        let versions = inner.artifacts.entry(name).or_default();
        versions.push((prepared, SystemEnvironment.now()));
        Ok(versions.len() as u64 - 1)
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let (name, inner) = (artifact_name(session, filename)?, self.open()?);
        let found = inner.artifacts.get(&name).and_then(|versions| match version {
            Some(version) => versions.get(usize::try_from(version).ok()?),
            None => versions.last(),
        });
        Ok(found.map(|(prepared, _)| prepared.artifact.as_ref().clone()))
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        let inner = self.open()?;
        let names = inner.artifacts.keys().filter(|(app, user, of, _)| {
            (app.as_str(), user.as_str()) == (session.app_name(), session.user_id())
                && of.as_deref().is_none_or(|of| of == session.session_id())
        });
        Ok(names.map(|(.., name)| name.clone()).collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn list_artifact_versions(&self, session: &SessionKey, filename: &str) -> Result<Vec<ArtifactVersion>> {
        let (name, inner) = (artifact_name(session, filename)?, self.open()?);
        let versions = inner.artifacts.get(&name).into_iter().flatten().enumerate();
        Ok(versions
            .map(|(n, (prepared, time))| {
                let version = ArtifactVersion::new(n as u64, *time);
                version.with_metadata(prepared.mime_type.clone(), prepared.custom_metadata.clone())
            })
            .collect())
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        let name = artifact_name(session, filename)?;
        self.open()?.artifacts.remove(&name);
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    // Panics at the first promise that is not kept, and names it.
    scratchbook::conformance::all(&Store::new(Arc::new(MapStore::default()))).await;
    println!("the store keeps all {} promises", scratchbook::conformance::PROMISES.len());
}
