//! `/run` and `/run_sse` run an agent in a session. `/run` returns the events at the end; `/run_sse` streams them.
//!
//! The run continues when its client disconnects. `v1/runs.rs` resumes the stream of such a run.

use std::sync::Arc;

use async_stream::stream;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use scratchbook::agent::RunConfig;
use scratchbook::environment::Environment;
use scratchbook::{Error, ErrorKind, Event, RunRequest};
use serde_json::json;

use super::AdkError;
use super::apps::{check_reserved, no_app};
use super::body::{JsonBody, RunAgentRequest, unread};
use super::python_json::dumps;
use super::shape::{self, JsonText, public_metadata};
use crate::access::{Caller, Right};
use crate::app_state::AppState;
use crate::bodies::{Held, Unread};
use crate::public_error::PublicError;
use crate::runs::{Run, RunOutcome, RunReader};
use crate::scope::{session_of_body, user_of_body};
use crate::sse;

/// Whether a reply is also streamed in pieces before it is complete.
#[derive(Clone, Copy, Debug)]
enum Replies {
    Whole,
    InPieces,
}

/// A request for a run. Its body is parsed only after a check that the caller may run agents for the named user.
#[derive(Debug)]
pub(super) struct AllowedRun(RunAgentRequest);

impl FromRequest<AppState> for AllowedRun {
    type Rejection = AdkError;

    async fn from_request(request: Request, app_state: &AppState) -> Result<Self, AdkError> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, app_state).await?;
        let unread = unread(Request::from_parts(parts, body), app_state).await?;
        check_named(app_state, &caller, &unread).await?;
        let JsonBody(body) = JsonBody::read(unread).await?;
        Ok(Self(body))
    }
}

/// Checks that the caller may run agents for the user that a body names. Names are read in both spellings. If the body
/// names no user, only the caller's right is checked.
async fn check_named(app_state: &AppState, caller: &Caller, unread: &Unread) -> Result<(), AdkError> {
    let named = unread.texts(["appName", "app_name", "userId", "user_id", "sessionId", "session_id"]).await?;
    let Some([app, app_snake, user, user_snake, session, session_snake]) = named else {
        return Ok(caller.check(Right::Write)?);
    };
    let (app, user, session) = (app.or(app_snake), user.or(user_snake), session.or(session_snake));
    match (app.text().filter(|app| !app.is_empty()), user.text()) {
        (Some(app), Some(user)) => {
            let checked = user_of_body(&app_state.probe, caller, app, user).await;
            checked.map_err(|error| no_session(error, session.text().unwrap_or_default()))
        }
        _ => Ok(caller.check(Right::Write)?),
    }
}

pub(super) async fn run(
    State(app_state): State<AppState>,
    caller: Caller,
    held: Held,
    AllowedRun(body): AllowedRun,
) -> Result<Response, AdkError> {
    // The answer is an array, in which pieces of replies are of no use, so `streaming` is ignored.
    let (run, mut reader) = start(&app_state, &caller, &held, body, Replies::Whole).await?;
    let mut events = Vec::new();
    while let Some(event) = reader.next().await {
        if !event.is_partial() {
            events.push(event);
        }
    }
    match reader.outcome() {
        Some(RunOutcome::Completed) => {
            let mut out = Vec::new();
            shape::push_list(&mut out, &events, |out, event| shape::push_event(out, event))?;
            let mut response = JsonText(out).into_response();
            sse::name(&mut response, &run.invocation_id);
            Ok(response)
        }
        Some(RunOutcome::Failed(error)) if events.is_empty() => Err(refused(&error)),
        Some(RunOutcome::Cancelled) => Err(AdkError::new(StatusCode::CONFLICT, json!(CANCELLED))),
        _ => Ok((StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").into_response()),
    }
}

pub(super) async fn run_sse(
    State(app_state): State<AppState>,
    caller: Caller,
    held: Held,
    AllowedRun(body): AllowedRun,
) -> Result<Response, AdkError> {
    let replies = if body.streaming { Replies::InPieces } else { Replies::Whole };
    let frames = match body.function_call_event_id.as_deref() {
        None | Some("") => ArtifactFrames::Split,
        Some(_) => ArtifactFrames::AsTheyAre,
    };
    let (run, reader) = start(&app_state, &caller, &held, body, replies).await?;
    let environment = Arc::clone(&app_state.environment);
    Ok(sse::response(&run.invocation_id, self::frames(reader, frames, environment)))
}

const CANCELLED: &str = "the run was cancelled";

/// Starts a run after every check that can refuse it, in ADK's order.
async fn start(
    app_state: &AppState,
    caller: &Caller,
    held: &Held,
    body: RunAgentRequest,
    replies: Replies,
) -> Result<(Arc<Run>, RunReader), AdkError> {
    let Some(app_name) = body.app_name.filter(|name| !name.is_empty()) else {
        let detail = "app_name is required when ADK_DEFAULT_APP_NAME is not set";
        return Err(AdkError::new(StatusCode::BAD_REQUEST, json!(detail)));
    };
    check_reserved(&app_name)?;
    let session_id = body.session_id;
    let key = session_of_body(&app_state.probe, caller, (&app_name, &body.user_id, &session_id)).await;
    let key = key.map_err(|error| no_session(error, &session_id))?;
    // As in ADK, a missing app is reported before a missing session. Callers who may not know of the app were refused
    // above.
    let app = app_state.apps.get(&app_name).ok_or_else(|| no_app(&app_name))?;
    let mut config =
        RunConfig::default().with_custom_metadata(public_metadata(body.custom_metadata).unwrap_or_default());
    config.streaming = matches!(replies, Replies::InPieces);
    let mut request = RunRequest::default().with_config(config);
    request.message = body.new_message;
    request.state_delta = body.state_delta.unwrap_or_default();
    request.invocation_id = body.invocation_id;
    caller.check_delta(&request.state_delta)?;
    let account = caller.account(Some(key.user_id()));
    let started = app_state.runs.start(&app.runner, &key, &account, held, request).await;
    started.map_err(|error| no_session(error, &session_id))
}

/// Returns the error for a session that does not exist, or is not within the caller's reach.
fn no_session(error: Error, session_id: &str) -> AdkError {
    match error.public_kind() {
        ErrorKind::NotFound => AdkError::new(StatusCode::NOT_FOUND, json!(format!("Session not found: {session_id}"))),
        _ => error.into(),
    }
}

/// Returns the answer of `/run` to a run that failed without an event. The failure of an agent is reported in an event.
fn refused(error: &Error) -> AdkError {
    let told = PublicError::of(error);
    AdkError::new(told.status, json!(told.message))
}

/// Whether an event with content and new artifacts is sent as two events. Otherwise the dev interface would show the
/// artifacts twice.
#[derive(Clone, Copy, Debug)]
enum ArtifactFrames {
    Split,
    AsTheyAre,
}

fn frames(
    mut reader: RunReader,
    frames: ArtifactFrames,
    environment: Arc<dyn Environment>,
) -> impl Stream<Item = Bytes> {
    stream! {
        while let Some(event) = reader.next().await {
            let said = event.content.as_ref().is_some_and(|content| !content.parts().is_empty());
            if matches!(frames, ArtifactFrames::Split) && said && !event.actions.artifact_delta.is_empty() {
                let (mut content, mut artifacts) = (Event::clone(&event), Event::clone(&event));
                content.actions.artifact_delta.clear();
                artifacts.content = None;
                yield frame(&content, environment.as_ref());
                yield frame(&artifacts, environment.as_ref());
            } else {
                yield frame(&event, environment.as_ref());
            }
        }
        match reader.outcome() {
            Some(RunOutcome::Failed(error)) => yield failed(&error, environment.as_ref()),
            Some(RunOutcome::Cancelled) => yield failure("CANCELLED", CANCELLED, environment.as_ref()),
            Some(RunOutcome::Completed) | None => {}
        }
    }
}

fn frame(event: &Event, environment: &dyn Environment) -> Bytes {
    match shape::event(event) {
        Ok(event) => [b"data: ", event.as_slice(), b"\n\n"].concat().into(),
        Err(error) => failed(&error, environment),
    }
}

fn failed(error: &Error, environment: &dyn Environment) -> Bytes {
    let told = PublicError::of(error);
    failure(&told.code(), told.message, environment)
}

/// Returns the last frame that ADK sends if a run failed.
fn failure(code: &str, message: &str, environment: &dyn Environment) -> Bytes {
    let details = json!({"error_type": code, "error_message": message, "timestamp": environment.now()});
    let failure = json!({"error": format!("{code}: {message}"), "error_details": details});
    // Strings and a number can always be serialized.
    dumps(&failure).map(|failure| format!("data: {failure}\n\n").into()).unwrap_or_default()
}
