//! A store: the session service and the artifact service of one place.

use std::sync::Arc;

use crate::artifact::ArtifactService;
use crate::error::{Error, ErrorKind};
use crate::session::{SessionKey, SessionService};

/// The services of one store: its sessions and its artifacts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Store {
    /// Sessions and state.
    pub sessions: Arc<dyn SessionService>,
    /// Artifacts.
    pub artifacts: Arc<dyn ArtifactService>,
}

impl Store {
    /// The services of a store that is both.
    #[must_use]
    pub fn new<S: SessionService + ArtifactService>(store: Arc<S>) -> Self {
        Self { sessions: Arc::<S>::clone(&store), artifacts: store }
    }

    /// Sessions kept in one place and artifacts in another.
    #[must_use]
    pub fn of(sessions: Arc<dyn SessionService>, artifacts: Arc<dyn ArtifactService>) -> Self {
        Self { sessions, artifacts }
    }
}

/// The error of a service that was closed.
#[doc(hidden)]
#[must_use]
pub fn closed() -> Error {
    Error::new(ErrorKind::FailedPrecondition, "the service was closed; make another").for_operator()
}

/// The error for a session id in use.
#[doc(hidden)]
#[must_use]
pub fn taken(key: &SessionKey) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("session already exists: {key}; use another id"))
}
