//! Sessions, found and listed page by page.

use axum::response::Response;
use scratchbook::session::{ListOrder, ListSessionsConfig, ListSessionsResponse, TitleFilter};
use scratchbook::{Error, Result, Scope, StateMap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

use super::error::ReadErrors;
use super::request::{Query, page_size, usual};
use super::shape::SessionBody;
use super::{ApiError, AppScope, SESSIONS, UserScope};
use crate::answers::json;
use crate::app_state::AppState;
use crate::openapi::path::{AppPath, UserPath};

/// The query for a list of sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListSessions {
    /// List only sessions whose title contains this text, ignoring case.
    title: Option<String>,
    /// List only sessions with this label, written as `NAME=VALUE`. If the parameter is repeated, a session must have
    /// all of these labels.
    #[serde(default)]
    #[param(example = json!(["team=food"]))]
    label: Vec<String>,
    /// The order: least recently or most recently updated first.
    #[serde(default)]
    #[param(inline)]
    order: Order,
    /// The maximum number of items in a page, from 1 to 1,000.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    page_size: usize,
    /// The `nextPageToken` of the previous page.
    page_token: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Oldest,
    Newest,
}

/// A page of sessions, without their events.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"sessions": [{
    "id": "s1", "appName": "demo", "userId": "alice", "title": "Groceries", "labels": {"team": "food"},
    "state": {"cart": {"milk": 2}}, "events": [], "lastUpdateTime": 1795194011.59,
    "expireTime": null, "eventCount": 3, "seen": {"seq": 3, "user": 17, "app": 12},
}], "userStates": {"alice": {"user:language": "en"}}, "appState": {"app:version": "1.0.0"}, "nextPageToken": null}))]
pub(super) struct SessionPage {
    /// The sessions, in the order of the list. Each has only its own keys of the state. A page has fewer sessions than
    /// `pageSize` if they exceed 4 MiB. With a title or a label, a page can have few sessions or none although it is
    /// not the last page.
    sessions: Vec<SessionBody>,
    /// The state of each user who has a session on this page. The keys have the prefix `user:`.
    #[schema(value_type = BTreeMap<String, BTreeMap<String, Value>>)]
    user_states: BTreeMap<String, StateMap>,
    /// The state of the app. The keys have the prefix `app:`. The merged state of a session consists of its own keys,
    /// the user's keys and the app's keys.
    #[schema(value_type = BTreeMap<String, Value>)]
    app_state: StateMap,
    /// The token of the next page. `null` on the last page.
    next_page_token: Option<String>,
}

/// List a user's sessions.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions", operation_id = "listUserSessions", tag = SESSIONS,
    params(UserPath, ListSessions),
    responses((status = 200, description = "One page of sessions.", body = SessionPage), ReadErrors)
)]
pub(super) async fn of_user(scope: UserScope, Query(query): Query<ListSessions>) -> Result<Response, ApiError> {
    scope.owner()?;
    list(&scope.app_state, &scope.app_name, Some(scope.user_id), query).await
}

/// List all sessions of an app.
///
/// The token must not be limited to a user.
#[utoipa::path(
    get, path = "/apps/{app}/sessions", operation_id = "listAppSessions", tag = SESSIONS,
    params(AppPath, ListSessions),
    responses((status = 200, description = "One page of sessions.", body = SessionPage), ReadErrors)
)]
pub(super) async fn of_app(scope: AppScope, Query(query): Query<ListSessions>) -> Result<Response, ApiError> {
    scope.owner()?;
    list(&scope.app_state, &scope.app_name, None, query).await
}

async fn list(
    app_state: &AppState,
    app_name: &str,
    user_id: Option<String>,
    query: ListSessions,
) -> Result<Response, ApiError> {
    let mut config = ListSessionsConfig::default().with_page_size(page_size("pageSize", query.page_size)?);
    config.user_id = user_id;
    config.title = query.title.map(TitleFilter::Containing);
    config.labels = labels(&query.label)?;
    config.order = match query.order {
        Order::Oldest => ListOrder::OldestFirst,
        Order::Newest => ListOrder::NewestFirst,
    };
    config.page_token = query.page_token;
    let page =
        app_state.store.sessions.list_sessions(app_name, &config.with_page_bytes(app_state.page_bytes())).await?;
    Ok(json(SessionPage::from(page)).await?)
}

/// Sends the state that sessions share only once.
impl From<ListSessionsResponse> for SessionPage {
    fn from(page: ListSessionsResponse) -> Self {
        let app_state = page.sessions.first().map(|session| session.state().only(Scope::App)).unwrap_or_default();
        let mut user_states = BTreeMap::new();
        for session in &page.sessions {
            if !user_states.contains_key(session.user_id()) {
                user_states.insert(session.user_id().to_owned(), session.state().only(Scope::User));
            }
        }
        let sessions = page.sessions.into_iter().map(SessionBody::listed).collect();
        Self { sessions, user_states, app_state, next_page_token: page.next_page_token }
    }
}

fn labels(given: &[String]) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for label in given {
        let (name, value) = label
            .split_once('=')
            .ok_or_else(|| Error::invalid(format!("label '{label}' has no value; write label=NAME=VALUE")))?;
        if labels.insert(name.to_owned(), value.to_owned()).is_some_and(|other| other != value) {
            return Err(Error::invalid(format!("label '{name}' is asked for with two values; no session has both")));
        }
    }
    Ok(labels)
}
