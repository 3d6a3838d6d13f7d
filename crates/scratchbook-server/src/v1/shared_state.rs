//! The state of a user or an app, outside of any session.

use axum::Json;
use axum::response::Response;
use scratchbook::session::{ChangeQuery, ListStateConfig, PutStateOptions, StateOwner};
use scratchbook::state::Change;
use scratchbook::{Error, Result, Scope, StateDelta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::error::{ReadErrors, WriteRefusals};
use super::request::{Body, JsonRequest, NoQuery, PathKey, Query, page_size, usual};
use super::shape::Operations;
use super::state::KeyValue;
use super::{ApiError, AppScope, JsonAnswer, Needs, STATE, UserScope};
use crate::access::{Caller, Right};
use crate::answers;
use crate::app_state::AppState;
use crate::bodies::{self as counted, Shape};
use crate::openapi::path::{AppPath, KeyPath, UserPath};
use crate::scope::WholeApp;

/// Which keys are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListState {
    /// List only keys that begin with this text.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
    /// The maximum number of items in a page, from 1 to 1,000.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    page_size: usize,
    /// The `nextPageToken` of the previous page.
    page_token: Option<String>,
}

/// A page of the state of a user or an app.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StatePage)]
#[schema(example = json!({"state": {"language": "en", "orders": 7}, "nextPageToken": null}))]
pub(super) struct StatePageJson {
    /// Keys without prefix, in byte order, and their values.
    #[schema(value_type = BTreeMap<String, Value>)]
    state: Map<String, Value>,
    /// The token of the next page. `null` on the last page.
    next_page_token: Option<String>,
}

/// A change to the state of a user or an app.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "author": "till", "stateDelta": {"open": true}, "operations": {"sold": [{"expect": 41}, {"increment": 1}]},
}))]
pub(super) struct PatchOwner {
    /// The author of the change. The log stores this name.
    author: String,
    /// Keys, without prefix, and their new values. The string `__ADK_SENTINEL_REMOVED__` removes a key.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>, required = false)]
    state_delta: StateDelta,
    /// Operations and guards by key.
    #[serde(default)]
    #[schema(required = false)]
    operations: Operations,
    /// The time of the change, in seconds since 1970. If it is absent, the server uses the current time. The time has
    /// no effect on the order of changes.
    #[serde(default)]
    #[schema(minimum = 0, exclusive_maximum = 253402300800i64)]
    time: Option<f64>,
}

static OPERATIONS: Shape = Shape::Fields(&[("operations", &counted::OPERATIONS)]);

impl JsonRequest for PatchOwner {
    const SHAPE: &'static Shape = &OPERATIONS;
}

/// The result of a change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"stateDelta": {"open": true, "sold": 42}, "position": 18}))]
pub(super) struct Patched {
    /// The keys, without prefix, and their new values. For operations, these are the results. If there were operations
    /// and the token lacks the right `read`, it is empty.
    #[schema(value_type = BTreeMap<String, Value>)]
    state_delta: StateDelta,
    /// The position of the commit in the owner's log.
    position: u64,
}

/// Read the state of an app, page by page.
///
/// The token must not be limited to a user.
#[utoipa::path(
    get, path = "/apps/{app}/state", operation_id = "getAppState", tag = STATE, params(AppPath, ListState),
    responses((status = 200, description = "One page of the state.", body = StatePageJson), ReadErrors)
)]
pub(super) async fn of_app(scope: AppScope, Query(query): Query<ListState>) -> Result<Response, ApiError> {
    list(&scope.app_state, &scope.owner()?, query).await
}

/// Read the state of a user, page by page.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/state", operation_id = "getUserState", tag = STATE,
    params(UserPath, ListState),
    responses((status = 200, description = "One page of the state.", body = StatePageJson), ReadErrors)
)]
pub(super) async fn of_user(scope: UserScope, Query(query): Query<ListState>) -> Result<Response, ApiError> {
    list(&scope.app_state, &scope.owner()?, query).await
}

/// Read one key of an app's state.
#[utoipa::path(
    get, path = "/apps/{app}/state/{key}", operation_id = "getAppKey", tag = STATE, params(AppPath, KeyPath),
    responses((status = 200, description = "The key with its value.", body = KeyValue), ReadErrors)
)]
pub(super) async fn key_of_app(scope: AppScope, PathKey(key): PathKey, _: NoQuery) -> JsonAnswer<KeyValue> {
    one(&scope.app_state, &scope.owner()?, key).await
}

/// Read one key of a user's state.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/state/{key}", operation_id = "getUserKey", tag = STATE,
    params(UserPath, KeyPath),
    responses((status = 200, description = "The key with its value.", body = KeyValue), ReadErrors)
)]
pub(super) async fn key_of_user(scope: UserScope, PathKey(key): PathKey, _: NoQuery) -> JsonAnswer<KeyValue> {
    one(&scope.app_state, &scope.owner()?, key).await
}

/// Change the state of an app, in one commit.
///
/// The token needs the right `app`, and it must not be limited to a user.
#[utoipa::path(
    patch, path = "/apps/{app}/state", operation_id = "patchAppState", tag = STATE, params(AppPath),
    request_body = PatchOwner,
    responses((status = 200, description = "The result of the change.", body = Patched), WriteRefusals)
)]
pub(super) async fn patch_app(
    scope: AppScope,
    _: Needs<WholeApp>,
    _: NoQuery,
    Body(body): Body<PatchOwner>,
) -> JsonAnswer<Patched> {
    patch(&scope.app_state, &scope.owner()?, &scope.caller, body).await
}

/// Change the state of a user, in one commit.
#[utoipa::path(
    patch, path = "/apps/{app}/users/{user}/state", operation_id = "patchUserState", tag = STATE, params(UserPath),
    request_body = PatchOwner,
    responses((status = 200, description = "The result of the change.", body = Patched), WriteRefusals)
)]
pub(super) async fn patch_user(scope: UserScope, _: NoQuery, Body(body): Body<PatchOwner>) -> JsonAnswer<Patched> {
    patch(&scope.app_state, &scope.owner()?, &scope.caller, body).await
}

async fn list(app_state: &AppState, owner: &StateOwner, query: ListState) -> Result<Response, ApiError> {
    let size = page_size("pageSize", query.page_size)?;
    let mut config = ListStateConfig::default().with_prefix(query.prefix).with_page_size(size);
    config.after = query.page_token;
    let page = app_state.store.sessions.list_state(owner, &config.with_page_bytes(app_state.page_bytes())).await?;
    Ok(answers::json(StatePageJson { state: page.values, next_page_token: page.next }).await?)
}

async fn one(app_state: &AppState, owner: &StateOwner, key: String) -> JsonAnswer<KeyValue> {
    // Of all keys with this prefix, the key itself comes first.
    let config = ListStateConfig::default().with_prefix(&key).with_page_size(1);
    let mut page = app_state.store.sessions.list_state(owner, &config).await?;
    let missing = || Error::not_found(format!("{} has no key '{key}'", named(owner)));
    let value = page.values.shift_remove(&key).ok_or_else(missing)?;
    Ok(Json(KeyValue { key, value }))
}

async fn patch(app_state: &AppState, owner: &StateOwner, caller: &Caller, body: PatchOwner) -> JsonAnswer<Patched> {
    let delta = body.operations.with(body.state_delta)?;
    let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
    if delta.is_empty() {
        return Err(Error::invalid("nothing is changed; send stateDelta or operations").into());
    }
    for (key, _) in delta.iter() {
        check_bare(key)?;
    }
    let keys: Vec<_> = delta.iter().map(|(key, _)| scope.key(key)).collect();
    if scope == Scope::App {
        caller.check_app_keys(keys.iter().map(AsRef::as_ref))?;
    }
    let mut options = PutStateOptions::by(body.author);
    options.time = body.time;
    let sessions = &app_state.store.sessions;
    let position = sessions.put_state(owner, delta.clone(), options).await;
    let position = position.map_err(|e| ApiError::told(e, caller, owner.app_name()))?;
    let state_delta = match (delta.has_operations(), caller.may(Right::Read)) {
        (false, _) => delta,
        (true, true) => logged(app_state, owner, position).await.map_err(|error| {
            error
                .context(format!("the change was committed at position {position}, and cannot be read"))
                .not_retryable()
        })?,
        // The results of operations may reveal earlier values.
        (true, false) => StateDelta::new(),
    };
    Ok(Json(Patched { state_delta, position }))
}

/// Refuses a key with a prefix: it would name a key of another scope.
fn check_bare(key: &str) -> Result<()> {
    match Scope::split(key) {
        (Scope::Session, _) => Ok(()),
        (_, name) => Err(Error::invalid(format!("'{key}' has a prefix; here a key has none: write '{name}'"))),
    }
}

/// The results of operations, from the log.
async fn logged(app_state: &AppState, owner: &StateOwner, position: u64) -> Result<StateDelta> {
    let mut delta = StateDelta::new();
    for change in
        app_state.store.sessions.list_state_changes(owner, &ChangeQuery::After(position.saturating_sub(1)), 1).await?
    {
        // If the commit had only guards, the next change belongs to another commit.
        if change.position == position {
            delta.insert(change.name, change.value.map_or(Change::Remove, Change::Set))?;
        }
    }
    Ok(delta)
}

fn named(owner: &StateOwner) -> String {
    match owner.user_id() {
        Some(user_id) => format!("the user {}/{user_id}", owner.app_name()),
        None => format!("the app {}", owner.app_name()),
    }
}
