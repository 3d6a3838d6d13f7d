//! A layer around the store that counts writes, keeps the slowest calls, and notes which writes lacked room.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use scratchbook::environment::Environment;
use scratchbook::session::{
    AppendOptions, Committed, ListSessionsConfig, ListSessionsResponse, PutStateOptions, StateOwner, forward_sessions,
};
use scratchbook::{
    CreateSessionConfig, ErrorKind, Event, GetSessionConfig, Result, Session, SessionKey, SessionService, StateDelta,
};

use crate::activity::{CallOutcome, RecentCounts, SlowCall};

/// A service whose calls are counted.
#[derive(Debug)]
pub(crate) struct WithActivity {
    service: Arc<dyn SessionService>,
    activity: Arc<RecentCounts>,
    environment: Arc<dyn Environment>,
}

impl WithActivity {
    pub(crate) fn new(
        service: Arc<dyn SessionService>,
        activity: Arc<RecentCounts>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self { service, activity, environment }
    }

    async fn counted<T>(
        &self,
        app_name: &str,
        method: &'static str,
        success: CallOutcome,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let begun = Instant::now();
        let result = call.await;
        let outcome = match &result {
            Ok(_) => success,
            Err(error) if error.kind() == ErrorKind::Conflict => CallOutcome::Conflict,
            Err(error) if error.is_for_operator() => CallOutcome::Error,
            // An invalid request is not counted for the app, which may not even exist.
            Err(_) => return result,
        };
        if success != CallOutcome::Read {
            self.activity.note_write(lacked_room(&result));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let call = SlowCall { app_name: app_name.to_owned(), method, time: self.environment.now(), seconds };
        self.activity.count(&call, outcome);
        result
    }
}

/// Returns whether the disk, the memory or another limit of the store itself is used up. A quota or a limit of a
/// scope concerns the caller and not the operator.
fn lacked_room<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceExhausted && error.is_for_operator())
}

#[async_trait]
impl SessionService for WithActivity {
    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        self.counted(key.app_name(), "append", CallOutcome::Appended, self.service.append(key, event, options)).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let call = self.service.put_state(owner, delta, options);
        self.counted(owner.app_name(), "put_state", CallOutcome::Appended, call).await
    }

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let call = self.service.create_session(app_name, user_id, config);
        self.counted(app_name, "create_session", CallOutcome::Appended, call).await
    }

    async fn get_session(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        let call = self.service.get_session(key, config);
        self.counted(key.app_name(), "get_session", CallOutcome::Read, call).await
    }

    async fn list_sessions(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        let call = self.service.list_sessions(app_name, config);
        self.counted(app_name, "list_sessions", CallOutcome::Read, call).await
    }

    async fn check_writable(&self) -> Result<Vec<String>> {
        let checked = self.service.check_writable().await;
        self.activity.note_write(lacked_room(&checked));
        checked
    }

    forward_sessions!(self.service =>
        capabilities, get_initial_state, get_state_at, blame, fork_session, locate_session, delete_session, get_state,
        state_bytes, list_state, list_state_changes, list_feed, commits, update_session, prune, list_event_hashes,
        list_owners, delete_user, close);
}
