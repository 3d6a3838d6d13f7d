//! Sessions, as ADK's clients make, read, change and delete them.

use std::sync::Arc;

use async_stream::try_stream;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, TryStreamExt};
use scratchbook::{
    AppendOptions, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, ListSessionsConfig,
    ListSessionsResponse, SessionKey,
};
use serde_json::{Map, Value, json};

use super::body::{CreateSessionRequest, InitialState, JsonBody, UpdateSessionRequest};
use super::idempotency::{IdempotencyKey, PATCH, unfinished};
use super::shape::{self, Text};
use super::{AdkError, restore};
use crate::access::{Caller, Right};
use crate::scope::{SessionScope, UserScope};
use crate::served::Served;

/// The beginnings of the ids of sessions that ADK's evaluation makes, which its lists leave out.
const OF_EVALUATION: [&str; 2] = ["adk-eval-session-", "___eval___session___"];

/// How many bytes of a list are sent at a time, at least, but for the last.
const PIECE: usize = 64 << 10;

pub(super) async fn get(State(served): State<Arc<Served>>, scope: SessionScope<AdkError>) -> Result<Text, AdkError> {
    read(&served, &scope.key, &scope.caller).await
}

/// A session as far as a caller may know of it: after a write, one who may not read is told of its names alone.
async fn read(served: &Served, key: &SessionKey, caller: &Caller) -> Result<Text, AdkError> {
    let config = if caller.may(Right::Read) {
        GetSessionConfig::default()
    } else {
        GetSessionConfig::state_only().without_state()
    };
    let session = served.store.sessions.get_session(key, &config).await?;
    Ok(shape::session(&session.ok_or_else(AdkError::no_session)?)?)
}

/// All sessions of a user, whatever number of pages they fill.
///
/// They are written while they are sent: each shows the state of the user and of the app, which are one in memory, and in
/// text are there as often as there are sessions.
pub(super) async fn list(State(served): State<Arc<Served>>, scope: UserScope<AdkError>) -> Result<Response, AdkError> {
    let config = ListSessionsConfig::default().with_user_id(&scope.user_id).with_page_size(1000);
    let first = served.store.sessions.list_sessions(&scope.app_name, &config).await?;
    let pieces = pieces(served, scope.app_name, config, first).inspect_err(|error| {
        tracing::error!(kind = error.kind().as_str(), %error, "a list broke off");
    });
    Ok(([(CONTENT_TYPE, "application/json")], Body::from_stream(pieces)).into_response())
}

fn pieces(
    served: Arc<Served>,
    app_name: String,
    mut config: ListSessionsConfig,
    mut page: ListSessionsResponse,
) -> impl Stream<Item = Result<Bytes, Error>> {
    try_stream! {
        let (mut piece, mut between) = (Vec::new(), b'[');
        loop {
            for session in page.sessions {
                if OF_EVALUATION.iter().any(|begin| session.id().starts_with(begin)) {
                    continue;
                }
                piece.push(between);
                shape::push_session(&mut piece, &session)?;
                between = b',';
                if piece.len() >= PIECE {
                    yield Bytes::from(std::mem::take(&mut piece));
                }
            }
            let Some(token) = page.next_page_token else { break };
            config = config.with_page_token(token);
            page = served.store.sessions.list_sessions(&app_name, &config).await?;
        }
        piece.extend_from_slice(if between == b'[' { b"[]" } else { b"]" });
        yield Bytes::from(piece);
    }
}

pub(super) async fn create(
    State(served): State<Arc<Served>>,
    scope: UserScope<AdkError>,
    request: Option<JsonBody<CreateSessionRequest>>,
) -> Result<Text, AdkError> {
    let CreateSessionRequest { session_id, state, events, options } = request.map(|body| body.0).unwrap_or_default();
    let events = restore::events(events.unwrap_or_default())?;
    check_options(&options.unwrap_or_default())?;
    let new = New { app_name: &scope.app_name, user_id: &scope.user_id, session_id };
    new.make(&served, &scope.caller, state.unwrap_or_default(), events).await
}

/// The form whose body is the state.
pub(super) async fn create_with_id(
    State(served): State<Arc<Served>>,
    scope: SessionScope<AdkError>,
    state: Option<JsonBody<InitialState>>,
) -> Result<Text, AdkError> {
    let state = state.map(|body| body.0.0).unwrap_or_default();
    let key = &scope.key;
    let session_id = Some(key.session_id().to_owned());
    let new = New { app_name: key.app_name(), user_id: key.user_id(), session_id };
    new.make(&served, &scope.caller, state, Vec::new()).await
}

/// A session to be made.
struct New<'a> {
    app_name: &'a str,
    user_id: &'a str,
    session_id: Option<String>,
}

impl New<'_> {
    async fn make(
        self,
        served: &Served,
        caller: &Caller,
        state: Map<String, Value>,
        events: Vec<Event>,
    ) -> Result<Text, AdkError> {
        let id = self.session_id.unwrap_or_default();
        let mut config = CreateSessionConfig::default().with_session_id(&id);
        if events.is_empty() {
            caller.check_app_keys(state.keys().map(String::as_str))?;
        } else {
            // The session comes from elsewhere: what it knows of the user and the app is old.
            config = config.with_events(events).with_shared_keys_left();
        }
        let made = served.store.sessions.create_session(self.app_name, self.user_id, config.with_state(state)).await;
        let session = made.map_err(|error| match error.public_kind() {
            ErrorKind::AlreadyExists => {
                AdkError::new(StatusCode::CONFLICT, json!(format!("Session already exists: {id}")))
            }
            _ => error.into(),
        })?;
        if caller.may(Right::Read) { Ok(shape::session(&session)?) } else { read(served, session.key(), caller).await }
    }
}

/// Options are for the services of ADK that take some; ours takes none.
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

/// Changes state without a run, by an event of the user.
pub(super) async fn update(
    State(served): State<Arc<Served>>,
    scope: SessionScope<AdkError>,
    key: Option<IdempotencyKey>,
    JsonBody(request): JsonBody<UpdateSessionRequest>,
) -> Result<Text, AdkError> {
    scope.caller.check_delta(&request.state_delta)?;
    let event = Event::new("user").with_state_delta(request.state_delta);
    let event = match &key {
        Some(key) => key.mark(event),
        None => event.with_invocation_id(format!("{PATCH}{}", served.environment.new_id())),
    };
    let appended = served.store.sessions.append(&scope.key, event, AppendOptions::default()).await;
    appended.map_err(|error| unfinished(error, key.as_ref()))?;
    read(&served, &scope.key, &scope.caller).await
}

/// Silent where there is no such session.
pub(super) async fn delete(
    State(served): State<Arc<Served>>,
    scope: SessionScope<AdkError>,
) -> Result<Json<Value>, AdkError> {
    served.store.sessions.delete_session(&scope.key).await?;
    Ok(Json(Value::Null))
}
