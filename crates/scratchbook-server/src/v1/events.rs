//! Events: appending them, and reading them by pages and one by one.

use axum::Json;
use axum::response::Response;
use scratchbook::session::{Committed, Outcome};
use scratchbook::{Error, GetSessionConfig, Result, SessionKey};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ReadErrors, WriteRefusals};
use super::request::{Body, JsonRequest, NoQuery, PathEvent, PathSeq, Query, page_size, usual};
use super::sessions::read;
use super::shape::{Conflict, Given, Operations, SeenPositions, StoredEventJson};
use super::{ApiError, EVENTS, JsonAnswer, SessionScope};
use crate::answers::json;
use crate::app_state::AppState;
use crate::bodies::{self as counted, Shape};
use crate::event_search::last_event;
use crate::openapi::path::{EventPath, NumberPath, SessionPath};

/// The request to append an event.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "event": {"id": "e4", "author": "agent", "actions": {"stateDelta": {"status": "paid"}}},
    "operations": {"user:orders": [{"increment": 1}], "status": [{"expect": "open"}]},
    "conflict": "by_key", "seen": {"seq": 3, "user": 17, "app": 12},
}))]
pub(super) struct Append {
    /// The event. If it has an id, the request can safely be sent again.
    event: Given,
    /// Operations and guards by key. They are carried out in the commit, in addition to the event's `stateDelta`, and
    /// the event is stored with their results.
    #[serde(default)]
    #[schema(required = false)]
    operations: Operations,
    /// The mode of optimistic locking. It says when the write is refused as a `conflict`.
    #[serde(default)]
    #[schema(required = false)]
    conflict: Conflict,
    /// What the writer has read. The modes `by_key` and `by_session` require it.
    #[serde(default, deserialize_with = "scratchbook::json::optional_object")]
    seen: Option<SeenPositions>,
}

static APPEND: Shape = Shape::Fields(&[("event", &counted::EVENT), ("operations", &counted::OPERATIONS)]);

impl JsonRequest for Append {
    const SHAPE: &'static Shape = &APPEND;
}

/// The result of an append.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "outcome": "stored",
    "event": {
        "id": "e4", "author": "agent", "timestamp": 1795194011.59,
        "actions": {"stateDelta": {"user:orders": 7, "status": "paid"}}, "seq": 4,
    },
    "positions": {"user": 18, "app": 0},
}))]
pub(super) struct Appended {
    /// `stored` if this request stored the event. `replayed` if the event was already stored with the same content, so
    /// that nothing has changed.
    outcome: Done,
    /// The event as it is stored: with its id, timestamp and number, and without `temp:` keys. If the token lacks the
    /// right `read`, the changes to the state are left out.
    event: StoredEventJson,
    /// The positions of the commit in the logs of the user's and the app's state, if it wrote to them.
    positions: Positions,
}

/// The positions of a commit in the logs of the user's and the app's state.
#[derive(Debug, Serialize, ToSchema)]
struct Positions {
    /// The position in the log of the user's state.
    user: u64,
    /// The position in the log of the app's state.
    app: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Done {
    Stored,
    Replayed,
}

/// The query for a list of events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListEvents {
    /// Return the events after this number, in ascending order. If it is absent, the events from the beginning are
    /// returned.
    after: Option<u64>,
    /// Return the last events before this number. Send this or `after`.
    before: Option<u64>,
    /// The maximum number of events in a page, from 1 to 1,000. A page has fewer if they exceed 4 MiB; `next` says
    /// whether there are more.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    limit: usize,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "events": [{
        "id": "e1", "author": "user", "content": {"role": "user", "parts": [{"text": "Two milks."}]}, "seq": 1,
    }],
    "eventCount": 3, "next": 1,
}))]
pub(super) struct EventPage {
    /// The events, in ascending order of their numbers.
    events: Vec<StoredEventJson>,
    /// The number of the last event. `null` if the store does not know it.
    event_count: Option<u64>,
    /// The value of `after` or `before` for the next page. `null` on the last page.
    next: Option<u64>,
}

/// Append an event.
///
/// The event, its changes to the state in all scopes, its number and the session's update time are stored in one
/// commit. Writing `app:` keys needs the right `app`.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}/events", operation_id = "appendEvent", tag = EVENTS,
    params(SessionPath), request_body = Append,
    responses((status = 200, description = "The event as it is stored.", body = Appended), WriteRefusals)
)]
pub(super) async fn append(scope: SessionScope, _: NoQuery, Body(body): Body<Append>) -> JsonAnswer<Appended> {
    let mut event = body.event.into_event()?;
    event.actions.state_delta = body.operations.with(std::mem::take(&mut event.actions.state_delta))?;
    commit(&scope, event, body.conflict, body.seen).await
}

/// Appends an event for a caller.
pub(super) async fn commit(
    scope: &SessionScope,
    event: scratchbook::Event,
    conflict: Conflict,
    seen: Option<SeenPositions>,
) -> JsonAnswer<Appended> {
    scope.caller.check_delta(&event.actions.state_delta)?;
    let options = conflict.options(seen)?;
    let committed = scope.app_state.store.sessions.append(&scope.key, event, options).await;
    let Committed { event, outcome, logs, .. } = committed.map_err(|e| ApiError::of_session(e, scope))?;
    let outcome = if outcome == Outcome::Replayed { Done::Replayed } else { Done::Stored };
    let positions = Positions { user: logs.user, app: logs.app };
    Ok(Json(Appended { outcome, event: StoredEventJson::told(event, &scope.caller), positions }))
}

/// List a session's events page by page, forwards or backwards.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/events", operation_id = "listEvents", tag = EVENTS,
    params(SessionPath, ListEvents),
    responses((status = 200, description = "One page of events.", body = EventPage), ReadErrors)
)]
pub(super) async fn list(scope: SessionScope, Query(query): Query<ListEvents>) -> Result<Response, ApiError> {
    let limit = page_size("limit", query.limit)?;
    let config = GetSessionConfig::default().without_state().with_page_bytes(scope.app_state.page_bytes());
    let config = match (query.after, query.before) {
        (Some(_), Some(_)) => return Err(Error::invalid("after and before go one by one; send one of them").into()),
        (after, None) => config.with_events_after(after.unwrap_or_default(), limit),
        (None, Some(before)) => config.with_events_before(before, limit),
    };
    let session = read(&scope.app_state, &scope.key, &config).await?;
    let events: Vec<_> = session.events().iter().cloned().map(StoredEventJson).collect();
    let is_full = events.len() == limit;
    let next = match query.before {
        None => {
            let last = events.last().and_then(|last| last.0.seq);
            // The page may have ended at its limit of bytes. The session's last number shows whether more events
            // follow.
            last.filter(|last| session.known_seq().map_or(is_full, |seq| *last < seq))
        }
        Some(_) => {
            let first = events.first().and_then(|first| first.0.seq).filter(|first| *first > 1);
            // The events before the first one may have been pruned.
            match first {
                Some(first) if !is_full && !has_events_before(&scope.app_state, &scope.key, first).await? => None,
                first => first,
            }
        }
    };
    Ok(json(EventPage { events, event_count: session.known_seq(), next }).await?)
}

async fn has_events_before(app_state: &AppState, key: &SessionKey, seq: u64) -> Result<bool> {
    let config = GetSessionConfig::default().without_state().with_events_before(seq, 1);
    Ok(!read(app_state, key, &config).await?.events().is_empty())
}

/// Read one event by its number.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/events/{seq}", operation_id = "getEvent", tag = EVENTS,
    params(SessionPath, NumberPath),
    responses((status = 200, description = "The event.", body = StoredEventJson), ReadErrors)
)]
pub(super) async fn by_number(scope: SessionScope, PathSeq(seq): PathSeq, _: NoQuery) -> JsonAnswer<StoredEventJson> {
    let config = GetSessionConfig::default().without_state().with_events_after(seq.saturating_sub(1), 1);
    let session = read(&scope.app_state, &scope.key, &config).await?;
    let found = session.events().get(0).filter(|event| event.seq == Some(seq)).cloned();
    let missing =
        || Error::not_found(format!("there is no event {seq} in {}; its last is {}", scope.key, session.seq()));
    Ok(Json(StoredEventJson(found.ok_or_else(missing)?)))
}

/// Read one event by its id.
///
/// The search begins at the last event, so finding an older event takes longer.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/events/by-id/{event}", operation_id = "getEventById",
    tag = EVENTS, params(SessionPath, EventPath),
    responses((status = 200, description = "The event.", body = StoredEventJson), ReadErrors)
)]
pub(super) async fn by_id(scope: SessionScope, PathEvent(id): PathEvent, _: NoQuery) -> JsonAnswer<StoredEventJson> {
    let key = &scope.key;
    if let Some(event) = last_event(&scope.app_state.store.sessions, key, |event| event.id == id).await? {
        return Ok(Json(StoredEventJson(event)));
    }
    // If the session does not exist, this read reports it.
    read(&scope.app_state, key, &GetSessionConfig::state_only().without_state()).await?;
    Err(Error::not_found(format!("there is no event with this id in {key}")).into())
}
