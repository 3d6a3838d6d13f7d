//! The past: differences, blame, and the history of a key.

use axum::response::Response;
use scratchbook::session::{ChangeQuery, KeyWrite, StateOwner};
use scratchbook::{GetSessionConfig, Result, Scope, SessionKey, SessionServiceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

use super::error::ReadErrors;
use super::request::{NoQuery, Query, page_size, usual};
use super::sessions::{no_session, read};
use super::shape::{LogChange, Write};
use super::{ApiError, AppScope, SessionScope, TIME, UserScope};
use crate::access::Caller;
use crate::answers::json;
use crate::app_state::AppState;
use crate::openapi::path::{AppPath, SessionPath, UserPath};

/// The query for a comparison.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Between {
    /// The number of an event. 0 is the creation of the session.
    #[param(example = 0)]
    before: u64,
    /// The number of another event, usually a later one.
    #[param(example = 3)]
    after: u64,
}

/// A key that differs between two states.
#[derive(ToSchema)]
#[schema(as = KeyDiff)]
#[expect(dead_code, reason = "it stands for the library's type in the document")]
struct KeyDiffSchema {
    /// The value in the first state. Absent if the key is absent.
    #[schema(required = false)]
    before: Value,
    /// The value in the second state. Absent if the key is absent.
    #[schema(required = false)]
    after: Value,
}

/// The query for the writes to a key.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadHistory {
    /// The key. For a session, it has its prefix. For a user or an app, it has no prefix.
    #[param(example = "cart")]
    key: String,
    /// Return only writes up to the commit of the event with this number. 0 is the creation of the session. If it is
    /// absent, all writes are returned.
    at: Option<u64>,
    /// The maximum number of items, from 1 to 1,000.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    limit: usize,
}

/// The query for the writes to a key of a user or an app.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadLogHistory {
    /// The key, without prefix.
    #[param(example = "language")]
    key: String,
    /// Return only writes before this position. For the next page, send the `position` of the last write of this page.
    before: Option<u64>,
    /// The maximum number of items, from 1 to 1,000.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    limit: usize,
}

/// The writes to a key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = History)]
#[schema(example = json!({"key": "cart", "writes": [
    {"value": {"milk": 2}, "author": "agent", "userId": "alice", "sessionId": "s1", "seq": 3, "eventId": "e3",
     "invocationId": "i1", "time": 1795194011.59},
]}))]
pub(super) struct KeyWrites {
    /// The key.
    key: String,
    /// The writes, the latest first. There are fewer than `limit` if they exceed 16 MiB.
    writes: Vec<Write>,
}

/// The query for a part of a log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadLog {
    /// Return changes after this position. Send 0 for the first page, and then the `position` of the previous page.
    #[serde(default)]
    #[param(required = false)]
    after: u64,
    /// The approximate number of changes in a page, from 1 to 1,000. A page always has whole commits.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    limit: usize,
}

/// A part of the log of a user's or an app's state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"changes": [
    {"key": "language", "value": "en", "position": 17, "version": 1, "author": "agent", "userId": "alice",
     "sessionId": "s1", "seq": 1, "eventId": "e1", "time": 1795194011.59},
], "position": 17}))]
pub(super) struct LogPage {
    /// The changes, in the order in which they were committed.
    changes: Vec<LogChange>,
    /// The value of `after` for the next page.
    position: u64,
}

/// Compare a session's merged state at two of its events, in either order.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/diff", operation_id = "diffSession", tag = TIME,
    params(SessionPath, Between),
    responses((
        status = 200, description = "The keys that differ, with their prefixes.",
        body = BTreeMap<String, KeyDiffSchema>,
        example = json!({"draft": {"before": true}, "step": {"before": 1, "after": 2}})
    ), ReadErrors)
)]
pub(super) async fn diff(scope: SessionScope, Query(query): Query<Between>) -> Result<Response, ApiError> {
    Ok(json(scope.app_state.store.sessions.diff(&scope.key, query.before, query.after).await?).await?)
}

/// Show the last writer of each key of a session's merged state.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/blame", operation_id = "blameSession", tag = TIME,
    params(SessionPath),
    responses((
        status = 200, description = "The keys, with their prefixes.", body = BTreeMap<String, Write>,
        example = json!({"step": {"value": 2, "author": "agent", "userId": "alice", "sessionId": "s1", "seq": 1,
            "eventId": "e1", "time": 1795194011.59}})
    ), ReadErrors)
)]
pub(super) async fn blame(scope: SessionScope, _: NoQuery) -> Result<Response, ApiError> {
    let config = GetSessionConfig::state_only().with_page_bytes(scope.app_state.page_bytes());
    let session = read(&scope.app_state, &scope.key, &config).await?;
    let writers = scope.app_state.store.sessions.blame(&scope.key).await?;
    let writes = writers.into_iter().map(|(key, writer)| {
        let value = session.state().get(&key).cloned();
        (key, Write::new(value, scope.caller.known_writer(writer, scope.key.app_name())))
    });
    Ok(json(writes.collect::<BTreeMap<String, Write>>()).await?)
}

/// List the writes to a key of a session, with their authors, now or at an event.
///
/// For a key of the user or the app, the list contains the writes by all sessions. Pruned writes are missing.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/history", operation_id = "sessionKeyHistory", tag = TIME,
    params(SessionPath, ReadHistory),
    responses((status = 200, description = "The writes.", body = KeyWrites), ReadErrors)
)]
pub(super) async fn history(scope: SessionScope, Query(query): Query<ReadHistory>) -> Result<Response, ApiError> {
    let limit = page_size("limit", query.limit)?;
    let sessions = &scope.app_state.store.sessions;
    let writes = match query.at {
        Some(seq) => sessions.history_at(&scope.key, &query.key, seq, limit).await?,
        None => sessions.history(&scope.key, &query.key, limit).await?,
    };
    let writes = writes.into_iter().map(|write| shown(write, &query.key, &scope.key, &scope.caller)).collect();
    Ok(json(KeyWrites { key: query.key, writes }).await?)
}

/// Hides the writer of an app's key if it is a user out of the caller's reach.
fn shown(mut write: KeyWrite, name: &str, key: &SessionKey, caller: &Caller) -> Write {
    if Scope::split(name).0 == Scope::App {
        write.writer = caller.known_writer(write.writer, key.app_name());
    }
    write.into()
}

/// List the writes to a key of an app, with their authors.
#[utoipa::path(
    get, path = "/apps/{app}/history", operation_id = "appKeyHistory", tag = TIME, params(AppPath, ReadLogHistory),
    responses((status = 200, description = "The writes.", body = KeyWrites), ReadErrors)
)]
pub(super) async fn history_of_app(scope: AppScope, Query(query): Query<ReadLogHistory>) -> Result<Response, ApiError> {
    log_history(&scope.app_state, &scope.owner()?, query).await
}

/// List the writes to a key of a user, with their authors.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/history", operation_id = "userKeyHistory", tag = TIME,
    params(UserPath, ReadLogHistory),
    responses((status = 200, description = "The writes.", body = KeyWrites), ReadErrors)
)]
pub(super) async fn history_of_user(
    scope: UserScope,
    Query(query): Query<ReadLogHistory>,
) -> Result<Response, ApiError> {
    log_history(&scope.app_state, &scope.owner()?, query).await
}

/// Read the log of an app's state: every change, in order.
///
/// If you apply the changes in this order, you get the state. The token must not be limited to a user.
#[utoipa::path(
    get, path = "/apps/{app}/changes", operation_id = "listAppChanges", tag = TIME, params(AppPath, ReadLog),
    responses((status = 200, description = "One page of the log.", body = LogPage), ReadErrors)
)]
pub(super) async fn log_of_app(scope: AppScope, Query(query): Query<ReadLog>) -> Result<Response, ApiError> {
    log(&scope.app_state, &scope.owner()?, query).await
}

/// Read the log of a user's state: every change, in order.
///
/// If you apply the changes in this order, you get the state.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/changes", operation_id = "listUserChanges", tag = TIME,
    params(UserPath, ReadLog),
    responses((status = 200, description = "One page of the log.", body = LogPage), ReadErrors)
)]
pub(super) async fn log_of_user(scope: UserScope, Query(query): Query<ReadLog>) -> Result<Response, ApiError> {
    log(&scope.app_state, &scope.owner()?, query).await
}

async fn log_history(app_state: &AppState, owner: &StateOwner, query: ReadLogHistory) -> Result<Response, ApiError> {
    let (limit, before) = (page_size("limit", query.limit)?, query.before.unwrap_or(u64::MAX));
    let changes =
        app_state.store.sessions.list_state_changes(owner, &ChangeQuery::of_key(&query.key, before), limit).await?;
    Ok(json(KeyWrites { key: query.key, writes: changes.into_iter().map(Write::from).collect() }).await?)
}

async fn log(app_state: &AppState, owner: &StateOwner, query: ReadLog) -> Result<Response, ApiError> {
    let limit = page_size("limit", query.limit)?;
    let changes = app_state.store.sessions.list_state_changes(owner, &ChangeQuery::After(query.after), limit).await?;
    let position = changes.last().map_or(query.after, |last| last.position);
    Ok(json(LogPage { changes: changes.into_iter().map(LogChange::from).collect(), position }).await?)
}

/// The initial state of a session, to which the changes of its events are applied. It has only the session's own keys.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"state": {"cart": {}}, "seq": 0}))]
pub(super) struct Initial {
    /// The session's own keys and their values.
    #[schema(value_type = BTreeMap<String, Value>)]
    state: Map<String, Value>,
    /// The number of the last event that is part of the initial state. 0 if this is the state at the creation.
    /// Otherwise, the events up to this number were pruned.
    seq: u64,
}

/// Read a session's initial state: its state at the creation or, if events were pruned, after the last pruned event.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/initial-state", operation_id = "getInitialState",
    tag = TIME, params(SessionPath),
    responses((status = 200, description = "The state.", body = Initial), ReadErrors)
)]
pub(super) async fn initial(scope: SessionScope, _: NoQuery) -> Result<Response, ApiError> {
    let initial = scope.app_state.store.sessions.get_initial_state(&scope.key).await?;
    let initial = initial.ok_or_else(|| no_session(&scope.key))?;
    Ok(json(Initial { state: initial.state, seq: initial.seq }).await?)
}
