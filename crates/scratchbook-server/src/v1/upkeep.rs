//! Maintenance: verification of stored state, pruning, and deletion of expired sessions.

use axum::Json;
use axum::extract::State;
use scratchbook::SessionServiceExt;
use scratchbook::session::{Prune, StateOwner, Verified};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::WriteRefusals;
use super::request::{Body, JsonRequest, NoQuery, page_size};
use super::sessions::no_session;
use super::{AppScope, JsonAnswer, Needs, SessionScope, UPKEEP, UserScope};
use crate::app_state::AppState;
use crate::openapi::path::{AppPath, SessionPath, UserPath};
use crate::scope::{Admin, AdminOfAll};

/// The result of a verification without differences.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"events": 3, "keys": 2}))]
pub(super) struct VerifiedBody {
    /// The number of events that were read, or of changes in a log.
    events: u64,
    /// The number of keys that were computed. All of them are equal to the stored ones.
    keys: u64,
}

/// The request to prune a session's events or a log.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Prune, example = json!({"before": 1001, "limit": 500}))]
pub(super) struct PruneRequest {
    /// For a session, the number of the first event to keep. For a log, a position: values that were overwritten before
    /// it are removed.
    before: u64,
    /// The maximum number of items to remove in this commit, from 1 to 1,000.
    #[serde(default = "step")]
    #[schema(minimum = 1, maximum = 1000, default = 500, required = false)]
    limit: usize,
}

impl JsonRequest for PruneRequest {}

/// The request to delete expired sessions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"limit": 500}))]
pub(super) struct PruneExpired {
    /// The maximum number of items to remove in this commit, from 1 to 1,000.
    #[serde(default = "step")]
    #[schema(minimum = 1, maximum = 1000, default = 500, required = false)]
    limit: usize,
}

impl JsonRequest for PruneExpired {}

/// The result of pruning.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"pruned": 500}))]
pub(super) struct Pruned {
    /// The number of events, changes or sessions that were removed. If it is lower than `limit`, nothing is left to
    /// remove.
    pruned: u64,
}

fn step() -> usize {
    500
}

/// Verify a session: compute its state again from its events and compare it with the stored state.
///
/// A difference is reported as the error `data_corrupted`, which names the key or the event.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/verify", operation_id = "verifySession", tag = UPKEEP,
    params(SessionPath),
    responses((status = 200, description = "The stored data is consistent.", body = VerifiedBody), WriteRefusals)
)]
pub(super) async fn session(scope: SessionScope, _: NoQuery) -> JsonAnswer<VerifiedBody> {
    let verified = scope.app_state.store.sessions.verify_session(&scope.key).await?;
    Ok(Json(verified.ok_or_else(|| no_session(&scope.key))?.into()))
}

/// Verify an app's state: compute it again from its log and compare it with the stored state.
///
/// A difference is reported as the error `data_corrupted`, which names the key.
#[utoipa::path(
    get, path = "/apps/{app}/verify", operation_id = "verifyApp", tag = UPKEEP, params(AppPath),
    responses((status = 200, description = "The stored data is consistent.", body = VerifiedBody), WriteRefusals)
)]
pub(super) async fn app(scope: AppScope, _: NoQuery) -> JsonAnswer<VerifiedBody> {
    Ok(Json(scope.app_state.store.sessions.verify_state(&scope.owner()?).await?.into()))
}

/// Verify a user's state: compute it again from its log and compare it with the stored state.
///
/// A difference is reported as the error `data_corrupted`, which names the key.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/verify", operation_id = "verifyUser", tag = UPKEEP, params(UserPath),
    responses((status = 200, description = "The stored data is consistent.", body = VerifiedBody), WriteRefusals)
)]
pub(super) async fn user(scope: UserScope, _: NoQuery) -> JsonAnswer<VerifiedBody> {
    Ok(Json(scope.app_state.store.sessions.verify_state(&scope.owner()?).await?.into()))
}

/// Remove the oldest events of a session.
///
/// The token needs the right `admin`. The state after the removed events becomes the initial state of the session. The
/// current state and the numbers of later events do not change.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}/prune", operation_id = "pruneSession", tag = UPKEEP,
    params(SessionPath), request_body = PruneRequest,
    responses((status = 200, description = "The number of removed items.", body = Pruned), WriteRefusals)
)]
pub(super) async fn prune_session(
    scope: SessionScope,
    _: Needs<Admin>,
    _: NoQuery,
    Body(body): Body<PruneRequest>,
) -> JsonAnswer<Pruned> {
    let limit = page_size("limit", body.limit)?;
    Ok(Json(Pruned {
        pruned: scope.app_state.store.sessions.prune(Prune::events(&scope.key, body.before), limit).await?,
    }))
}

/// Remove overwritten values from the log of an app's state.
///
/// The token needs the right `admin`. The last change of each key stays.
#[utoipa::path(
    post, path = "/apps/{app}/prune", operation_id = "pruneApp", tag = UPKEEP, params(AppPath),
    request_body = PruneRequest,
    responses((status = 200, description = "The number of removed items.", body = Pruned), WriteRefusals)
)]
pub(super) async fn prune_app(
    scope: AppScope,
    _: Needs<Admin>,
    _: NoQuery,
    Body(body): Body<PruneRequest>,
) -> JsonAnswer<Pruned> {
    prune_log(&scope.app_state, &scope.owner()?, &body).await
}

/// Remove overwritten values from the log of a user's state.
///
/// The token needs the right `admin`. The last change of each key stays.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/prune", operation_id = "pruneUser", tag = UPKEEP, params(UserPath),
    request_body = PruneRequest,
    responses((status = 200, description = "The number of removed items.", body = Pruned), WriteRefusals)
)]
pub(super) async fn prune_user(
    scope: UserScope,
    _: Needs<Admin>,
    _: NoQuery,
    Body(body): Body<PruneRequest>,
) -> JsonAnswer<Pruned> {
    prune_log(&scope.app_state, &scope.owner()?, &body).await
}

/// Permanently delete the expired sessions of all apps.
///
/// The token needs the right `admin`, and it must not be limited to an app or a user.
#[utoipa::path(
    post, path = "/prune-expired", operation_id = "pruneExpired", tag = UPKEEP, request_body = PruneExpired,
    responses((status = 200, description = "The number of removed items.", body = Pruned), WriteRefusals)
)]
pub(super) async fn prune_expired(
    State(app_state): State<AppState>,
    _: Needs<AdminOfAll>,
    _: NoQuery,
    Body(body): Body<PruneExpired>,
) -> JsonAnswer<Pruned> {
    let limit = page_size("limit", body.limit)?;
    Ok(Json(Pruned { pruned: app_state.store.sessions.prune(Prune::Expired, limit).await? }))
}

async fn prune_log(app_state: &AppState, owner: &StateOwner, body: &PruneRequest) -> JsonAnswer<Pruned> {
    let limit = page_size("limit", body.limit)?;
    Ok(Json(Pruned { pruned: app_state.store.sessions.prune(Prune::state_log(owner, body.before), limit).await? }))
}

impl From<Verified> for VerifiedBody {
    fn from(verified: Verified) -> Self {
        Self { events: verified.events, keys: verified.keys }
    }
}
