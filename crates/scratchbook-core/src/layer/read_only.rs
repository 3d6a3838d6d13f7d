//! A read-only service.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::artifact::{ArtifactService, ArtifactVersion};
use crate::content::Part;
use crate::error::{Error, ErrorKind, KeyWriter, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, CommitNotices, Committed, CreateSessionConfig, Expiry, FeedPage, FeedStart, ForkConfig,
    GetSessionConfig, InitialState, ListSessionsConfig, ListSessionsResponse, ListStateConfig, Outcome,
    PutStateOptions, Session, SessionKey, SessionService, SessionUpdate, StateChange, StateOwner, StatePage,
};
use crate::state::{StateDelta, StateMap};

/// A service that refuses every write with `PermissionDenied`: for viewers and reports.
///
/// It protects against mistakes only. A program with the database's address and credentials can still write: use a
/// database role without that permission.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::ReadOnly;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let store = std::sync::Arc::new(InMemorySessionService::new());
/// let session = store.create_session("app", "alice", Default::default()).await?;
///
/// let viewer = ReadOnly::new(store);
/// assert!(viewer.get_session(session.key(), &Default::default()).await?.is_some());
/// let error = viewer.delete_session(session.key()).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::PermissionDenied);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ReadOnly<S> {
    service: S,
}

impl<S> ReadOnly<S> {
    /// Passes on the reads of a service, for sessions or artifacts.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self { service }
    }
}

fn denied<T>(what: &str) -> Result<T> {
    let message = format!("cannot {what}: the service is opened read-only; open it for writing");
    Err(Error::new(ErrorKind::PermissionDenied, message))
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService> SessionService for ReadOnly<S> {
    async fn create_session(&self, _: &str, _: &str, _: CreateSessionConfig) -> Result<Session> {
        denied("create a session")
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        self.service.get_session(key, config).await
    }

    async fn get_initial_state(&self, key: &SessionKey) -> Result<Option<InitialState>> {
        self.service.get_initial_state(key).await
    }

    async fn get_state_at(&self, key: &SessionKey, seq: u64) -> Result<StateMap> {
        self.service.get_state_at(key, seq).await
    }

    async fn blame(&self, key: &SessionKey) -> Result<BTreeMap<String, KeyWriter>> {
        self.service.blame(key).await
    }

    async fn fork_session(&self, _: &SessionKey, _: ForkConfig) -> Result<Session> {
        denied("fork a session")
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        self.service.list_sessions(app_name, config).await
    }

    async fn locate_session(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        self.service.locate_session(app_name, session_id).await
    }

    async fn delete_session(&self, _: &SessionKey) -> Result<()> {
        denied("delete a session")
    }

    async fn append(&self, _: &SessionKey, event: Event, _: AppendOptions) -> Result<Committed> {
        // A piece of a stream is never written.
        match event.is_partial() {
            true => Ok(Committed::new(event.into(), Outcome::Partial)),
            false => denied("append an event"),
        }
    }

    async fn get_state(&self, owner: &StateOwner) -> Result<Map<String, Value>> {
        self.service.get_state(owner).await
    }

    async fn list_state(&self, owner: &StateOwner, config: &ListStateConfig) -> Result<StatePage> {
        self.service.list_state(owner, config).await
    }

    async fn put_state(&self, _: &StateOwner, _: StateDelta, _: PutStateOptions) -> Result<u64> {
        denied("change state")
    }

    async fn list_state_changes(&self, owner: &StateOwner, after: u64, limit: usize) -> Result<Vec<StateChange>> {
        self.service.list_state_changes(owner, after, limit).await
    }

    async fn list_key_changes(
        &self,
        owner: &StateOwner,
        name: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<StateChange>> {
        self.service.list_key_changes(owner, name, before, limit).await
    }

    async fn list_feed(&self, owner: &StateOwner, start: &FeedStart, limit: usize) -> Result<FeedPage> {
        self.service.list_feed(owner, start, limit).await
    }

    fn commits(&self) -> Result<CommitNotices> {
        self.service.commits()
    }

    async fn set_expiry(&self, _: &SessionKey, _: Option<Expiry>) -> Result<()> {
        denied("set when a session expires")
    }

    async fn update_session(&self, _: &SessionKey, _: SessionUpdate) -> Result<()> {
        denied("change a session's title and labels")
    }

    async fn delete_expired(&self, _: usize) -> Result<u64> {
        denied("delete expired sessions")
    }

    async fn prune_events(&self, _: &SessionKey, _: u64, _: usize) -> Result<u64> {
        denied("prune events")
    }

    async fn prune_state_log(&self, _: &StateOwner, _: u64, _: usize) -> Result<u64> {
        denied("prune a log")
    }

    async fn list_owners(&self, after: Option<&StateOwner>, limit: usize) -> Result<Vec<StateOwner>> {
        self.service.list_owners(after, limit).await
    }

    async fn delete_user(&self, _: &str, _: &str) -> Result<()> {
        denied("erase a user")
    }

    async fn check_writable(&self) -> Result<()> {
        // A read-only service need not be writable.
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.service.close().await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: ArtifactService> ArtifactService for ReadOnly<S> {
    async fn save_artifact(&self, _: &SessionKey, _: &str, _: Part, _: Map<String, Value>) -> Result<u64> {
        denied("save an artifact")
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        self.service.load_artifact(session, filename, version).await
    }

    async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<String>> {
        self.service.list_artifacts(session).await
    }

    async fn list_artifact_versions(&self, session: &SessionKey, filename: &str) -> Result<Vec<ArtifactVersion>> {
        self.service.list_artifact_versions(session, filename).await
    }

    async fn delete_artifact(&self, _: &SessionKey, _: &str) -> Result<()> {
        denied("delete an artifact")
    }
}
