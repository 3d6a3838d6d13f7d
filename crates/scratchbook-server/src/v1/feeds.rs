//! The change feed of a session, a user or an app, page by page; `watch.rs` streams it.

use axum::response::Response;
use scratchbook::session::{FeedStart, Watched};
use scratchbook::{Error, Result, SessionServiceExt};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::ReadErrors;
use super::request::{Query, page_size, usual};
use super::shape::{Cursor, FeedEntryJson};
use super::{ApiError, AppScope, FEEDS, SessionScope, UserScope};
use crate::answers::json;
use crate::app_state::AppState;
use crate::openapi::path::{AppPath, SessionPath, UserPath};

/// The query of a page of a feed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadFeed {
    /// Where to begin: at the oldest commit that is kept, or at the next commit. Send this or `cursor`.
    #[param(inline, default = "beginning")]
    from: Option<FeedOrigin>,
    /// The cursor of an entry or of a page. Reading continues after it.
    cursor: Option<String>,
    /// Return only commits that change a key that begins with this text: `user:cart`, `app:`, or `step` for a session's
    /// own keys.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
    /// The approximate number of entries in a page, from 1 to 1,000. There are fewer if they are large.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    limit: usize,
}

/// Where to begin to read a feed.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Origin)]
pub(super) enum FeedOrigin {
    /// At the oldest commit that is kept.
    Beginning,
    /// At the next commit.
    Now,
}

/// A part of a feed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeedPage)]
#[schema(example = json!({"entries": [{
    "type": "event", "cursor": "c2hvcCAzIGUz", "appName": "demo", "userId": "alice", "sessionId": "s1", "seq": 3,
    "event": {"id": "e3", "author": "agent", "actions": {"stateDelta": {"cart": {"milk": 2}}}, "seq": 3},
}], "cursor": "c2hvcCAzIGUz"}))]
pub(super) struct FeedPageJson {
    /// The commits. Those of one session, one user or one app are in the order in which they were committed.
    entries: Vec<FeedEntryJson>,
    /// The cursor for the next page. If a page is empty and its cursor is the one that you sent, you have reached the
    /// end.
    cursor: Cursor,
}

/// Read the commits of a session.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/feed", operation_id = "sessionFeed", tag = FEEDS,
    params(SessionPath, ReadFeed),
    responses((status = 200, description = "One page of the feed.", body = FeedPageJson), ReadErrors)
)]
pub(super) async fn of_session(scope: SessionScope, Query(query): Query<ReadFeed>) -> Result<Response, ApiError> {
    list(&scope.app_state, Watched::session(scope.key), query).await
}

/// Read the commits of a user: commits to the user's sessions and to the user's keys.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/feed", operation_id = "userFeed", tag = FEEDS, params(UserPath, ReadFeed),
    responses((status = 200, description = "One page of the feed.", body = FeedPageJson), ReadErrors)
)]
pub(super) async fn of_user(scope: UserScope, Query(query): Query<ReadFeed>) -> Result<Response, ApiError> {
    list(&scope.app_state, scope.owner()?.into(), query).await
}

/// Read the commits of an app.
///
/// The token must not be limited to a user.
#[utoipa::path(
    get, path = "/apps/{app}/feed", operation_id = "appFeed", tag = FEEDS, params(AppPath, ReadFeed),
    responses((status = 200, description = "One page of the feed.", body = FeedPageJson), ReadErrors)
)]
pub(super) async fn of_app(scope: AppScope, Query(query): Query<ReadFeed>) -> Result<Response, ApiError> {
    list(&scope.app_state, scope.owner()?.into(), query).await
}

async fn list(app_state: &AppState, what: Watched, query: ReadFeed) -> Result<Response, ApiError> {
    let limit = page_size("limit", query.limit)?;
    let start = start(query.cursor.as_deref(), query.from)?.unwrap_or(FeedStart::Beginning);
    let page = app_state.store.sessions.list_watched(&what.with_key_prefix(query.prefix), &start, limit).await?;
    let entries = page.entries.into_iter().map(FeedEntryJson::from).collect();
    Ok(json(FeedPageJson { entries, cursor: Cursor::from(&page.cursor) }).await?)
}

/// Where to begin, from a cursor or a named origin; only one of them may be given.
pub(super) fn start(cursor: Option<&str>, from: Option<FeedOrigin>) -> Result<Option<FeedStart>> {
    match (cursor, from) {
        (Some(_), Some(_)) => Err(Error::invalid("cursor and from go one by one; send one of them")),
        (Some(cursor), None) => Ok(Some(FeedStart::After(Cursor::read(cursor)?))),
        (None, Some(FeedOrigin::Beginning)) => Ok(Some(FeedStart::Beginning)),
        (None, Some(FeedOrigin::Now)) => Ok(Some(FeedStart::Now)),
        (None, None) => Ok(None),
    }
}
