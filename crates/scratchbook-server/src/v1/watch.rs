//! The change feed as a stream of server-sent events that can be resumed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::Stream;
use scratchbook::session::{FeedEntry, FeedStart, Watch, Watched};
use scratchbook::{Error, Result, SessionService};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};
use utoipa::IntoParams;

use super::error::{ReadErrors, shown};
use super::feeds::{FeedOrigin, start};
use super::request::{LAST_EVENT_ID, Query, Resume};
use super::shape::{Cursor, FeedEntryJson};
use super::{ApiError, AppScope, FEEDS, SessionScope, UserScope};
use crate::app_state::AppState;
use crate::openapi::StreamEvent;
use crate::openapi::path::{AppPath, SessionPath, UserPath};
use crate::operations::Gauge;
use crate::sse;

/// The pause before the next read of a store that cannot be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// The query of a stream: its filter and its starting point.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WatchQuery {
    /// Where to begin: at the oldest commit that is kept, or at the next commit. Send this or `cursor`.
    #[param(inline, default = "now")]
    from: Option<FeedOrigin>,
    /// The cursor of an entry or of a page. The stream continues after it.
    cursor: Option<String>,
    /// Return only commits that change a key that begins with this text: `user:cart`, `app:`, or `step` for a session's
    /// own keys.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
}

/// Follow the commits of a session.
///
/// The response is a stream of server-sent events. `data` is an entry as in the feed, and `id` is its cursor. If a
/// client loses the connection, it connects again and sends the last `id` as `Last-Event-ID`; then it misses no commit.
/// The server sends a heartbeat every 15 seconds.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/watch", operation_id = "watchSession", tag = FEEDS,
    params(SessionPath, WatchQuery, Resume),
    responses((
        status = 200, description = "A stream with the entries, as they are committed.",
        body = StreamEvent, content_type = "text/event-stream",
        example = json!("id: c2hvcCAzIGUz\ndata: {\"type\":\"event\",\"cursor\":\"c2hvcCAzIGUz\",\"seq\":3}\n\n")
    ), ReadErrors)
)]
pub(super) async fn session(
    scope: SessionScope,
    Query(query): Query<WatchQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    follow(&scope.app_state, Watched::session(scope.key), query, &headers).await
}

/// Follow the commits of a user: commits to the user's sessions and to the user's keys.
///
/// The stream has the same form as that of a session.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/watch", operation_id = "watchUser", tag = FEEDS,
    params(UserPath, WatchQuery, Resume),
    responses((
        status = 200, description = "A stream with the entries, as they are committed.",
        body = StreamEvent, content_type = "text/event-stream",
        example = json!("id: c2hvcCAxNw\ndata: {\"type\":\"state\",\"cursor\":\"c2hvcCAxNw\",\"changes\":[]}\n\n")
    ), ReadErrors)
)]
pub(super) async fn user(
    scope: UserScope,
    Query(query): Query<WatchQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    follow(&scope.app_state, scope.owner()?.into(), query, &headers).await
}

/// Follow the commits of an app.
///
/// The stream has the same form as that of a session. The token must not be limited to a user.
#[utoipa::path(
    get, path = "/apps/{app}/watch", operation_id = "watchApp", tag = FEEDS, params(AppPath, WatchQuery, Resume),
    responses((
        status = 200, description = "A stream with the entries, as they are committed.",
        body = StreamEvent, content_type = "text/event-stream",
        example = json!("id: c2hvcCAxNw\ndata: {\"type\":\"state\",\"cursor\":\"c2hvcCAxNw\",\"changes\":[]}\n\n")
    ), ReadErrors)
)]
pub(super) async fn app(
    scope: AppScope,
    Query(query): Query<WatchQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    follow(&scope.app_state, scope.owner()?.into(), query, &headers).await
}

async fn follow(
    app_state: &AppState,
    what: Watched,
    query: WatchQuery,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let seen = match headers.get(LAST_EVENT_ID).filter(|seen| !seen.is_empty()) {
        Some(seen) => {
            let text = seen.to_str().map_err(|_| Error::invalid("Last-Event-ID is no text; send an id as it came"))?;
            Some(FeedStart::After(Cursor::read(text).map_err(|e| e.context("Last-Event-ID"))?))
        }
        None => None,
    };
    let said = start(query.cursor.as_deref(), query.from)?;
    let start = seen.or(said).unwrap_or(FeedStart::Now);
    let what = what.with_key_prefix(query.prefix);
    let watch = app_state.watches.start(what, start).await?;
    Ok(sse::stream(frames(watch)))
}

/// The stream: one frame for each entry, and places of the feed while no entry is shown.
fn frames(mut watch: Watch<Arc<dyn SessionService>>) -> impl Stream<Item = Bytes> + Send + 'static {
    async_stream::stream! {
        let _open = Gauge::one_more("scratchbook_watchers");
        // A client needs a cursor even before the first entry. If it lost the connection now, it would otherwise start
        // at a later commit and miss entries.
        let mut told = watch.cursor().clone();
        yield place("retry: 1000\n", &Cursor::from(&told));
        loop {
            match timeout(sse::HEARTBEAT, watch.next()).await {
                Ok(Ok(entry)) => {
                    told = entry.cursor.clone();
                    yield frame(entry);
                }
                Ok(Err(error)) if error.is_retryable() => sleep(PAUSE).await,
                Ok(Err(error)) => {
                    yield sse::frame("error", &json!({"error": shown(&error)}));
                    break;
                }
                Err(_) if *watch.cursor() != told => {
                    told = watch.cursor().clone();
                    yield place(":\n", &Cursor::from(&told));
                }
                Err(_) => {}
            }
        }
    }
}

/// A frame without data, which advances the client's position and is no event.
fn place(before: &str, cursor: &Cursor) -> Bytes {
    format!("{before}id: {}\n\n", cursor.as_str()).into()
}

fn frame(entry: FeedEntry) -> Bytes {
    let entry = FeedEntryJson::from(entry);
    format!("id: {}\ndata: {}\n\n", entry.cursor().as_str(), sse::line(&entry)).into()
}
