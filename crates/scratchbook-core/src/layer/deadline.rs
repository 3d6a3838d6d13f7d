//! A deadline for every call of a service.

use std::future::Future;
use std::time::Duration;

use crate::artifact::{ArtifactService, forward_artifacts};
use crate::environment::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{SessionService, forward_sessions};

/// A service with a time limit for every call. A call that exceeds the limit fails with `Unavailable`.
///
/// A write that exceeds its deadline is not rolled back: its outcome is unknown, and a retry with the same ids is safe.
/// The layer needs a Tokio runtime with a timer, such as that of `#[tokio::main]`. The layer can wrap a shared service
/// for a single call, or once for all calls.
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
        let call = Deadline::after(self.deadline).scope(call);
        tokio::time::timeout(self.deadline, call).await.unwrap_or_else(|_| {
            let seconds = self.deadline.as_secs_f64();
            Err(Error::new(ErrorKind::Unavailable, format!("no answer within the deadline of {seconds} s; try again")))
        })
    }
}

impl<S: SessionService> SessionService for WithDeadline<S> {
    forward_sessions!(self.bound(self.service) =>
        create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_state, list_feed,
        update_session, prune, list_sessions, locate_session, delete_session, append, get_state, state_bytes, put_state,
        list_state_changes, list_event_hashes, list_owners, delete_user, check_writable, close);

    forward_sessions!(self.service => capabilities, commits);
}

impl<S: ArtifactService> ArtifactService for WithDeadline<S> {
    forward_artifacts!(self.bound(self.service) =>
        save_artifact, load_artifact, list_artifacts, list_artifact_versions, delete_artifact);
}
