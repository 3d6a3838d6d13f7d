//! The state of a session: reading its present and past values, and changing it.

use std::collections::HashSet;

use axum::Json;
use axum::response::Response;
use scratchbook::{Error, Event, GetSessionConfig, Result, StateMap, json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::error::{ReadErrors, WriteRefusals};
use super::events::{Appended, commit};
use super::request::{Body, JsonRequest, NoQuery, PathKey, Query};
use super::sessions::read;
use super::shape::{Conflict, Operations, SeenPositions};
use super::{ApiError, JsonAnswer, STATE, SessionScope};
use crate::answers;
use crate::bodies::{self as counted, Shape};
use crate::openapi::path::{KeyPath, SessionPath};

/// The query for a state.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadState {
    /// Read the state that the session had right after the event with this number. 0 is the initial state. If it is
    /// absent, the current state is read.
    at: Option<u64>,
    /// Return only these keys. Write them with their prefixes. Keys that do not exist are left out.
    #[serde(default)]
    key: Vec<String>,
}

/// The event at which one key of a session is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadKey {
    /// Read the state that the session had right after the event with this number. 0 is the initial state. If it is
    /// absent, the current state is read.
    at: Option<u64>,
}

/// The merged state of a session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "state": {"cart": {"milk": 2}, "user:language": "en"}, "seq": 3, "seen": {"seq": 3, "user": 17, "app": 12},
}))]
pub(super) struct SessionState {
    /// Keys with their prefixes, and their values.
    #[schema(value_type = BTreeMap<String, Value>)]
    state: Map<String, Value>,
    /// The number of the last event that is part of the state. `null` if the store does not know it.
    seq: Option<u64>,
    /// The positions up to which the state was read. Send them back with a write that uses optimistic locking. Absent
    /// if the request has `at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<SeenPositions>,
}

/// A key with its value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"key": "cart", "value": {"milk": 2}}))]
pub(super) struct KeyValue {
    /// The key. For a session, it has its prefix. For a user or an app, it has no prefix.
    pub(super) key: String,
    /// The value of the key. `null` is a value. For a key that does not exist, the status is 404.
    pub(super) value: Value,
}

/// A change to the state of a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "author": "support", "stateDelta": {"status": "open", "draft": "__ADK_SENTINEL_REMOVED__"},
    "operations": {"user:orders": [{"increment": 1}]},
}))]
pub(super) struct PatchState {
    /// The author of the change.
    author: String,
    /// Keys, with their prefixes, and their new values. The string `__ADK_SENTINEL_REMOVED__` removes a key.
    /// Keys that begin with `temp:` are not stored.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>, required = false)]
    state_delta: scratchbook::StateDelta,
    /// Operations and guards by key.
    #[serde(default)]
    #[schema(required = false)]
    operations: Operations,
    /// The id of the event that records the change. If you send an id, you can safely send the request again.
    #[serde(default)]
    #[schema(max_length = 512)]
    event_id: Option<String>,
    /// The mode of optimistic locking. It says when the write is refused as a `conflict`.
    #[serde(default)]
    #[schema(required = false)]
    conflict: Conflict,
    /// What the writer has read. The modes `by_key` and `by_session` require it.
    #[serde(default, deserialize_with = "json::optional_object")]
    seen: Option<SeenPositions>,
}

static OPERATIONS: Shape = Shape::Fields(&[("operations", &counted::OPERATIONS)]);

impl JsonRequest for PatchState {
    const SHAPE: &'static Shape = &OPERATIONS;
}

/// Read the merged state of a session, now or at an event.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/state", operation_id = "getSessionState", tag = STATE,
    params(SessionPath, ReadState),
    responses((status = 200, description = "The state.", body = SessionState), ReadErrors)
)]
pub(super) async fn get(scope: SessionScope, Query(query): Query<ReadState>) -> Result<Response, ApiError> {
    let keys = query.key;
    if let Some(seq) = query.at {
        let mut state = scope.app_state.store.sessions.get_state_at(&scope.key, seq).await?.to_map();
        if !keys.is_empty() {
            let keys: HashSet<_> = keys.into_iter().collect();
            state.retain(|key, _| keys.contains(key));
        }
        return Ok(answers::json(SessionState { state, seq: Some(seq), seen: None }).await?);
    }
    let mut config = GetSessionConfig::state_only().with_page_bytes(scope.app_state.page_bytes());
    if !keys.is_empty() {
        config = config.with_state_keys(keys);
    }
    let session = read(&scope.app_state, &scope.key, &config).await?;
    let seen = Some(SeenPositions::of(&session));
    Ok(answers::json(SessionState { state: session.state().to_map(), seq: session.known_seq(), seen }).await?)
}

/// Read one key of a session's state, now or at an event.
///
/// A path cannot contain the empty key, the key `.` or the key `..`. To read them, use the parameter `key` of the route
/// for the whole state.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/state/{key}", operation_id = "getSessionKey", tag = STATE,
    params(SessionPath, KeyPath, ReadKey),
    responses((status = 200, description = "The key with its value.", body = KeyValue), ReadErrors)
)]
pub(super) async fn get_key(
    scope: SessionScope,
    PathKey(key): PathKey,
    Query(query): Query<ReadKey>,
) -> JsonAnswer<KeyValue> {
    let state: StateMap = match query.at {
        Some(seq) => scope.app_state.store.sessions.get_state_at(&scope.key, seq).await?,
        None => {
            let config = GetSessionConfig::state_only().with_state_keys([&key]);
            read(&scope.app_state, &scope.key, &config).await?.state().clone()
        }
    };
    let value = state.get(&key).cloned();
    let value = value.ok_or_else(|| Error::not_found(format!("the session {} has no key '{key}'", scope.key)))?;
    Ok(Json(KeyValue { key, value }))
}

/// Change the state of a session.
///
/// The change is stored as an event without content. Writing `app:` keys needs the right `app`.
#[utoipa::path(
    patch, path = "/apps/{app}/users/{user}/sessions/{session}/state", operation_id = "patchSessionState", tag = STATE,
    params(SessionPath), request_body = PatchState,
    responses((status = 200, description = "The event that records the change.", body = Appended), WriteRefusals)
)]
pub(super) async fn patch(scope: SessionScope, _: NoQuery, Body(body): Body<PatchState>) -> JsonAnswer<Appended> {
    let delta = body.operations.with(body.state_delta)?;
    if delta.is_empty() {
        return Err(Error::invalid("nothing is changed; send stateDelta or operations").into());
    }
    let mut event = Event::new(body.author).with_state_delta(delta);
    event.id = body.event_id.unwrap_or_default();
    commit(&scope, event, body.conflict, body.seen).await
}
