//! Sessions: made, read, changed, deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use scratchbook::session::{Expiry, SessionUpdate};
use scratchbook::{CreateSessionConfig, Error, GetSessionConfig, Result, Session, SessionKey};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::error::{ReadErrors, WriteRefusals};
use super::request::{Body, JsonRequest, NoQuery, Query, nullable, page_size, usual};
use super::shape::{Given, SessionBody};
use super::{ApiError, JsonAnswer, SESSIONS, SessionScope, UserScope};
use crate::answers::json;
use crate::app_state::AppState;
use crate::bodies::{self as counted, CountedItems, Shape};
use crate::openapi::path::{SessionPath, UserPath};

/// The request to create a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "id": "s1", "state": {"cart": {}, "user:language": "en"}, "title": "Groceries", "labels": {"team": "food"},
    "timeToLive": 86400,
}))]
pub(super) struct CreateSession {
    /// The session's id, of at most 512 bytes and without control characters. If it is empty or absent, the server
    /// generates one.
    #[serde(default)]
    #[schema(max_length = 512)]
    id: Option<String>,
    /// The initial state. Keys that begin with `user:` or `app:` are stored for the user or the app. Keys that begin
    /// with `temp:` are not stored.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>, required = false)]
    state: Map<String, Value>,
    /// The first events of the session, which are stored as if they were appended one by one. They may come from
    /// another session: their `seq` is ignored, and they get new numbers.
    #[serde(default)]
    #[schema(required = false)]
    events: Vec<Given>,
    /// The session's title, for people. It has at most 2,048 bytes and no control characters.
    #[serde(default)]
    title: Option<String>,
    /// The session's labels, for programs. There are at most 64.
    #[serde(default)]
    #[schema(required = false)]
    labels: BTreeMap<String, String>,
    /// The time of the creation, in seconds since 1970. If it is absent, the server uses the current time.
    #[serde(default)]
    #[schema(minimum = 0, exclusive_maximum = 253402300800i64)]
    create_time: Option<f64>,
    /// The time at which the session expires, in seconds since 1970. If it is absent, the session never expires.
    #[serde(default)]
    #[schema(minimum = 0, exclusive_maximum = 253402300800i64)]
    expire_time: Option<f64>,
    /// The number of seconds until the session expires. Send this or `expireTime`.
    #[serde(default)]
    #[schema(exclusive_minimum = 0)]
    time_to_live: Option<f64>,
}

static SESSION_EVENTS: Shape = Shape::Fields(&[("events", &Shape::List(CountedItems::Events, &counted::EVENT))]);

impl JsonRequest for CreateSession {
    const SHAPE: &'static Shape = &SESSION_EVENTS;
}

/// Which part of a session is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadSession {
    /// Return this many of the latest events, from 0 to 1,000. The default is 100. There are fewer if they exceed 4
    /// MiB. `eventCount` in the response is the number of the last event.
    #[param(minimum = 0, maximum = 1000)]
    num_recent_events: Option<usize>,
    /// Return only events at or after this time, in seconds since 1970. If `numRecentEvents` is given, too, only the
    /// latest of them are returned.
    #[param(minimum = 0, exclusive_maximum = 253402300800i64)]
    after_timestamp: Option<f64>,
    /// Return the first events with a number above this one, at most `limit` of them. This cannot be combined with
    /// `numRecentEvents` and `afterTimestamp`.
    after: Option<u64>,
    /// Return the last events with a number below this one, at most `limit` of them. This cannot be combined with the
    /// parameters above.
    before: Option<u64>,
    /// The maximum number of events for `after` and `before`, from 1 to 1,000. The default is 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The part of the state to return: everything or nothing.
    #[serde(default)]
    #[param(inline)]
    state: StatePart,
    /// Return only these keys of the state. Write them with their prefixes.
    #[serde(default)]
    key: Vec<String>,
}

/// Which part of the state is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum StatePart {
    #[default]
    All,
    None,
}

/// The changes to a session's title, labels and expiry. Fields that are absent do not change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "title": "Groceries, done", "labels": {"status": "closed", "team": null}, "timeToLive": 3600,
}))]
pub(super) struct UpdateSession {
    /// The new title. `null` or an empty text removes the title.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    title: Option<Option<String>>,
    /// The labels to set. The value `null` removes a label.
    #[serde(default)]
    #[schema(required = false)]
    labels: BTreeMap<String, Option<String>>,
    /// The time at which the session expires, in seconds since 1970. With `null`, it never expires.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<f64>, minimum = 0, exclusive_maximum = 253402300800i64)]
    expire_time: Option<Option<f64>>,
    /// The number of seconds from now until the session expires. Send this or `expireTime`.
    #[serde(default)]
    #[schema(exclusive_minimum = 0)]
    time_to_live: Option<f64>,
}

impl JsonRequest for UpdateSession {}

/// Create a session.
///
/// Writing `app:` keys needs the right `app`.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions", operation_id = "createSession", tag = SESSIONS,
    params(UserPath), request_body = CreateSession,
    responses((status = 201, description = "The session, without its events.", body = SessionBody), WriteRefusals)
)]
pub(super) async fn create(
    scope: UserScope,
    _: NoQuery,
    Body(body): Body<CreateSession>,
) -> Result<(StatusCode, Json<SessionBody>), ApiError> {
    scope.caller.check_app_keys(body.state.keys().map(String::as_str))?;
    let events: Vec<_> = body.events.into_iter().map(Given::into_first_event).collect::<Result<_>>()?;
    events.iter().try_for_each(|event| scope.caller.check_delta(&event.actions.state_delta))?;
    let mut config = CreateSessionConfig::default().with_state(body.state).with_events(events);
    config.session_id = body.id;
    config.title = body.title;
    config.labels = body.labels;
    config.create_time = body.create_time;
    config.expiry = expiry(&scope.app_state, body.expire_time, body.time_to_live)?;
    let session = scope.app_state.store.sessions.create_session(&scope.app_name, &scope.user_id, config).await;
    let session = session.map_err(|e| ApiError::told(e, &scope.caller, &scope.app_name))?;
    Ok((StatusCode::CREATED, Json(SessionBody::told(session, &scope.caller))))
}

/// Read a session, or a part of it.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}", operation_id = "getSession", tag = SESSIONS,
    params(SessionPath, ReadSession),
    responses((status = 200, description = "The session.", body = SessionBody), ReadErrors)
)]
pub(super) async fn get(scope: SessionScope, Query(query): Query<ReadSession>) -> Result<Response, ApiError> {
    let config = query.config()?.with_page_bytes(scope.app_state.page_bytes());
    let session = read(&scope.app_state, &scope.key, &config).await?;
    Ok(json(SessionBody::from(session)).await?)
}

/// Change a session's title, labels and expiry.
///
/// They are not part of the state, and no event records the change.
#[utoipa::path(
    patch, path = "/apps/{app}/users/{user}/sessions/{session}", operation_id = "updateSession", tag = SESSIONS,
    params(SessionPath), request_body = UpdateSession,
    responses((status = 200, description = "The session, without state and events.", body = SessionBody), WriteRefusals)
)]
pub(super) async fn update(
    State(app_state): State<AppState>,
    scope: SessionScope,
    _: NoQuery,
    Body(body): Body<UpdateSession>,
) -> JsonAnswer<SessionBody> {
    let mut update = SessionUpdate::default();
    update.expiry = match body.expire_time {
        Some(None) if body.time_to_live.is_none() => Some(None),
        at => expiry(&app_state, at.flatten(), body.time_to_live)?.map(Some),
    };
    update.title = body.title.map(Option::unwrap_or_default);
    update.labels = body.labels;
    if !update.is_empty() {
        app_state.store.sessions.update_session(&scope.key, update).await?;
    }
    let nothing = GetSessionConfig::state_only().without_state();
    Ok(Json(SessionBody::told(read(&app_state, &scope.key, &nothing).await?, &scope.caller)))
}

/// Delete a session with its events and its own state.
///
/// The state of the user and the app stays. If the session does not exist, the response is the same.
#[utoipa::path(
    delete, path = "/apps/{app}/users/{user}/sessions/{session}", operation_id = "deleteSession", tag = SESSIONS,
    params(SessionPath),
    responses((status = 204, description = "The session is deleted, or it did not exist."), ReadErrors)
)]
pub(super) async fn delete(scope: SessionScope, _: NoQuery) -> Result<StatusCode, ApiError> {
    scope.app_state.store.sessions.delete_session(&scope.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A session, or `NotFound`.
pub(super) async fn read(app_state: &AppState, key: &SessionKey, config: &GetSessionConfig) -> Result<Session> {
    let session = app_state.store.sessions.get_session(key, config).await?;
    session.ok_or_else(|| no_session(key))
}

/// The error for a session that is not there.
pub(super) fn no_session(key: &SessionKey) -> Error {
    Error::not_found(format!("session not found: {key}; create it first"))
}

impl ReadSession {
    fn config(self) -> Result<GetSessionConfig> {
        let mut config = match (self.state, self.key.is_empty()) {
            (StatePart::None, false) => {
                return Err(Error::invalid("state=none goes without key; name keys, or leave the state out"));
            }
            (StatePart::None, true) => GetSessionConfig::default().without_state(),
            (StatePart::All, true) => GetSessionConfig::default(),
            (StatePart::All, false) => GetSessionConfig::default().with_state_keys(self.key),
        };
        let limit = self.limit.map_or(Ok(usual()), |limit| page_size("limit", limit))?;
        config = match (self.after, self.before) {
            (Some(_), Some(_)) => return Err(Error::invalid("after and before go one by one; send one of them")),
            (Some(seq), None) => config.with_events_after(seq, limit),
            (None, Some(seq)) => config.with_events_before(seq, limit),
            (None, None) if self.limit.is_some() => {
                return Err(Error::invalid(
                    "limit goes with after or before; of the last events there are numRecentEvents",
                ));
            }
            (None, None) => config.with_num_recent_events(usual()),
        };
        if let Some(count) = self.num_recent_events {
            if count > 1000 {
                return Err(Error::invalid(format!("numRecentEvents is {count}; it is from 0 to 1,000")));
            }
            config.num_recent_events = Some(count);
        }
        config.after_timestamp = self.after_timestamp;
        config.check()?;
        Ok(config)
    }
}

/// When a session expires: at a time or after a time span; only one of them may be given.
fn expiry(app_state: &AppState, at: Option<f64>, after: Option<f64>) -> Result<Option<Expiry>> {
    let now = app_state.environment.now();
    let expiry = match (at, after) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Error::invalid("expireTime and timeToLive are two ways to say one thing; send one of them"));
        }
        (Some(at), None) => Expiry::At(at),
        (None, Some(seconds)) => match Duration::try_from_secs_f64(seconds) {
            Ok(span) if !span.is_zero() => Expiry::After(span),
            _ => return Err(Error::invalid(format!("timeToLive is {seconds}; it is a number of seconds above 0"))),
        },
    };
    // An invalid time is refused before anything is changed.
    expiry.micros(|| now)?;
    match at {
        Some(at) if at <= now => {
            Err(Error::invalid(format!("expireTime {at} is past; to be rid of the session now, delete it")))
        }
        _ => Ok(Some(expiry)),
    }
}
