//! A store in memory: for tests, demos and programs whose data need not outlive them.
//!
//! There is one lock per app. A commit holds it for writing and costs a few map operations; every read is a snapshot
//! taken in constant time, because events and values are kept in persistent data structures.

mod app;
mod artifact;
mod commit;
mod feed;
mod hashes;
mod history;
mod ids;
mod owned;
mod place;
mod removal;
pub mod resolve;
mod retention;
mod usage;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use serde_json::{Map, Value};
use uuid::Uuid;

use self::app::{AppData, MemorySession, User, owned};
use self::commit::is_plain;
use self::feed::FeedItem;
use self::hashes::ListedEvents;
use self::owned::{Logged, Origin};
use self::place::SharedListPosition;
use crate::environment::{Environment, SystemEnvironment};
use crate::error::{Error, KeyWriter, Result};
use crate::event::Event;
use crate::plan::commit::{prepare_session, prepare_state};
use crate::plan::feed::{Feed, LET_GO_AT_ONCE, REMOVALS_KEPT};
use crate::plan::fork::{check_event_number, fork_key};
use crate::plan::limits::Limits;
use crate::plan::locate::{LocateQuery, taken_within};
use crate::plan::query::{EventQuery, ListQuery, StateQuery};
use crate::plan::quota::{QuotaStore, Quotas, reserve_bytes, reserve_event, reserve_fork, reserve_session};
use crate::plan::room::{CountedUsers, Room, bytes_of_values};
use crate::plan::sent::prepare_unwritten;
use crate::plan::update::{prepare_append, prepare_update};
use crate::plan::usage::Usage;
use crate::session::{
    AppendOptions, Capabilities, ChangeQuery, CommitNotices, CommitNotifier, CommitScope, Committed,
    CreateSessionConfig, EventHashes, Events, FeedPage, FeedStart, ForkConfig, GetSessionConfig, IdScope, InitialState,
    ListOrder, ListSessionsConfig, ListSessionsResponse, ListStateConfig, Outcome, PAGE_BYTES, Prune, PutStateOptions,
    Removal, RemovalKind, Session, SessionKey, SessionService, SessionUpdate, SharedKeys, StateBytes, StateChange,
    StateOwner, StatePage, check_id, check_owner, micros_of_seconds, no_session, seconds_of_micros,
};
use crate::state::{ScopeMap, StateDelta, StateMap};
use crate::store::closed;

/// Stores sessions, state and artifacts in memory; they are lost when the service is dropped.
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
    quotas: Quotas,
    apps: RwLock<HashMap<String, Arc<RwLock<AppData>>>>,
    position: AtomicU64,
    closed: AtomicBool,
    /// Distinguishes cursors of this store's feeds from cursors of other stores.
    id: String,
    notifier: CommitNotifier,
}

impl Default for InMemorySessionService {
    fn default() -> Self {
        Self::new()
    }
}

impl InMemorySessionService {
    /// Creates an empty store with the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_environment(Arc::new(SystemEnvironment))
    }

    /// Creates an empty store with your own clock and id source.
    #[must_use]
    pub fn with_environment(environment: Arc<dyn Environment>) -> Self {
        Self {
            environment,
            limits: Limits::default(),
            quotas: Quotas::new(&Limits::default()),
            apps: RwLock::default(),
            position: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            id: Uuid::new_v4().to_string(),
            notifier: CommitNotifier::new(),
        }
    }

    /// Sets the limits on sizes and numbers.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.quotas = Quotas::new(&limits);
        self.limits = limits;
        self
    }

    /// Returns the app, if anything was ever written to it. A lock that was poisoned by a panic elsewhere is ignored:
    /// no commit can panic halfway, so the data is consistent.
    fn app(&self, app_name: &str) -> Result<Option<Arc<RwLock<AppData>>>> {
        self.check_open()?;
        Ok(self.apps.read().unwrap_or_else(PoisonError::into_inner).get(app_name).cloned())
    }

    /// Returns all apps to which anything was ever written.
    fn all_apps(&self) -> Result<HashMap<String, Arc<RwLock<AppData>>>> {
        self.check_open()?;
        Ok(self.apps.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }

    fn app_or_new(&self, app_name: &str) -> Result<Arc<RwLock<AppData>>> {
        if let Some(app) = self.app(app_name)? {
            return Ok(app);
        }
        let mut apps = self.apps.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(apps.entry(app_name.to_owned()).or_default()))
    }

    /// Returns the last assigned position. While an app's lock is held, no position is assigned for that app.
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    fn next_position(&self) -> u64 {
        self.position.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn now_micros(&self) -> i64 {
        micros_of_seconds(self.environment.now())
    }

    /// Deletes an expired session before it is written to.
    fn drop_expired(&self, app: &mut AppData, key: &SessionKey) {
        if self.has_expired(app, key) {
            self.remove(app, key, RemovalKind::Expired);
        }
    }

    /// Removes a session, if it exists.
    fn remove(&self, app: &mut AppData, key: &SessionKey, kind: RemovalKind) {
        if let Some(last) = app.remove_session(key) {
            let removal = Removal::of_session(kind, key.clone(), last, self.environment.now());
            app.record(self.next_position(), removal);
        }
    }

    /// Whether a session exists and has expired.
    fn has_expired(&self, app: &AppData, key: &SessionKey) -> bool {
        app.session(key).is_some_and(|(_, stored)| stored.is_expired(|| self.now_micros()))
    }

    /// Returns the users who have an unexpired session with this id.
    fn live_users_with<'a>(&self, app: &'a AppData, session_id: &str) -> impl Iterator<Item = &'a str> {
        let now = std::cell::OnceCell::new();
        let live = move |stored: &MemorySession| !stored.is_expired(|| *now.get_or_init(|| self.now_micros()));
        app.users_with(session_id).filter(move |(_, stored)| live(stored)).map(|(user_id, _)| user_id)
    }

    /// Returns a session for reading, unless it has expired.
    fn live<'a>(&self, app: &'a AppData, key: &SessionKey) -> Option<(&'a User, &'a MemorySession)> {
        app.session(key).filter(|(_, stored)| !stored.is_expired(|| self.now_micros()))
    }
}

fn to_map(values: &ScopeMap) -> Map<String, Value> {
    values.iter().map(|(name, value)| (name.to_string(), value.as_ref().clone())).collect()
}

fn read(app: &RwLock<AppData>) -> RwLockReadGuard<'_, AppData> {
    app.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(app: &RwLock<AppData>) -> RwLockWriteGuard<'_, AppData> {
    app.write().unwrap_or_else(PoisonError::into_inner)
}

fn state_bytes_of(app: &AppData, owner: &StateOwner, session_id: Option<&str>) -> StateBytes {
    let user = owner.user_id().and_then(|user_id| app.users.get(user_id));
    let stored = user.zip(session_id).and_then(|(user, session_id)| user.sessions.get(session_id));
    app.state_bytes(owner.user_id(), stored.map_or(0, |stored| stored.state_bytes))
}

#[async_trait]
impl SessionService for InMemorySessionService {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let shared_keys = config.shared_keys;
        let mut prepared = prepare_session(app_name, user_id, config, self.environment.as_ref(), &self.limits)?;
        let held = reserve_session(self, &prepared).await?;
        let app = self.app_or_new(app_name)?;
        let mut app = write(&app);
        self.drop_expired(&mut app, &prepared.key);
        let is_taken = match prepared.id_scope {
            IdScope::User => app.session(&prepared.key).is_some(),
            IdScope::App => self.live_users_with(&app, prepared.key.session_id()).next().is_some(),
        };
        if is_taken {
            return Err(taken_within(prepared.id_scope, &prepared.key));
        }
        if !prepared.is_plain() {
            prepared = app.resolve_session(prepared)?;
        }
        app.check_created(&prepared)?;
        let key = prepared.key;
        let initial = prepared.initial.into_iter();
        let initial: ScopeMap = initial.map(|(name, value)| (Arc::from(name), Arc::new(value))).collect();
        app.state_bytes(Some(user_id), bytes_of_values(&initial)).check()?;
        let position = self.next_position();
        let (expires, metadata) = (prepared.expires, prepared.metadata.into());
        let stored =
            MemorySession { expires, metadata, ..MemorySession::new(&key, initial, position, prepared.created) };
        app.keep(stored);
        let origin = Origin {
            position,
            session: Some((&key, 0)),
            event_id: "",
            author: "user",
            time: seconds_of_micros(prepared.created),
        };
        app.change_shared(user_id, &prepared.shared, &origin);
        for event in prepared.events {
            app.append(&key, event, &AppendOptions::default(), shared_keys, || self.next_position())?;
        }
        held.keep();
        self.notifier.notify_session(&key);
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
        let Some((user, stored)) = self.live(&app, key) else {
            return Ok(None);
        };
        if matches!(state, StateQuery::All) {
            app.state_bytes(Some(key.user_id()), stored.state_bytes).check()?;
        }
        let state = app.merged(user, stored, &state);
        Ok(Some(stored.to_session(state, events.fit(stored.select(events), config.page_bytes), self.position())))
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        let Some(app) = self.app(key.app_name())? else {
            return Ok(None);
        };
        let app = read(&app);
        Ok(self.live(&app, key).map(|(_, stored)| InitialState::new(stored.base, to_map(&stored.initial))))
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        let app = self.app(key.app_name())?.ok_or_else(|| no_session(key))?;
        let app = read(&app);
        let (user, stored) = self.live(&app, key).ok_or_else(|| no_session(key))?;
        app.state_at(user, stored, seq)
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        let app = self.app(key.app_name())?.ok_or_else(|| no_session(key))?;
        let app = read(&app);
        let (user, stored) = self.live(&app, key).ok_or_else(|| no_session(key))?;
        Ok(app.blame(user, stored))
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        let fork = fork_key(key, &config, self.environment.as_ref())?;
        let app = self.app(key.app_name())?.ok_or_else(|| no_session(key))?;
        let held = reserve_fork(self, key, config.at).await?;
        let mut app = write(&app);
        self.drop_expired(&mut app, key);
        self.drop_expired(&mut app, &fork);
        let created = self.now_micros();
        app.fork(key, &fork, config.at, created, || self.next_position())?;
        held.keep();
        self.notifier.notify_session(&fork);
        let (user, stored) = app.session(&fork).ok_or_else(|| Error::internal("a session without its user"))?;
        let state = app.merged(user, stored, &StateQuery::All);
        Ok(stored.to_session(state, Events::default(), self.position()))
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
        let (now, after) = (
            self.now_micros(),
            query.after.as_ref().map_or(Unbounded, |after| Excluded(SharedListPosition::from(after))),
        );
        let places: &mut (dyn Iterator<Item = &SharedListPosition> + Send) = match query.order {
            ListOrder::OldestFirst => &mut order.range((after, Unbounded)),
            ListOrder::NewestFirst => &mut order.range((Unbounded, after)).rev(),
        };
        let stored = |place: &SharedListPosition| {
            let user = app.users.get(&place.user_id)?;
            let stored = user.sessions.get(&place.session_id)?;
            (!stored.is_expired(|| now)).then_some((user, stored))
        };
        let live = places.filter_map(|place| Some((place.to_position(), stored(place)?)));
        let (page, token) = query.pick(live, |(_, stored)| &stored.metadata);
        let mut users = CountedUsers::default();
        let (page, token) = query.fit(page, token, |place, (user, stored)| {
            let of_user = if users.counts(&place.user_id) { user.state.bytes } else { 0 };
            of_user + stored.state_bytes + stored.metadata.bytes()
        });
        let sessions = page.into_iter().map(|(_, (user, stored))| {
            app.state_bytes(Some(stored.key.user_id()), stored.state_bytes).check()?;
            let state = app.merged(user, stored, &StateQuery::All);
            Ok(stored.to_session(state, Events::default(), self.position()))
        });
        Ok(ListSessionsResponse::new(sessions.collect::<Result<_>>()?, token))
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        let query = LocateQuery::new(app_name, session_id)?;
        let Some(app) = self.app(app_name)? else {
            return Ok(None);
        };
        let app = read(&app);
        query.pick(self.live_users_with(&app, &query.session_id))
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        if let Some(app) = self.app(key.app_name())? {
            self.remove(&mut write(&app), key, RemovalKind::Deleted);
            self.quotas.forget(&key.user());
            // Followers of the session learn that it was deleted.
            self.notifier.notify_session(key);
        }
        Ok(())
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        if event.is_partial() {
            self.check_open()?;
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let (held, committed) = if is_plain(&event, &options) {
            let event = prepare_unwritten(event, self.environment.as_ref(), &self.limits)?;
            let held = reserve_bytes(self, key, &event.event.id, Usage::bytes(event.bytes)).await?;
            let app = self.app(key.app_name())?.ok_or_else(|| no_session(key))?;
            let mut app = write(&app);
            let committed = app.commit(key, event.into(), &self.limits, || self.now_micros(), || self.next_position());
            (held, committed.inspect_err(|_| self.drop_expired(&mut app, key))?)
        } else {
            let event = prepare_append(event, &options, self.environment.as_ref(), &self.limits)?;
            let held = reserve_event(self, key, &event).await?;
            let app = self.app(key.app_name())?.ok_or_else(|| no_session(key))?;
            let mut app = write(&app);
            self.drop_expired(&mut app, key);
            (held, app.append(key, event, &options, SharedKeys::Written, || self.next_position())?)
        };
        if committed.outcome == Outcome::Stored {
            held.keep();
        }
        self.notifier.notify_session(key);
        Ok(committed)
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        let Some(app) = self.app(owner.app_name())? else {
            return Ok(Map::new());
        };
        let app = read(&app);
        let Some(state) = owned(&app, owner) else {
            return Ok(Map::new());
        };
        state_bytes_of(&app, owner, None).alone(owner).check()?;
        Ok(to_map(&state.values))
    }

    async fn state_bytes(&self, owner: &StateOwner, session_id: Option<&str>) -> Result<StateBytes> {
        let app = self.app(owner.app_name())?;
        Ok(app.map(|app| state_bytes_of(&read(&app), owner, session_id)).unwrap_or_default())
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        config.check()?;
        let Some(app) = self.app(owner.app_name())? else {
            return Ok(StatePage::default());
        };
        let app = read(&app);
        Ok(owned(&app, owner).map(|state| state.page(config)).unwrap_or_default())
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
        app.enter_feed(position, FeedItem::State(owner.clone()));
        self.notifier.notify_owner(owner);
        Ok(position)
    }

    async fn list_state_changes(
        &self,
        owner: &StateOwner,
        query: &ChangeQuery,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        query.check(owner)?;
        let app = match (self.app(owner.app_name())?, query) {
            (Some(app), _) => app,
            (None, ChangeQuery::OfKey { at: Some((session, _)), .. }) => return Err(no_session(session)),
            (None, _) => return Ok(Vec::new()),
        };
        let app = read(&app);
        let (log, mut room) = (owned(&app, owner).map_or(&[][..], |state| &state.log), Room::new(PAGE_BYTES));
        match query {
            ChangeQuery::After(after) => {
                let from = log.partition_point(|change| change.position <= *after);
                let page = log.iter().skip(from).take(limit).map(Logged::change);
                let mut page: Vec<_> = page.take_while(|change| room.takes(change.bytes())).collect();
                // All changes of a commit have the same position: a page that ended between them would lose the rest.
                let last = page.last().map(|last| last.position);
                let rest = log.iter().skip(from + page.len()).take_while(|change| Some(change.position) == last);
                page.extend(rest.map(Logged::change));
                Ok(page)
            }
            ChangeQuery::OfKey { name, before, at } => {
                let mut before = *before;
                if let Some((session, seq)) = at {
                    let (_, stored) = self.live(&app, session).ok_or_else(|| no_session(session))?;
                    check_event_number(session, *seq, stored.base, stored.last())?;
                    before = before.min(stored.position_at(*seq) + 1);
                }
                let until = log.partition_point(|change| change.position < before);
                let of_key = log[..until].iter().rev().filter(|change| *change.name == **name).take(limit);
                Ok(of_key.map(Logged::change).take_while(|change| room.takes(change.bytes())).collect())
            }
        }
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let app = self.app_or_new(owner.app_name())?;
        let app = read(&app);
        app.feed_page(&Feed::new(&self.id, owner), owner, start, limit, self.position())
    }

    fn commits(&self) -> Result<CommitNotices> {
        self.check_open()?;
        Ok(self.notifier.subscribe())
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        let update = prepare_update(update, self.environment.as_ref())?;
        let app = self.app(key.app_name())?.ok_or_else(|| no_session(key))?;
        let mut app = write(&app);
        self.drop_expired(&mut app, key);
        let stored = app.session_mut(key).ok_or_else(|| no_session(key))?;
        let (metadata, expires) = update.apply(&stored.metadata, stored.expires)?;
        (stored.metadata, stored.expires) = (metadata.into(), expires);
        Ok(())
    }

    async fn prune(&self, what: Prune, limit: usize) -> Result<u64> {
        match what {
            Prune::Expired => self.prune_expired(limit).await,
            Prune::Events { session, before } => self.prune_events(&session, before, limit).await,
            Prune::StateLog { owner, before } => self.prune_state_log(&owner, before, limit).await,
        }
    }

    async fn list_event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Result<Option<EventHashes>> {
        let Some(app) = self.app(key.app_name())? else {
            return Ok(None);
        };
        let listed = self.live(&read(&app), key).map(|(_, stored)| stored.listed_for_hashes(after, limit));
        // The texts are written and hashed without the app's lock.
        listed.map(ListedEvents::hashes).transpose()
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
            let user = StateOwner::user(app_name, user_id)?;
            if let Some(sessions) = app.remove_user(user_id) {
                app.record(self.next_position(), Removal::of_user(user.clone(), sessions, self.environment.now()));
            }
            self.quotas.forget(&user);
            for change in &mut app.state.log {
                if change.origin.as_ref().is_some_and(|(key, _)| key.user_id() == user_id) {
                    change.origin = None;
                }
                if *change.author == *user_id {
                    change.author = "".into();
                }
            }
            self.notifier.notify_scopes([CommitScope::all_of(&user)]);
        }
        Ok(())
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        self.check_open().map(|()| Vec::new())
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        self.notifier.close();
        Ok(())
    }
}

impl InMemorySessionService {
    async fn prune_expired(&self, limit: usize) -> Result<u64> {
        let deleted = self.remove_expired(limit).await?;
        let (before, step) = (self.environment.now() - REMOVALS_KEPT.as_secs_f64(), limit.clamp(1, LET_GO_AT_ONCE));
        for app in self.all_apps()?.values() {
            while write(app).drop_removals(before, step) == step {}
        }
        Ok(deleted)
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        let Some(app) = self.app(key.app_name())? else {
            return Ok(0);
        };
        let mut app = write(&app);
        self.drop_expired(&mut app, key);
        self.quotas.forget(&key.user());
        let (pruned, last) = app.prune_events(key, before, limit)?;
        if pruned > 0 {
            let removal = Removal::of_session(RemovalKind::Pruned, key.clone(), last, self.environment.now());
            app.record(self.next_position(), removal);
            self.notifier.notify_session(key);
        }
        Ok(pruned as u64)
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        let Some(app) = self.app(owner.app_name())? else {
            return Ok(0);
        };
        let mut app = write(&app);
        // A position ahead of the log would include future commits.
        let before = before.min(self.position() + 1);
        Ok(app.owned_mut(owner).map_or(0, |state| state.prune(before, limit)) as u64)
    }
}
