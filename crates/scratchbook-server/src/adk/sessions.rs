//! Sessions, as ADK's clients create, read, change and delete them.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Json};
use scratchbook::{AppendOptions, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, Result, SessionKey};
use serde_json::{Map, Value, json};

use super::body::{CreateSessionRequest, InitialStateBody, JsonBody, UpdateSessionRequest};
use super::idempotency::{IdempotencyKey, PATCH, unfinished};
use super::{AdkError, restore, session_json};
use crate::access::{Caller, Right};
use crate::app_state::AppState;
use crate::limits::ReadAfterWrite;
use crate::scope::{SessionScope, UserScope};

/// The query parameter for the number of last events to return.
const NUM_RECENT_EVENTS: &str = "num_recent_events";

/// Returns a session with all of its events. ADK's own server does not know `num_recent_events`, so the parameter
/// applies only to a session that would be too large.
pub(super) async fn get(
    scope: SessionScope<AppState, AdkError>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, AdkError> {
    let last = query.into_iter().find(|(name, _)| name == NUM_RECENT_EVENTS);
    let session = match (session_json::session(&scope.app_state, &scope.caller, &scope.key, None).await, last) {
        (Err(error), Some((_, count))) if error.kind() == ErrorKind::PayloadTooLarge => {
            session_json::session(&scope.app_state, &scope.caller, &scope.key, Some(read_count(&count)?)).await
        }
        (session, _) => session,
    };
    session?.ok_or_else(AdkError::no_session)
}

fn read_count(count: &str) -> Result<usize, AdkError> {
    count.parse().map_err(|_| {
        let message = format!("{NUM_RECENT_EVENTS} is {count:?}; it is the number of the last events that are wanted");
        Error::invalid(message).into()
    })
}

/// Returns a session after a write. A caller that may not read sees only the names of the session.
async fn written(app_state: &AppState, key: &SessionKey, caller: &Caller) -> Result<Option<Response>> {
    if caller.may(Right::Read) {
        return session_json::written(app_state, caller, key).await;
    }
    names(app_state, key, caller).await
}

/// Returns a session without its state and events.
async fn names(app_state: &AppState, key: &SessionKey, caller: &Caller) -> Result<Option<Response>> {
    let names = GetSessionConfig::state_only().without_state();
    match app_state.store.sessions.get_session(key, &names).await? {
        Some(session) => session_json::at_hand(app_state, caller, session).await.map(Some),
        None => Ok(None),
    }
}

/// Returns all sessions of a user, however many pages they fill.
pub(super) async fn list(scope: UserScope<AppState, AdkError>) -> Result<Response, AdkError> {
    Ok(session_json::list(&scope.app_state, &scope.caller, &scope.app_name, &scope.user_id).await?)
}

pub(super) async fn create(
    scope: UserScope<AppState, AdkError>,
    request: Option<JsonBody<CreateSessionRequest>>,
) -> Result<Response, AdkError> {
    let CreateSessionRequest { session_id, state, events, options } = request.map(|body| body.0).unwrap_or_default();
    let events = restore::events(events.unwrap_or_default())?;
    check_options(&options.unwrap_or_default())?;
    let new = New { app_name: &scope.app_name, user_id: &scope.user_id, session_id };
    new.make(&scope.app_state, &scope.caller, state.unwrap_or_default(), events).await
}

/// Creates a session with the id in the path. The whole body is the state.
pub(super) async fn create_with_id(
    scope: SessionScope<AppState, AdkError>,
    state: Option<JsonBody<InitialStateBody>>,
) -> Result<Response, AdkError> {
    let state = state.map(|body| body.0.0).unwrap_or_default();
    let key = &scope.key;
    let session_id = Some(key.session_id().to_owned());
    let new = New { app_name: key.app_name(), user_id: key.user_id(), session_id };
    new.make(&scope.app_state, &scope.caller, state, Vec::new()).await
}

/// A session to be created.
struct New<'a> {
    app_name: &'a str,
    user_id: &'a str,
    session_id: Option<String>,
}

impl New<'_> {
    async fn make(
        self,
        app_state: &AppState,
        caller: &Caller,
        state: Map<String, Value>,
        events: Vec<Event>,
    ) -> Result<Response, AdkError> {
        let id = self.session_id.unwrap_or_default();
        let mut config = CreateSessionConfig::default().with_session_id(&id);
        if events.is_empty() {
            caller.check_app_keys(state.keys().map(String::as_str))?;
        } else {
            // The session is imported, so its values of user and app keys may be stale.
            config = config.with_events(events).with_shared_keys_left();
        }
        let made = app_state.store.sessions.create_session(self.app_name, self.user_id, config.with_state(state)).await;
        let session = made.map_err(|error| match error.public_kind() {
            ErrorKind::AlreadyExists => {
                AdkError::new(StatusCode::CONFLICT, json!(format!("Session already exists: {id}")))
            }
            _ => error.into(),
        })?;
        let key = session.key().clone();
        let unread = |error: Error| {
            error.context(format!("the session {key} was created, and reading it failed")).not_retryable()
        };
        if caller.may(Right::Read) {
            match session_json::at_hand(app_state, caller, session).await {
                Err(error) if session_json::is_too_long(&error) => {}
                made => return Ok(made.map_err(unread)?),
            }
        }
        written(app_state, &key, caller).await.map_err(unread)?.ok_or_else(AdkError::no_session)
    }
}

/// Checks the options as ADK does. The checked options are ignored, since they are for other session services of ADK.
fn check_options(options: &Map<String, Value>) -> Result<(), AdkError> {
    let bound = ["app_name", "session_id", "state", "user_id"];
    let bound: Vec<_> = bound.into_iter().filter(|name| options.contains_key(*name)).collect();
    if !bound.is_empty() {
        let bound = bound.join(", ");
        let detail = format!("Session options cannot contain keys already bound by the endpoint: {bound}");
        return Err(AdkError::bad_request(detail));
    }
    if !options.is_empty() {
        return Err(AdkError::bad_request("Session options are not supported by the configured session service."));
    }
    Ok(())
}

/// Changes state without a run, through an event of the user.
pub(super) async fn update(
    scope: SessionScope<AppState, AdkError>,
    key: Option<IdempotencyKey>,
    Extension(read): Extension<ReadAfterWrite>,
    JsonBody(request): JsonBody<UpdateSessionRequest>,
) -> Result<Response, AdkError> {
    scope.caller.check_delta(&request.state_delta)?;
    let event = Event::new("user").with_state_delta(request.state_delta);
    let event = match &key {
        Some(key) => key.mark(event),
        None => event.with_invocation_id(format!("{PATCH}{}", scope.app_state.environment.new_id())),
    };
    let appended = scope.app_state.store.sessions.append(&scope.key, event, AppendOptions::default()).await;
    appended.map_err(|error| unfinished(error, key.as_ref()))?;
    let unread = |error: Error| error.context("the change was stored, and reading the session failed").not_retryable();
    // The change is stored, so a client that finds all places taken gets the names of the session, and no error.
    let Ok(_place) = read.place().await else {
        return names(&scope.app_state, &scope.key, &scope.caller)
            .await
            .map_err(unread)?
            .ok_or_else(AdkError::no_session);
    };
    written(&scope.app_state, &scope.key, &scope.caller).await.map_err(unread)?.ok_or_else(AdkError::no_session)
}

/// Deletes a session. Succeeds if the session does not exist.
pub(super) async fn delete(scope: SessionScope<AppState, AdkError>) -> Result<Json<Value>, AdkError> {
    scope.app_state.store.sessions.delete_session(&scope.key).await?;
    Ok(Json(Value::Null))
}
