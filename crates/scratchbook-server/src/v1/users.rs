//! The users of an app: listing them, and deleting all data of a user.

use axum::Json;
use axum::http::StatusCode;
use scratchbook::Result;
use scratchbook::session::StateOwner;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::ReadErrors;
use super::request::{NoQuery, Paged, Query, page_size};
use super::{ApiError, AppScope, JsonAnswer, USERS, UserScope};
use crate::access::Right;
use crate::openapi::path::{AppPath, UserPath};

/// A page of users.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"users": ["alice", "bob"], "nextPageToken": null}))]
pub(super) struct UserPage {
    /// The users who have a session, state or an artifact, in byte order.
    users: Vec<String>,
    /// The token of the next page. `null` on the last page.
    next_page_token: Option<String>,
}

/// List the users of an app.
///
/// The token needs the right `admin`, and it must not be limited to a user.
#[utoipa::path(
    get, path = "/apps/{app}/users", operation_id = "listUsers", tag = USERS, params(AppPath, Paged),
    responses((status = 200, description = "One page of users.", body = UserPage), ReadErrors)
)]
pub(super) async fn list(scope: AppScope, Query(query): Query<Paged>) -> JsonAnswer<UserPage> {
    scope.caller.check(Right::Admin)?;
    let size = page_size("pageSize", query.page_size)?;
    let after = match &query.page_token {
        Some(user) => StateOwner::user(&scope.app_name, user)?,
        None => scope.owner()?,
    };
    let owners = scope.app_state.store.sessions.list_owners(Some(&after), size).await?;
    let of_app =
        |owner: &StateOwner| if owner.app_name() == scope.app_name { owner.user_id().map(str::to_owned) } else { None };
    let users: Vec<_> = owners.iter().map_while(of_app).collect();
    let next_page_token = users.last().filter(|_| users.len() == size).cloned();
    Ok(Json(UserPage { users, next_page_token }))
}

/// Erase all data of a user of an app in one commit: sessions, events, state, log and artifacts.
///
/// This cannot be undone. The token needs the right `admin`. The app's own state and its log stay, but the user's name
/// is removed from them.
#[utoipa::path(
    delete, path = "/apps/{app}/users/{user}", operation_id = "eraseUser", tag = USERS, params(UserPath),
    responses((status = 204, description = "All data of the user is erased."), ReadErrors)
)]
pub(super) async fn erase(scope: UserScope, _: NoQuery) -> Result<StatusCode, ApiError> {
    scope.caller.check(Right::Admin)?;
    scope.app_state.store.sessions.delete_user(&scope.app_name, &scope.user_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
