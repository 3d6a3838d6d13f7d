//! Long-term memory, which there is none of: what it is asked to remember is checked, and that is all, as in an
//! `adk api_server` without a memory service.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use scratchbook::{GetSessionConfig, SessionKey};
use serde_json::Value;

use super::AdkError;
use super::body::{JsonBody, UpdateMemoryRequest};
use crate::scope::UserScope;
use crate::served::Served;

pub(super) async fn update(
    State(served): State<Arc<Served>>,
    scope: UserScope<AdkError>,
    JsonBody(request): JsonBody<UpdateMemoryRequest>,
) -> Result<Json<Value>, AdkError> {
    let key = SessionKey::new(&scope.app_name, &scope.user_id, &request.session_id)?;
    let nothing = GetSessionConfig::state_only().without_state();
    match served.store.sessions.get_session(&key, &nothing).await? {
        Some(_) => Ok(Json(Value::Null)),
        None => Err(AdkError::no_session()),
    }
}
