//! The state of a user or an app, outside of any session.

use axum::Json;
use axum::response::Response;
use scratchbook::json::bytes_of;
use scratchbook::plan::Room;
use scratchbook::session::{ChangeQuery, ListStateConfig, PutStateOptions, StateOwner};
use scratchbook::state::Change;
use scratchbook::{Error, ErrorKind, Result, Scope, StateDelta};
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
    /// Return only these keys, at most 100, and no others. Keys that do not exist are left out. This is the only way to
    /// name the empty key, the key `.` and the key `..`, which a path cannot contain.
    #[serde(default)]
    key: Vec<String>,
}

/// The maximum number of keys that are read by name at once.
const MOST_KEYS: usize = 100;

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
///
/// A path cannot contain the empty key, the key `.` or the key `..`. To read them, use the parameter `key` of the route
/// for the whole state.
#[utoipa::path(
    get, path = "/apps/{app}/state/{key}", operation_id = "getAppKey", tag = STATE, params(AppPath, KeyPath),
    responses((status = 200, description = "The key with its value.", body = KeyValue), ReadErrors)
)]
pub(super) async fn key_of_app(scope: AppScope, PathKey(key): PathKey, _: NoQuery) -> JsonAnswer<KeyValue> {
    one(&scope.app_state, &scope.owner()?, key).await
}

/// Read one key of a user's state.
///
/// A path cannot contain the empty key, the key `.` or the key `..`. To read them, use the parameter `key` of the route
/// for the whole state.
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
    if !query.key.is_empty() {
        return named_keys(app_state, owner, query).await;
    }
    let mut config = ListStateConfig::default().with_prefix(query.prefix).with_page_size(size);
    config.after = query.page_token;
    let page = app_state.store.sessions.list_state(owner, &config.with_page_bytes(app_state.page_bytes())).await?;
    Ok(answers::json(StatePageJson { state: page.values, next_page_token: page.next }).await?)
}

async fn named_keys(app_state: &AppState, owner: &StateOwner, query: ListState) -> Result<Response, ApiError> {
    if !query.prefix.is_empty() || query.page_token.is_some() {
        return Err(Error::invalid("key cannot be sent together with prefix or pageToken; send it alone").into());
    }
    if query.key.len() > MOST_KEYS {
        let message = format!("key may be sent at most {MOST_KEYS} times, got {}", query.key.len());
        return Err(Error::invalid(message).into());
    }
    let (mut state, mut room) = (Map::new(), Room::new(app_state.page_bytes()));
    for key in query.key {
        let Some(value) = find(app_state, owner, &key).await? else { continue };
        if !room.takes(bytes_of(&value)) {
            let message =
                format!("the values of these keys, up to '{key}', are larger than an answer may be; ask for fewer");
            return Err(Error::new(ErrorKind::PayloadTooLarge, message).into());
        }
        state.insert(key, value);
    }
    Ok(answers::json(StatePageJson { state, next_page_token: None }).await?)
}

async fn one(app_state: &AppState, owner: &StateOwner, key: String) -> JsonAnswer<KeyValue> {
    let missing = || Error::not_found(format!("{} has no key '{key}'", named(owner)));
    let value = find(app_state, owner, &key).await?.ok_or_else(missing)?;
    Ok(Json(KeyValue { key, value }))
}

async fn find(app_state: &AppState, owner: &StateOwner, key: &str) -> Result<Option<Value>> {
    // Of all keys with this prefix, the key itself comes first.
    let config = ListStateConfig::default().with_prefix(key).with_page_size(1);
    Ok(app_state.store.sessions.list_state(owner, &config).await?.values.shift_remove(key))
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
