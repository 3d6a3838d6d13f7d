//! A store: its session service and its artifact service.

use std::sync::Arc;

use crate::artifact::ArtifactService;
use crate::error::{Error, ErrorKind};
use crate::session::{SessionKey, SessionService};

/// The services of one store: sessions and artifacts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Store {
    /// The service for sessions and state.
    pub sessions: Arc<dyn SessionService>,
    /// The service for artifacts.
    pub artifacts: Arc<dyn ArtifactService>,
}

impl Store {
    /// Creates a store from a service that implements both traits.
    #[must_use]
    pub fn new<S: SessionService + ArtifactService>(store: Arc<S>) -> Self {
        Self { sessions: Arc::<S>::clone(&store), artifacts: store }
    }

    /// Creates a store that keeps sessions and artifacts in different places.
    #[must_use]
    pub fn of(sessions: Arc<dyn SessionService>, artifacts: Arc<dyn ArtifactService>) -> Self {
        Self { sessions, artifacts }
    }
}

/// Returns the error of a closed service.
#[doc(hidden)]
#[must_use]
pub fn closed() -> Error {
    Error::new(ErrorKind::FailedPrecondition, "the service was closed; make another").for_operator()
}

/// Returns the error of a read after a session was created: the creation must not be tried again.
#[doc(hidden)]
#[must_use]
pub fn made_unread(error: Error, key: &SessionKey) -> Error {
    error.context(format!("the session {key} was created, and reading it failed")).not_retryable()
}

/// Returns the error for a session id in use.
#[doc(hidden)]
#[must_use]
pub fn taken(key: &SessionKey) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("session already exists: {key}; use another id"))
}
