//! Sessions, as ADK's clients make, read, change and delete them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use scratchbook::{GetSessionConfig, Session};
use serde_json::json;

use super::AdkError;
use crate::scope::SessionScope;
use crate::served::Served;

pub(super) async fn get(
    State(served): State<Arc<Served>>,
    scope: SessionScope<AdkError>,
) -> Result<Json<Session>, AdkError> {
    let session = served.store.sessions.get_session(&scope.key, &GetSessionConfig::default()).await?;
    session.map(Json).ok_or_else(|| AdkError::new(StatusCode::NOT_FOUND, json!("Session not found")))
}
