//! Sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use scratchbook::{Error, GetSessionConfig, Session};

use super::ApiError;
use crate::scope::SessionScope;
use crate::served::Served;

pub(super) async fn get(
    State(served): State<Arc<Served>>,
    scope: SessionScope<ApiError>,
) -> Result<Json<Session>, ApiError> {
    let session = served.store.sessions.get_session(&scope.key, &GetSessionConfig::default()).await?;
    Ok(Json(session.ok_or_else(|| Error::not_found(format!("there is no session {}", scope.key)))?))
}
