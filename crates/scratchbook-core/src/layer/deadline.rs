//! A deadline for every call of a service.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::artifact::{ArtifactService, ArtifactVersion};
use crate::content::Part;
use crate::error::{Error, ErrorKind, KeyWriter, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, CommitNotices, Committed, CreateSessionConfig, Expiry, FeedPage, FeedStart, ForkConfig,
    GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, PutStateOptions,
    Session, SessionKey, SessionService, SessionUpdate, StateChange, StateOwner, StatePage,
};
use crate::state::{StateDelta, StateMap};

/// A service whose calls all end in time: with their result, or as `Unavailable`.
///
/// A write that exceeds its deadline is not rolled back: its outcome is unknown, and a retry with the same ids is safe.
/// This needs a Tokio runtime with a timer, such as that of `#[tokio::main]`. Wrap a shared service for one call, or
/// once for all calls.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use scratchbook::layer::WithDeadline;
/// use scratchbook::{InMemorySessionService, SessionService};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> scratchbook::Result<()> {
/// let service: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
/// let hurried = WithDeadline::new(Arc::clone(&service), Duration::from_secs(2));
/// hurried.create_session("app", "user", Default::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct WithDeadline<S> {
    service: S,
    deadline: Duration,
}

impl<S> WithDeadline<S> {
    /// Limits every call of a service, for sessions or artifacts, to this time.
    #[must_use]
    pub fn new(service: S, deadline: Duration) -> Self {
        Self { service, deadline }
    }

    async fn bound<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.deadline, call).await.unwrap_or_else(|_| {
            let seconds = self.deadline.as_secs_f64();
            Err(Error::new(ErrorKind::Unavailable, format!("no answer within the deadline of {seconds} s; try again")))
        })
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService> SessionService for WithDeadline<S> {
    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        self.bound(self.service.create_session(app_name, user_id, config)).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        self.bound(self.service.get_session(key, config)).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        self.bound(self.service.get_initial_state(key)).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        self.bound(self.service.get_state_at(key, seq)).await
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.bound(self.service.blame(key)).await
    }

    async fn fork_session(&self, key: &SessionKey, config: ForkConfig) -> Result<Session> {
        self.bound(self.service.fork_session(key, config)).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        self.bound(self.service.list_state(owner, config)).await
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        self.bound(self.service.list_key_changes(owner, name, before, limit)).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        self.bound(self.service.list_feed(owner, start, limit)).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        self.service.commits()
    }

    async fn set_expiry(&self, key: &SessionKey, expiry: Option<Expiry>) -> Result<()> {
        self.bound(self.service.set_expiry(key, expiry)).await
    }

    async fn update_session(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        self.bound(self.service.update_session(key, update)).await
    }

    async fn delete_expired(&self, limit: usize) -> Result<u64> {
        self.bound(self.service.delete_expired(limit)).await
    }

    async fn prune_events(&self, key: &SessionKey, before: u64, limit: usize) -> Result<u64> {
        self.bound(self.service.prune_events(key, before, limit)).await
    }

    async fn prune_state_log(&self, owner: &StateOwner, before: u64, limit: usize) -> Result<u64> {
        self.bound(self.service.prune_state_log(owner, before, limit)).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        self.bound(self.service.list_sessions(app_name, config)).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        self.bound(self.service.locate_session(app_name, session_id)).await
    }

    async fn delete_session(&self, key: &SessionKey) -> Result<()> {
        self.bound(self.service.delete_session(key)).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        self.bound(self.service.append(key, event, options)).await
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.bound(self.service.get_state(owner)).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        self.bound(self.service.put_state(owner, delta, options)).await
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        self.bound(self.service.list_state_changes(owner, after, limit)).await
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.bound(self.service.list_owners(after, limit)).await
    }

    async fn delete_user(&self, app_name: &str, user_id: &str) -> Result<()> {
        self.bound(self.service.delete_user(app_name, user_id)).await
    }

    async fn check_writable(&self) -> Result<()> {
        self.bound(self.service.check_writable()).await
    }

    async fn close(&self) -> Result<()> {
        self.bound(self.service.close()).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: ArtifactService> ArtifactService for WithDeadline<S> {
    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        self.bound(self.service.save_artifact(session, filename, artifact, custom_metadata)).await
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        self.bound(self.service.load_artifact(session, filename, version)).await
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        self.bound(self.service.list_artifacts(session)).await
    }

    async fn list_artifact_versions(&self, session: &SessionKey, filename: &str) -> Result<Vec<ArtifactVersion>> {
        self.bound(self.service.list_artifact_versions(session, filename)).await
    }

    async fn delete_artifact(&self, session: &SessionKey, filename: &str) -> Result<()> {
        self.bound(self.service.delete_artifact(session, filename)).await
    }
}
