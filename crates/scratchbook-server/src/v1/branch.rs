//! Fork of a session at an event, and rewind to before an invocation.

use axum::Json;
use axum::http::StatusCode;
use scratchbook::session::ForkConfig;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::WriteRefusals;
use super::request::{Body, NoQuery, Sent};
use super::shape::{SessionBody, Stored};
use super::{Answer, ApiError, SESSIONS, SessionScope};
use crate::openapi::path::SessionPath;

/// The request to fork a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"at": 3, "id": "s1-again"}))]
pub(super) struct Fork {
    /// The number of the last event to copy; 0 for none. All events if absent.
    #[serde(default)]
    at: Option<u64>,
    /// The id of the new session. One is generated if it is empty or absent.
    #[serde(default)]
    #[schema(max_length = 512)]
    id: Option<String>,
}

impl Sent for Fork {}

/// The request to rewind a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"beforeInvocationId": "i2"}))]
pub(super) struct Rewind {
    /// The session's keys and artifacts get the values from before this invocation.
    before_invocation_id: String,
}

impl Sent for Rewind {}

/// A rewind that was done.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"event": {
    "id": "e4", "author": "user", "actions": {"rewindBeforeInvocationId": "i2", "stateDelta": {"step": 1}}, "seq": 4,
}}))]
pub(super) struct Rewound {
    /// The event that records the rewind.
    event: Stored,
}

/// Fork a session: create a session of the same user with the events and the state up to an event of this one.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}/fork", operation_id = "forkSession", tag = SESSIONS,
    params(SessionPath), request_body = Fork,
    responses((status = 201, description = "The new session, without its events.", body = SessionBody), WriteRefusals)
)]
pub(super) async fn fork(
    scope: SessionScope,
    _: NoQuery,
    Body(body): Body<Fork>,
) -> Result<(StatusCode, Json<SessionBody>), ApiError> {
    let mut config = ForkConfig::default();
    (config.at, config.session_id) = (body.at, body.id);
    let session = scope.app_state.store.sessions.fork_session(&scope.key, config).await?;
    Ok((StatusCode::CREATED, Json(SessionBody::told(session, &scope.caller))))
}

/// Rewind a session to before an invocation.
///
/// Its own keys and its artifacts get the values from before the invocation; the user's and the app's keys stay, and so
/// do all events.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}/rewind", operation_id = "rewindSession", tag = SESSIONS,
    params(SessionPath), request_body = Rewind,
    responses((status = 200, description = "The event that records the change.", body = Rewound), WriteRefusals)
)]
pub(super) async fn rewind(scope: SessionScope, _: NoQuery, Body(body): Body<Rewind>) -> Answer<Rewound> {
    let event = scope.app_state.store.rewind(&scope.key, &body.before_invocation_id).await;
    let event = event.map_err(|e| ApiError::of_session(e, &scope))?;
    Ok(Json(Rewound { event: Stored::told(event, &scope.caller) }))
}
