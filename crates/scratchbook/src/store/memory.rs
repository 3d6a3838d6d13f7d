//! Everything in memory: for tests, demos and programs that need nothing to survive them.
//!
//! One lock an app. A commit is made while it is held for writing and costs a few map operations; whatever is
//! read is a snapshot taken in constant time, because events and values are kept in persistent structures.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::commit::{KeyChange, Prepared, prepare_event, prepare_session, prepare_state, replay};
use super::query::{EventQuery, ListPosition, ListQuery, StateQuery};
use super::{closed, taken};
use crate::artifact::{ArtifactService, ArtifactVersion, PreparedArtifact, check_filename, prepare_artifact};
use crate::content::Part;
use crate::environment::{Environment, SystemEnvironment};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, Committed, CreateSessionConfig, Events, GetSessionConfig, ListSessionsConfig, ListSessionsResponse,
    Outcome, Session, SessionKey, SessionService, StateChange, StateOwner, check_id, check_owner, seconds_of_micros,
};
use crate::state::{Scope, ScopeMap, StateDelta, StateMap, change_scope};

/// Keeps sessions, state and artifacts in memory; they are gone when it is dropped.
///
/// ```
/// use scratchbook::{CreateSessionConfig, InMemorySessionService, SessionService};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let service = InMemorySessionService::new();
/// let config = CreateSessionConfig::default().with_state(json!({"user:language": "en"}));
/// service.create_session("my_app", "alice", config).await?;
/// let second = service.create_session("my_app", "alice", CreateSessionConfig::default()).await?;
/// assert_eq!(second.state().get("user:language"), Some(&json!("en")));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct InMemorySessionService {
    environment: Arc<dyn Environment>,
    apps: RwLock<HashMap<String, Arc<RwLock<App>>>>,
    position: AtomicU64,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct App {
    state: OwnedState,
    users: HashMap<Arc<str>, User>,
    by_update: BTreeSet<ListPosition>,
}

#[derive(Debug, Default)]
struct User {
    state: OwnedState,
    sessions: HashMap<Arc<str>, Stored>,
    by_update: BTreeSet<ListPosition>,
    artifacts: BTreeMap<ArtifactName, Vec<(PreparedArtifact, f64)>>,
}

/// The session an artifact belongs to, `None` for the user's, and its name.
type ArtifactName = (Option<Arc<str>>, String);

/// State of a user or an app, with the log it is the fold of.
#[derive(Debug, Default)]
struct OwnedState {
    values: ScopeMap,
    versions: HashMap<String, u64>,
    log: Vec<StateChange>,
}

#[derive(Debug)]
struct Stored {
    key: SessionKey,
    state: ScopeMap,
    events: Events,
    ids: HashMap<String, ([u8; 32], usize)>,
    /// Timestamps in their order, with the place of the event.
    by_time: BTreeSet<(u64, usize)>,
    micros: i64,
}

/// What the log says of a write, beside the change itself.
struct Origin<'a> {
    position: u64,
    session: Option<(&'a SessionKey, u64)>,
    event_id: &'a str,
    author: &'a str,
    time: f64,
}

impl Default for InMemorySessionService {
    fn default() -> Self {
        Self::new()
    }
}

impl InMemorySessionService {
    /// An empty service on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_environment(Arc::new(SystemEnvironment))
    }

    /// An empty service with a clock and ids of your own.
    #[must_use]
    pub fn with_environment(environment: Arc<dyn Environment>) -> Self {
        Self { environment, apps: RwLock::default(), position: AtomicU64::new(0), closed: AtomicBool::new(false) }
    }

    /// The app, if anything was ever written to it. A lock poisoned by a panic elsewhere is still whole:
    /// nothing between two commits can panic.
    fn app(&self, app_name: &str) -> Result<Option<Arc<RwLock<App>>>> {
        self.check_open()?;
        Ok(self.apps.read().unwrap_or_else(PoisonError::into_inner).get(app_name).cloned())
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }

    fn app_or_new(&self, app_name: &str) -> Result<Arc<RwLock<App>>> {
        if let Some(app) = self.app(app_name)? {
            return Ok(app);
        }
        let mut apps = self.apps.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(apps.entry(app_name.to_owned()).or_default()))
    }

    fn next_position(&self) -> u64 {
        self.position.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn read(app: &RwLock<App>) -> RwLockReadGuard<'_, App> {
    app.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(app: &RwLock<App>) -> RwLockWriteGuard<'_, App> {
    app.write().unwrap_or_else(PoisonError::into_inner)
}

impl OwnedState {
    fn change(&mut self, change: &KeyChange, origin: &Origin<'_>) {
        change_scope(&mut self.values, &change.name, &change.change);
        let version = self.versions.entry(change.name.clone()).or_default();
        *version += 1;
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

impl App {
    fn user(&mut self, user_id: &str) -> &mut User {
        if !self.users.contains_key(user_id) {
            self.users.insert(user_id.into(), User::default());
        }
        self.users.entry(user_id.into()).or_default()
    }

    /// Applies changes to user and app keys.
    fn change_shared(&mut self, user_id: &str, changes: &[KeyChange], origin: &Origin<'_>) {
        for change in changes {
            match change.scope {
                Scope::User => self.user(user_id).state.change(change, origin),
                Scope::App => self.state.change(change, origin),
                Scope::Session | Scope::Temp => {}
            }
        }
    }

    fn session(&self, key: &SessionKey) -> Option<(&User, &Stored)> {
        let user = self.users.get(key.user_id())?;
        Some((user, user.sessions.get(key.session_id())?))
    }

    fn merged(&self, user: &User, stored: &Stored, query: &StateQuery) -> StateMap {
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

    /// Commits a prepared event to a session that is there.
    fn append(&mut self, key: &SessionKey, prepared: Prepared, position: u64) -> Result<Committed> {
        let Some(user) = self.users.get_mut(key.user_id()) else {
            return Err(crate::session::no_session(key));
        };
        let Some(stored) = user.sessions.get_mut(key.session_id()) else {
            return Err(crate::session::no_session(key));
        };
        if let Some((hash, place)) = stored.ids.get(&prepared.event.id) {
            let outcome = replay(&prepared, hash)?;
            let event = stored.events.get(*place).ok_or_else(|| Error::internal("an event without its place"))?;
            return Ok(Committed::new(Arc::clone(event), outcome));
        }
        let Prepared { mut event, hash, micros, changes, .. } = prepared;
        let place = stored.events.len();
        let seq = place as u64 + 1;
        event.seq = Some(seq);
        let event = Arc::new(event);
        let time = event.timestamp.unwrap_or_default();
        stored.ids.insert(event.id.clone(), (hash, place));
        stored.by_time.insert((time_order(time), place));
        stored.events.insert(place, Arc::clone(&event));
        let own = changes.iter().filter(|change| change.scope == Scope::Session);
        own.for_each(|change| change_scope(&mut stored.state, &change.name, &change.change));
        let before = stored.list_position();
        stored.micros = micros;
        let after = stored.list_position();
        user.by_update.remove(&before);
        user.by_update.insert(after.clone());
        self.by_update.remove(&before);
        self.by_update.insert(after);
        let origin = Origin { position, session: Some((key, seq)), event_id: &event.id, author: &event.author, time };
        self.change_shared(key.user_id(), &changes, &origin);
        Ok(Committed::new(event, Outcome::Stored))
    }

    fn remove_session(&mut self, key: &SessionKey) {
        let Some(user) = self.users.get_mut(key.user_id()) else {
            return;
        };
        let Some(stored) = user.sessions.remove(key.session_id()) else {
            return;
        };
        let position = stored.list_position();
        user.by_update.remove(&position);
        user.artifacts.retain(|(session, _), _| session.as_deref() != Some(key.session_id()));
        self.by_update.remove(&position);
    }
}

/// The bits of a time that is not negative, which order as the numbers do; `-0.0` is where `0.0` is.
fn time_order(seconds: f64) -> u64 {
    (seconds + 0.0).to_bits()
}

impl Stored {
    fn list_position(&self) -> ListPosition {
        ListPosition {
            micros: self.micros,
            user_id: self.key.user_id().to_owned(),
            session_id: self.key.session_id().to_owned(),
        }
    }

    fn to_session(&self, state: StateMap, events: Events) -> Session {
        let seq = self.events.len() as u64;
        Session::new(self.key.clone(), state, events, seconds_of_micros(self.micros), seq)
    }

    fn select(&self, query: EventQuery) -> Events {
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
                let from = usize::try_from(seq).unwrap_or(len).min(len);
                slice(from, from.saturating_add(limit).min(len))
            }
            EventQuery::Before(seq, limit) => {
                let to = usize::try_from(seq.saturating_sub(1)).unwrap_or(len).min(len);
                slice(to.saturating_sub(limit), to)
            }
            EventQuery::Since(seconds, count) => self.since(seconds, count.unwrap_or(len)),
        }
    }

    /// Events from a time on, the last `count` of them in the store's order.
    fn since(&self, seconds: f64, count: usize) -> Events {
        let recent = |event: &&Arc<Event>| event.timestamp.is_some_and(|t| t >= seconds);
        let tail: Vec<_> = self.events.iter().rev().take(count).take_while(recent).cloned().collect();
        // Where all of the last `count` are recent, they are the answer; else the index finds the few there are.
        if tail.len() == count {
            return tail.into_iter().rev().collect();
        }
        let mut places: Vec<_> = self.by_time.range((time_order(seconds), 0)..).map(|(_, place)| *place).collect();
        places.sort_unstable();
        let skip = places.len().saturating_sub(count);
        places[skip..].iter().filter_map(|place| self.events.get(*place).cloned()).collect()
    }
}

#[async_trait]
impl SessionService for InMemorySessionService {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let prepared = prepare_session(app_name, user_id, config, self.environment.as_ref())?;
        super::check_event_ids(&prepared.events)?;
        let key = prepared.key;
        let app = self.app_or_new(app_name)?;
        let mut app = write(&app);
        let user = app.user(user_id);
        if user.sessions.contains_key(key.session_id()) {
            return Err(taken(&key));
        }
        let initial = prepared.initial.into_iter();
        let stored = Stored {
            key: key.clone(),
            state: initial.map(|(name, value)| (Arc::from(name), Arc::new(value))).collect(),
            events: Events::default(),
            ids: HashMap::new(),
            by_time: BTreeSet::new(),
            micros: prepared.created,
        };
        let position = stored.list_position();
        user.by_update.insert(position.clone());
        user.sessions.insert(key.session_id().into(), stored);
        app.by_update.insert(position);
        let origin = Origin {
            position: self.next_position(),
            session: Some((&key, 0)),
            event_id: "",
            author: "user",
            time: seconds_of_micros(prepared.created),
        };
        app.change_shared(user_id, &prepared.shared, &origin);
        for event in prepared.events {
            app.append(&key, event, self.next_position())?;
        }
        let (user, stored) = app.session(&key).ok_or_else(|| Error::internal("a session without its user"))?;
        Ok(stored.to_session(app.merged(user, stored, &StateQuery::All), stored.events.clone()))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let (events, state) = (EventQuery::new(config)?, StateQuery::new(&config.state)?);
        let Some(app) = self.app(key.app_name())? else {
            return Ok(None);
        };
        let app = read(&app);
        let session = app.session(key);
        Ok(session.map(|(user, stored)| stored.to_session(app.merged(user, stored, &state), stored.select(events))))
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        check_id("app name", app_name)?;
        let query = ListQuery::new(config)?;
        let Some(app) = self.app(app_name)? else {
            return Ok(ListSessionsResponse::default());
        };
        let app = read(&app);
        let order = match &query.user_id {
            None => &app.by_update,
            Some(user_id) => match app.users.get(user_id.as_str()) {
                Some(user) => &user.by_update,
                None => return Ok(ListSessionsResponse::default()),
            },
        };
        use std::ops::Bound::{Excluded, Unbounded};
        let from = query.after.as_ref().map_or(Unbounded, Excluded);
        let mut places = order.range::<ListPosition, _>((from, Unbounded));
        let page: Vec<_> = places.by_ref().take(query.limit).collect();
        let token = places.next().and(page.last()).map(|last| last.to_token());
        let sessions = page.into_iter().filter_map(|place| {
            let user = app.users.get(place.user_id.as_str())?;
            let stored = user.sessions.get(place.session_id.as_str())?;
            Some(stored.to_session(app.merged(user, stored, &StateQuery::All), Events::default()))
        });
        Ok(ListSessionsResponse::new(sessions.collect(), token))
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        if let Some(app) = self.app(key.app_name())? {
            write(&app).remove_session(key);
        }
        Ok(())
    }

    async fn append(&self, key: &SessionKey, event: Event, _: AppendOptions) -> Result<Committed> {
        if event.is_partial() {
            self.check_open()?;
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let prepared = prepare_event(event, self.environment.as_ref())?;
        let app = self.app(key.app_name())?.ok_or_else(|| crate::session::no_session(key))?;
        let mut app = write(&app);
        app.append(key, prepared, self.next_position())
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let Some(app) = self.app(owner.app_name())? else {
            return Ok(Map::new());
        };
        let app = read(&app);
        let values = owned(&app, owner).map(|state| &state.values);
        Ok(values.into_iter().flatten().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect())
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, author: &str) -> Result<()> {
        let changes = prepare_state(owner, delta)?;
        check_id("author", author)?;
        let app = self.app_or_new(owner.app_name())?;
        let mut app = write(&app);
        let position = self.next_position();
        let origin = Origin { position, session: None, event_id: "", author, time: self.environment.now() };
        app.change_shared(owner.user_id().unwrap_or_default(), &changes, &origin);
        Ok(())
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        let Some(app) = self.app(owner.app_name())? else {
            return Ok(Vec::new());
        };
        let app = read(&app);
        let log = owned(&app, owner).map_or(&[][..], |state| &state.log);
        let from = log.partition_point(|change| change.position <= after);
        let mut to = from.saturating_add(limit).min(log.len());
        // All changes of a commit have its position: a page that ended among them would lose the rest.
        while from < to && to < log.len() && log[to].position == log[to - 1].position {
            to += 1;
        }
        Ok(log[from..to].to_vec())
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        check_owner(app_name, user_id)?;
        if let Some(app) = self.app(app_name)? {
            let mut app = write(&app);
            if let Some(user) = app.users.remove(user_id) {
                user.by_update.iter().for_each(|position| {
                    app.by_update.remove(position);
                });
            }
            let by_user =
                |change: &&mut StateChange| change.origin.as_ref().is_some_and(|(key, _)| key.user_id() == user_id);
            app.state.log.iter_mut().filter(by_user).for_each(|change| change.origin = None);
        }
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

fn owned<'a>(app: &'a App, owner: &StateOwner) -> Option<&'a OwnedState> {
    match owner.user_id() {
        Some(user_id) => app.users.get(user_id).map(|user| &user.state),
        None => Some(&app.state),
    }
}

fn artifact_name(session: &SessionKey, filename: &str) -> Result<ArtifactName> {
    let session = if check_filename(filename)? { None } else { Some(session.session_id().into()) };
    Ok((session, filename.to_owned()))
}

#[async_trait]
impl ArtifactService for InMemorySessionService {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let name = artifact_name(session, filename)?;
        let prepared = prepare_artifact(artifact, custom_metadata)?;
        let app = self.app_or_new(session.app_name())?;
        let mut app = write(&app);
        let versions = app.user(session.user_id()).artifacts.entry(name).or_default();
        versions.push((prepared, self.environment.now()));
        Ok(versions.len() as u64 - 1)
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let name = artifact_name(session, filename)?;
        let Some(app) = self.app(session.app_name())? else {
            return Ok(None);
        };
        let app = read(&app);
        let versions = app.users.get(session.user_id()).and_then(|user| user.artifacts.get(&name));
        let found = versions.and_then(|versions| match version {
            None => versions.last(),
            Some(version) => versions.get(usize::try_from(version).ok()?),
        });
        Ok(found.map(|(prepared, _)| prepared.artifact.as_ref().clone()))
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        let Some(app) = self.app(session.app_name())? else {
            return Ok(Vec::new());
        };
        let app = read(&app);
        let artifacts = app.users.get(session.user_id()).map(|user| user.artifacts.keys());
        let seen = artifacts.into_iter().flatten().filter(|(owner, _)| match owner {
            Some(id) => id.as_ref() == session.session_id(),
            None => true,
        });
        Ok(seen.map(|(_, name)| name.clone()).collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn list_artifact_versions(&self, session: &SessionKey, filename: &str) -> Result<Vec<ArtifactVersion>> {
        let name = artifact_name(session, filename)?;
        let Some(app) = self.app(session.app_name())? else {
            return Ok(Vec::new());
        };
        let app = read(&app);
        let versions = app.users.get(session.user_id()).and_then(|user| user.artifacts.get(&name));
        let described = versions.into_iter().flatten().enumerate().map(|(version, (prepared, time))| ArtifactVersion {
            version: version as u64,
            custom_metadata: prepared.custom_metadata.clone(),
            create_time: *time,
            mime_type: prepared.mime_type.clone(),
        });
        Ok(described.collect())
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        let name = artifact_name(session, filename)?;
        if let Some(app) = self.app(session.app_name())? {
            let mut app = write(&app);
            if let Some(user) = app.users.get_mut(session.user_id()) {
                user.artifacts.remove(&name);
            }
        }
        Ok(())
    }
}
