//! Fork of a session at an event, and rewind to before an invocation.

use axum::Json;
use axum::http::StatusCode;
use scratchbook::session::ForkConfig;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::WriteRefusals;
use super::request::{Body, JsonRequest, NoQuery};
use super::shape::{SessionBody, StoredEventJson};
use super::{ApiError, JsonAnswer, SESSIONS, SessionScope};
use crate::openapi::path::SessionPath;

/// The request to fork a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"at": 3, "id": "s1-again"}))]
pub(super) struct Fork {
    /// The number of the last event to copy. With 0, no event is copied. If it is absent, all events are copied.
    #[serde(default)]
    at: Option<u64>,
    /// The id of the new session. If it is empty or absent, the server generates one.
    #[serde(default)]
    #[schema(max_length = 512)]
    id: Option<String>,
}

impl JsonRequest for Fork {}

/// The request to rewind a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"beforeInvocationId": "i2"}))]
pub(super) struct Rewind {
    /// The id of a run (an invocation). The session's keys and artifacts get the values that they had before it.
    before_invocation_id: String,
}

impl JsonRequest for Rewind {}

/// The result of a rewind.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"event": {
    "id": "e4", "author": "user", "actions": {"rewindBeforeInvocationId": "i2", "stateDelta": {"step": 1}}, "seq": 4,
}}))]
pub(super) struct Rewound {
    /// The event that records the rewind.
    event: StoredEventJson,
}

/// Fork a session: create a new session of the same user from it.
///
/// The new session has the events and the state of this one, up to the event that the request names.
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

/// Rewind a session to its state before an invocation.
///
/// The session's own keys and its artifacts get the values that they had before the invocation. The keys of the user
/// and the app do not change, and no events are deleted.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}/rewind", operation_id = "rewindSession", tag = SESSIONS,
    params(SessionPath), request_body = Rewind,
    responses((status = 200, description = "The event that records the change.", body = Rewound), WriteRefusals)
)]
pub(super) async fn rewind(scope: SessionScope, _: NoQuery, Body(body): Body<Rewind>) -> JsonAnswer<Rewound> {
    let event = scope.app_state.store.rewind(&scope.key, &body.before_invocation_id).await;
    let event = event.map_err(|e| ApiError::of_session(e, &scope))?;
    Ok(Json(Rewound { event: StoredEventJson::told(event, &scope.caller) }))
}
