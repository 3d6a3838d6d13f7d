//! Everything in memory: for tests, demos and programs that need nothing to survive them.
//!
//! One lock an app. A commit is made while it is held for writing and costs a few map operations; whatever is
//! read is a snapshot taken in constant time, because events and values are kept in persistent structures.

mod app;
mod artifact;
mod resolve;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use serde_json::{Map, Value};

use self::app::{App, Origin, Stored, owned};
use super::commit::{prepare_event, prepare_session, prepare_state};
use super::limits::Limits;
use super::query::{EventQuery, ListPosition, ListQuery, StateQuery};
use super::{closed, taken};
use crate::environment::{Environment, SystemEnvironment};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, Committed, CreateSessionConfig, Events, GetSessionConfig, ListSessionsConfig, ListSessionsResponse,
    Outcome, PutStateOptions, Session, SessionKey, SessionService, StateChange, StateOwner, check_id, check_owner,
    seconds_of_micros,
};
use crate::state::{ScopeMap, StateDelta};

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
    limits: Limits,
    apps: RwLock<HashMap<String, Arc<RwLock<App>>>>,
    position: AtomicU64,
    closed: AtomicBool,
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
        let (limits, apps) = (Limits::default(), RwLock::default());
        Self { environment, limits, apps, position: AtomicU64::new(0), closed: AtomicBool::new(false) }
    }

    /// The same with limits on how large and how many things may be.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
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

    /// The last position given out. While an app's lock is held, none is given out for that app.
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
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

#[async_trait]
impl SessionService for InMemorySessionService {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let mut prepared = prepare_session(app_name, user_id, config, self.environment.as_ref(), &self.limits)?;
        let app = self.app_or_new(app_name)?;
        let mut app = write(&app);
        if app.session(&prepared.key).is_some() {
            return Err(taken(&prepared.key));
        }
        if !prepared.is_plain() {
            prepared = app.resolve_session(prepared)?;
        }
        app.check_created(&prepared)?;
        let key = prepared.key;
        let user = app.user(user_id);
        let initial = prepared.initial.into_iter();
        let initial: ScopeMap = initial.map(|(name, value)| (Arc::from(name), Arc::new(value))).collect();
        let stored = Stored {
            key: key.clone(),
            state: initial.clone(),
            initial,
            written: HashMap::new(),
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
            app.append(&key, event, &AppendOptions::default(), || self.next_position())?;
        }
        let (user, stored) = app.session(&key).ok_or_else(|| Error::internal("a session without its user"))?;
        let state = app.merged(user, stored, &StateQuery::All);
        Ok(stored.to_session(state, stored.events.clone(), self.position()))
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let (events, state) = (EventQuery::new(config)?, StateQuery::new(&config.state)?);
        let Some(app) = self.app(key.app_name())? else {
            return Ok(None);
        };
        let app = read(&app);
        Ok(app.session(key).map(|(user, stored)| {
            let state = app.merged(user, stored, &state);
            stored.to_session(state, stored.select(events), self.position())
        }))
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<Map<String, Value>>> {
        let Some(app) = self.app(key.app_name())? else {
            return Ok(None);
        };
        let initial = read(&app).session(key).map(|(_, stored)| stored.initial.clone());
        Ok(initial
            .map(|values| values.iter().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect()))
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
            let state = app.merged(user, stored, &StateQuery::All);
            Some(stored.to_session(state, Events::default(), self.position()))
        });
        Ok(ListSessionsResponse::new(sessions.collect(), token))
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        if let Some(app) = self.app(key.app_name())? {
            write(&app).remove_session(key);
        }
        Ok(())
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        if event.is_partial() {
            self.check_open()?;
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let prepared = prepare_event(event, self.environment.as_ref(), &self.limits)?;
        let app = self.app(key.app_name())?.ok_or_else(|| crate::session::no_session(key))?;
        let mut app = write(&app);
        app.append(key, prepared, &options, || self.next_position())
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let Some(app) = self.app(owner.app_name())? else {
            return Ok(Map::new());
        };
        let app = read(&app);
        let values = owned(&app, owner).map(|state| &state.values);
        Ok(values.into_iter().flatten().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect())
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let prepared = prepare_state(owner, delta, &options, &self.limits)?;
        let (author, time) = options.checked(|| self.environment.now())?;
        let app = self.app_or_new(owner.app_name())?;
        let mut app = write(&app);
        let changes = match prepared.is_plain() {
            true => prepared.changes,
            false => app.resolve_state(owner, &prepared)?,
        };
        app.check_shared(owner.user_id().unwrap_or_default(), &changes, &prepared.limits)?;
        let position = self.next_position();
        let origin = Origin { position, session: None, event_id: "", author: &author, time };
        app.change_shared(owner.user_id().unwrap_or_default(), &changes, &origin);
        Ok(position)
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

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.check_open()?;
        let apps = self.apps.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut names: Vec<_> =
            apps.keys().filter(|name| after.is_none_or(|o| o.app_name() <= name.as_str())).collect();
        names.sort_unstable();
        let mut owners = Vec::new();
        for name in names {
            let mut of_app = read(&apps[name]).owners(&name.as_str().into());
            of_app.retain(|owner| after.is_none_or(|after| owner > after));
            of_app.sort_unstable();
            owners.extend(of_app.into_iter().take(limit - owners.len()));
            if owners.len() == limit {
                break;
            }
        }
        Ok(owners)
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
            for change in &mut app.state.log {
                if change.origin.as_ref().is_some_and(|(key, _)| key.user_id() == user_id) {
                    change.origin = None;
                }
                if change.author == user_id {
                    change.author.clear();
                }
            }
        }
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}
