//! Runs: starting, following, listing and cancelling them, and resuming a stream that was cut off.
//!
//! A stream has these frames: `run` names the invocation. `event` has a stored event and its id. `piece` has a part of
//! an incomplete reply, and no id. `end` says how the run ended. A client that lost its connection sends the last id
//! that it has received, and discards the pieces of a reply that it has not received completely. Then it misses
//! nothing.

use std::sync::Arc;

use async_stream::stream;
use axum::Json;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::Stream;
use scratchbook::agent::RunConfig;
use scratchbook::{Content, Error, Event, Result, RunRequest, StateDelta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use super::error::{Problem, ReadErrors, WriteRefusals, shown};
use super::request::{Body, JsonRequest, LAST_EVENT_ID, NoQuery, PathInvocation, Query, Resume};
use super::shape::StoredEventJson;
use super::{ApiError, JsonAnswer, RUNS, SessionScope};
use crate::bodies::{self as counted, Held, Shape};
use crate::openapi::StreamEvent;
use crate::openapi::path::{RunPath, SessionPath};
use crate::runs::{Run, RunFollower, RunOutcome};
use crate::sse;

/// An example of a stream.
const EXAMPLE: &str = concat!(
    "event: run\ndata: {\"invocationId\":\"i2\"}\n\n",
    "id: e4\nevent: event\ndata: {\"id\":\"e4\",\"author\":\"assistant\",\"seq\":4}\n\n",
    "event: end\ndata: {\"invocationId\":\"i2\",\"outcome\":\"completed\"}\n\n"
);

/// The request to begin a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = StartRun)]
#[schema(example = json!({"message": "Add two milks, please", "stateDelta": {"channel": "web"}, "streaming": true}))]
pub(super) struct RunBody {
    /// The user's message: a text, or a `Content` with parts.
    #[serde(default, alias = "newMessage")]
    #[schema(required = false)]
    message: Value,
    /// Changes to the state, which are committed together with the message: keys with their prefixes, and their new
    /// values.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    state_delta: Option<StateDelta>,
    /// Whether text is streamed in pieces while the model generates it.
    #[serde(default)]
    #[schema(required = false)]
    streaming: bool,
    /// The run's id. If it is absent, the server generates one.
    #[serde(default)]
    #[schema(max_length = 512)]
    invocation_id: Option<String>,
    /// Metadata that is stored with each event of the run.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    custom_metadata: Option<Map<String, Value>>,
}

static MESSAGE: Shape = Shape::Fields(&[("message", &counted::CONTENT), ("newMessage", &counted::CONTENT)]);

impl JsonRequest for RunBody {
    const SHAPE: &'static Shape = &MESSAGE;
}

/// The place from which a stream is resumed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct After {
    /// The id of the last event that the client received. The stream continues after it.
    after: Option<String>,
}

/// The runs of a session that are in progress.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"runs": [{"invocationId": "i2", "startTime": 1795194011.59}]}))]
pub(super) struct RunList {
    /// The runs, in the order in which they were started.
    runs: Vec<UnderWay>,
}

/// A run that is in progress.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UnderWay {
    /// The run's id.
    invocation_id: String,
    /// The time at which the run was started, in seconds since 1970.
    start_time: f64,
}

/// How a run ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"invocationId": "i2", "outcome": "cancelled"}))]
pub(super) struct RunEnd {
    /// The run's id.
    invocation_id: String,
    /// How the run ended: `completed`, `failed` or `cancelled`. It is `unknown` if this server does not know whether
    /// the run has ended.
    #[schema(value_type = String)]
    outcome: &'static str,
    /// The reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Problem>,
}

/// Start a run of the app's agent and follow it.
///
/// The response is a stream of server-sent events. `run` has the id of the run. Each `event` has an event that is
/// stored. Each `piece` has a part of an answer that is not complete yet. `end` says how the run ended. The run
/// continues if its client disconnects.
#[utoipa::path(
    post, path = "/apps/{app}/users/{user}/sessions/{session}/runs", operation_id = "startRun", tag = RUNS,
    params(SessionPath), request_body = RunBody,
    responses((
        status = 200, description = "A stream with the events of the run, as they happen.",
        body = StreamEvent, content_type = "text/event-stream",
        example = json!(EXAMPLE)
    ), WriteRefusals)
)]
pub(super) async fn start(
    scope: SessionScope,
    _: NoQuery,
    held: Held,
    Body(body): Body<RunBody>,
) -> Result<Response, ApiError> {
    let request = request(body)?;
    scope.caller.check_delta(&request.state_delta)?;
    let app_name = scope.key.app_name();
    let app = scope.app_state.apps.get(app_name);
    let app = app.ok_or_else(|| Error::not_found(format!("no agent is hosted as the app '{app_name}'")))?;
    let account = scope.caller.account(Some(scope.key.user_id()));
    let (run, reader) = scope.app_state.runs.start(&app.runner, &scope.key, &account, &held, request).await?;
    Ok(follow(&run.invocation_id, RunFollower::live(reader)))
}

/// Follow a run from where a client lost its connection, even after the run has ended.
///
/// Before the client continues, it must discard the pieces of an answer that is not complete. Then no part of the run
/// is missing or doubled.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/runs/{invocation}", operation_id = "followRun", tag = RUNS,
    params(RunPath, After, Resume),
    responses((
        status = 200, description = "A stream with the events of the run, as they happen.",
        body = StreamEvent, content_type = "text/event-stream",
        example = json!(EXAMPLE)
    ), ReadErrors)
)]
pub(super) async fn resume(
    SessionScope { key, app_state, .. }: SessionScope,
    PathInvocation(invocation_id): PathInvocation,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let last = headers.get(LAST_EVENT_ID).map(|id| std::str::from_utf8(id.as_bytes()));
    let last = last.transpose().map_err(|_| Error::invalid("the header Last-Event-ID is not UTF-8"))?;
    // A browser that reconnects sends its last id in a header, which wins over the query of the address.
    let after = last.or(after.as_deref()).filter(|id| !id.is_empty());
    let events = RunFollower::resume(&app_state.runs, &app_state.store.sessions, &key, &invocation_id, after).await?;
    Ok(follow(&invocation_id, events))
}

/// List the runs of a session that are in progress.
#[utoipa::path(
    get, path = "/apps/{app}/users/{user}/sessions/{session}/runs", operation_id = "listRuns", tag = RUNS,
    params(SessionPath),
    responses((status = 200, description = "The runs that are in progress.", body = RunList), ReadErrors)
)]
pub(super) async fn list(scope: SessionScope, _: NoQuery) -> Json<RunList> {
    let runs = scope.app_state.runs.list(&scope.key);
    let shown = |run: &Arc<Run>| UnderWay { invocation_id: run.invocation_id.clone(), start_time: run.start_time };
    Json(RunList { runs: runs.iter().map(shown).collect() })
}

/// Cancel a run, and wait until it has ended.
#[utoipa::path(
    delete, path = "/apps/{app}/users/{user}/sessions/{session}/runs/{invocation}", operation_id = "cancelRun",
    tag = RUNS, params(RunPath),
    responses((status = 200, description = "How the run ended.", body = RunEnd), ReadErrors)
)]
pub(super) async fn cancel(
    SessionScope { key, app_state, .. }: SessionScope,
    PathInvocation(invocation_id): PathInvocation,
    _: NoQuery,
) -> JsonAnswer<RunEnd> {
    let outcome = match app_state.runs.find(&key, &invocation_id) {
        Some(run) => {
            run.cancel();
            Some(run.ended().await)
        }
        None => app_state.runs.outcome(&key, &invocation_id),
    };
    let missing = || Error::not_found(format!("no run '{invocation_id}' of the session {key} is under way"));
    let outcome = outcome.ok_or_else(missing)?;
    Ok(Json(end(&invocation_id, Some(&outcome))))
}

fn request(body: RunBody) -> Result<RunRequest> {
    let message = match body.message {
        Value::Null => None,
        Value::String(text) => Some(Content::user(text)),
        content => {
            let content: Content = serde_json::from_value(content)
                .map_err(|_| Error::invalid("the message is a text or a Content with parts; send one of them"))?;
            content.check_known().map_err(|e| e.context("the message"))?;
            Some(content)
        }
    };
    let mut config = RunConfig::default().with_custom_metadata(body.custom_metadata.unwrap_or_default());
    config.streaming = body.streaming;
    let mut request = RunRequest::default().with_config(config);
    request.message = message;
    request.state_delta = body.state_delta.unwrap_or_default();
    request.invocation_id = body.invocation_id;
    Ok(request)
}

/// The stream of an invocation.
fn follow(invocation_id: &str, events: RunFollower) -> Response {
    sse::response(invocation_id, frames(invocation_id.to_owned(), events))
}

fn frames(invocation_id: String, mut events: RunFollower) -> impl Stream<Item = Bytes> {
    stream! {
        yield sse::frame("run", &json!({"invocationId": invocation_id}));
        loop {
            match events.next().await {
                Ok(Some(event)) => yield event_frame(event),
                Ok(None) => {
                    yield sse::frame("end", &end(&invocation_id, events.outcome()));
                    return;
                }
                Err(error) => {
                    // The run has not ended: the client may ask again.
                    yield sse::frame("error", &json!({"error": shown(&error)}));
                    return;
                }
            }
        }
    }
}

fn event_frame(event: Arc<Event>) -> Bytes {
    let (is_partial, id) = (event.is_partial(), event.id.clone());
    match serde_json::to_string(&StoredEventJson(event)) {
        Ok(data) if is_partial => format!("event: piece\ndata: {data}\n\n").into(),
        Ok(data) => format!("id: {id}\nevent: event\ndata: {data}\n\n").into(),
        Err(error) => {
            let error = Error::internal("an event has no JSON").with_source(error);
            sse::frame("error", &json!({"error": shown(&error)}))
        }
    }
}

fn end(invocation_id: &str, outcome: Option<&RunOutcome>) -> RunEnd {
    let error = match outcome {
        Some(RunOutcome::Failed(error)) => Some(shown(error)),
        _ => None,
    };
    let outcome = outcome.map_or("unknown", RunOutcome::as_str);
    RunEnd { invocation_id: invocation_id.to_owned(), outcome, error }
}
