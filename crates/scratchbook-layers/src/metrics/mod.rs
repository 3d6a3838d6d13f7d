//! Measures calls: as traces, and with the feature `metrics` also as metrics.

mod call;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use self::call::{MeasuredCall, delta_bytes, event_bytes, json_bytes};
use scratchbook_core::artifact::{ArtifactService, ArtifactVersion, ListVersionsConfig};
use scratchbook_core::content::Part;
use scratchbook_core::error::{KeyWriter, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, ChangeQuery, Committed, CreateSessionConfig, EventHashes, FeedPage, FeedStart, ForkConfig,
    GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, Prune, PutStateOptions,
    Session, SessionKey, SessionService, SessionUpdate, StateChange, StateOwner, StatePage, forward_sessions,
};
use scratchbook_core::state::{StateDelta, StateMap};

/// A layer that traces every call with `tracing`, and counts it.
///
/// The span `scratchbook` of level `INFO` has the fields `operation` (the method's name), `app`, `keys` and
/// `events` (the numbers written), `bytes` (of JSON written), `items` (the number returned), and `outcome`: `ok`,
/// or the kind of the error. It contains no values, and no user ids unless they are [enabled](Self::with_user_ids).
///
/// With the feature `metrics`, the same is recorded through the `metrics` facade: `scratchbook_calls_total` and
/// `scratchbook_call_seconds` by `operation`, `app` and `outcome`; `scratchbook_written_bytes_total` and
/// `scratchbook_items_total` by `operation` and `app`. The program chooses the exporter.
///
/// If clients choose the names of apps, [list the known ones](Self::with_apps). Otherwise clients could create more
/// labels than an exporter can hold.
///
/// ```
/// use scratchbook::layer::WithMetrics;
/// use scratchbook::{InMemorySessionService, SessionService};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let sessions = WithMetrics::new(InMemorySessionService::new());
/// sessions.create_session("app", "user", Default::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct WithMetrics<S> {
    service: S,
    users: UserLabels,
    apps: Option<Arc<BTreeSet<String>>>,
}

/// The label of all apps that are not in the list.
const OTHER: &str = "other";

#[derive(Clone, Copy, Debug)]
enum UserLabels {
    Hidden,
    Shown,
}

impl<S> WithMetrics<S> {
    /// Measures the calls of a service, for sessions or artifacts.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self { service, users: UserLabels::Hidden, apps: None }
    }

    /// Adds the field `user` to spans.
    #[must_use]
    pub fn with_user_ids(mut self) -> Self {
        self.users = UserLabels::Shown;
        self
    }

    /// Counts the calls of all unlisted apps under one label, `other`.
    #[must_use]
    pub fn with_apps<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.apps = Some(Arc::new(names.into_iter().map(Into::into).collect()));
        self
    }

    fn call<'a>(&self, operation: &'static str, app: &'a str, user: Option<&str>) -> MeasuredCall<'a> {
        let shown = user.filter(|_| matches!(self.users, UserLabels::Shown));
        let is_known = self.apps.as_ref().is_none_or(|apps| apps.contains(app));
        MeasuredCall::new(operation, if is_known { app } else { OTHER }, shown)
    }

    fn on_session<'a>(&self, operation: &'static str, key: &'a SessionKey) -> MeasuredCall<'a> {
        self.call(operation, key.app_name(), Some(key.user_id()))
    }

    fn on_owner<'a>(&self, operation: &'static str, owner: &'a StateOwner) -> MeasuredCall<'a> {
        self.call(operation, owner.app_name(), owner.user_id())
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService> SessionService for WithMetrics<S> {
    forward_sessions!(self.service => capabilities, state_bytes, commits);

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let call = self.call("create_session", app_name, Some(user_id));
        let keys = config.state.as_object().map_or(0, Map::len);
        let call = call
            .events(config.events.len())
            .keys(keys)
            .bytes(config.events.iter().map(event_bytes).fold(json_bytes(&config.state), u64::saturating_add));
        call.watch(self.service.create_session(app_name, user_id, config), |_| 1).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let call = self.on_session("get_session", key);
        let events = |session: &Option<Session>| session.as_ref().map_or(0, |session| session.events().len());
        call.watch(self.service.get_session(key, config), events).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        let call = self.on_session("get_initial_state", key);
        call.watch(self.service.get_initial_state(key), |initial| initial.as_ref().map_or(0, |i| i.state.len())).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        self.on_session("get_state_at", key).watch(self.service.get_state_at(key, seq), StateMap::len).await
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.on_session("blame", key).watch(self.service.blame(key), BTreeMap::len).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        self.on_session("fork_session", key).watch(self.service.fork_session(key, config), |_| 1).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        let call = self.call("list_sessions", app_name, config.user_id.as_deref());
        call.watch(self.service.list_sessions(app_name, config), |page| page.sessions.len()).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        let call = self.call("locate_session", app_name, None);
        call.watch(self.service.locate_session(app_name, session_id), |found| usize::from(found.is_some())).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.on_session("delete_session", key).watch(self.service.delete_session(key), |()| 0).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        let call = self.on_session("append", key).events(1).keys(event.actions.state_delta.len());
        let call = call.bytes(event_bytes(&event));
        call.watch(self.service.append(key, event, options), |_| 1).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.on_owner("get_state", owner).watch(self.service.get_state(owner), Map::len).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        let call = self.on_owner("list_state", owner);
        call.watch(self.service.list_state(owner, config), |page| page.values.len()).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let call = self.on_owner("put_state", owner).keys(delta.len()).bytes(delta_bytes(&delta));
        call.watch(self.service.put_state(owner, delta, options), |_| 1).await
    }

    async fn list_state_changes(
        &self,
        owner: &StateOwner,
        query: &ChangeQuery,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        let call = self.on_owner("list_state_changes", owner);
        call.watch(self.service.list_state_changes(owner, query, limit), Vec::len).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        let call = self.on_owner("list_feed", owner);
        call.watch(self.service.list_feed(owner, start, limit), |page| page.entries.len()).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.on_session("update_session", key).watch(self.service.update_session(key, update), |()| 0).await
    }

    async fn prune(&self, what: Prune, limit: usize) -> Result<u64> {
        let owner = match &what {
            Prune::Expired => None,
            Prune::Events { session, .. } => Some(session.user()),
            Prune::StateLog { owner, .. } => Some(owner.clone()),
        };
        let call = match &owner {
            Some(owner) => self.on_owner("prune", owner),
            None => self.call("prune", "", None),
        };
        call.watch(self.service.prune(what, limit), |count| *count as usize).await
    }

    async fn list_event_hashes(&self, key: &SessionKey, after: u64, limit: usize) -> Result<Option<EventHashes>> {
        let hashes = |page: &Option<EventHashes>| page.as_ref().map_or(0, |page| page.events.len());
        self.on_session("list_event_hashes", key).watch(self.service.list_event_hashes(key, after, limit), hashes).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.call("list_owners", "", None).watch(self.service.list_owners(after, limit), Vec::len).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        let call = self.call("delete_user", app_name, Some(user_id));
        call.watch(self.service.delete_user(app_name, user_id), |()| 0).await
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        self.call("check_writable", "", None).watch(self.service.check_writable(), |_| 0).await
    }

    async fn close(&self) -> Result<()> {
        self.call("close", "", None).watch(self.service.close(), |()| 0).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: ArtifactService> ArtifactService for WithMetrics<S> {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let call = self.on_session("save_artifact", session).bytes(json_bytes(&(&artifact, &custom_metadata)));
        call.watch(self.service.save_artifact(session, filename, artifact, custom_metadata), |_| 1).await
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let call = self.on_session("load_artifact", session);
        call.watch(self.service.load_artifact(session, filename, version), |part| usize::from(part.is_some())).await
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        self.on_session("list_artifacts", session).watch(self.service.list_artifacts(session), Vec::len).await
    }

    async fn list_artifact_versions(
        &self,
        session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        let call = self.on_session("list_artifact_versions", session);
        call.watch(self.service.list_artifact_versions(session, filename, config), Vec::len).await
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        let call = self.on_session("delete_artifact", session);
        call.watch(self.service.delete_artifact(session, filename), |()| 0).await
    }
}
