//! A read-only service.

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::artifact::{ArtifactService, forward_artifacts};
use crate::content::Part;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::session::{
    AppendOptions, Capabilities, Capability, Committed, CreateSessionConfig, ForkConfig, Outcome, Prune,
    PutStateOptions, Session, SessionKey, SessionService, SessionUpdate, StateOwner, forward_sessions,
};
use crate::state::StateDelta;

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
    fn capabilities(&self) -> Capabilities {
        use Capability::{Checks, Conflicts, Operations, Replays, Retention, WholeCreation};
        self.service.capabilities().without([Checks, Conflicts, Operations, Replays, Retention, WholeCreation])
    }

    forward_sessions!(self.service =>
        get_session, get_initial_state, get_state_at, blame, list_sessions, locate_session, get_state, state_bytes, list_state,
        list_state_changes, list_feed, commits, list_event_hashes, list_owners, close);

    async fn create_session(&self, _: &str, _: &str, _: CreateSessionConfig) -> Result<Session> {
        denied("create a session")
    }

    async fn fork_session(&self, _: &SessionKey, _: ForkConfig) -> Result<Session> {
        denied("fork a session")
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

    async fn put_state(&self, _: &StateOwner, _: StateDelta, _: PutStateOptions) -> Result<u64> {
        denied("change state")
    }

    async fn update_session(&self, _: &SessionKey, _: SessionUpdate) -> Result<()> {
        denied("change a session's title and labels")
    }

    async fn prune(&self, _: Prune, _: usize) -> Result<u64> {
        denied("remove old data")
    }

    async fn delete_user(&self, _: &str, _: &str) -> Result<()> {
        denied("erase a user")
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        // A read-only service need not be writable.
        Ok(Vec::new())
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: ArtifactService> ArtifactService for ReadOnly<S> {
    forward_artifacts!(self.service => load_artifact, list_artifacts, list_artifact_versions);

    async fn save_artifact(&self, _: &SessionKey, _: &str, _: Part, _: Map<String, Value>) -> Result<u64> {
        denied("save an artifact")
    }

    async fn delete_artifact(&self, _: &SessionKey, _: &str) -> Result<()> {
        denied("delete an artifact")
    }
}
