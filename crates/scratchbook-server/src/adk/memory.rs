//! Long-term memory, which this server does not support. A request is checked and then refused, as by an `adk
//! api_server` without a memory service. If the server reported success, the client would rely on memory that does not
//! exist.

use scratchbook::{GetSessionConfig, SessionKey};
use std::convert::Infallible;

use super::AdkError;
use super::body::{JsonBody, UpdateMemoryRequest};
use crate::app_state::AppState;
use crate::scope::UserScope;

pub(super) async fn update(
    scope: UserScope<AppState, AdkError>,
    JsonBody(request): JsonBody<UpdateMemoryRequest>,
) -> Result<Infallible, AdkError> {
    let key = SessionKey::new(&scope.app_name, &scope.user_id, &request.session_id)?;
    let nothing = GetSessionConfig::state_only().without_state();
    Err(match scope.app_state.store.sessions.get_session(&key, &nothing).await? {
        Some(_) => AdkError::bad_request("Memory service is not configured. This server keeps no long-term memory."),
        None => AdkError::no_session(),
    })
}
