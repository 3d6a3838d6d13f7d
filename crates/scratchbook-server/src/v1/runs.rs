//! Runs: begun, followed, taken up again where a client was cut off, listed and cancelled.
//!
//! A stream has these frames: `run` names the invocation; `event` has an event that is stored, with its id; `piece` has
//! a part of a reply that is not whole yet, without one; `end` says how the run ended. A client that was cut off asks
//! again with the last id it has seen, forgets the pieces of a reply whose whole it has not seen, and misses nothing.

use std::sync::Arc;
use std::time::Duration;

use async_stream::stream;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::Stream;
use scratchbook::{Content, Error, Event, Result, RunConfig, RunRequest, StateDelta, json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ApiError;
use super::error::shown;
use crate::runs::{Follow, Outcome, Run};
use crate::scope::SessionScope;
use crate::served::Served;
use crate::sse;

/// After so much silence a stream says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a run is asked to do.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RunBody {
    /// Text, or a `Content`.
    #[serde(default, alias = "newMessage")]
    message: Value,
    #[serde(default)]
    state_delta: Option<StateDelta>,
    #[serde(default)]
    streaming: bool,
    #[serde(default)]
    invocation_id: Option<String>,
    #[serde(default)]
    custom_metadata: Option<Map<String, Value>>,
}

/// The run that a path names.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    invocation: String,
}

/// From where a stream is taken up again.
#[derive(Debug, Deserialize)]
pub(super) struct After {
    after: Option<String>,
}

pub(super) async fn start(
    State(served): State<Arc<Served>>,
    scope: SessionScope<ApiError>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let request = request(&body)?;
    scope.caller.check_delta(&request.state_delta)?;
    let app_name = scope.key.app_name();
    let app = served.apps.get(app_name);
    let app = app.ok_or_else(|| Error::not_found(format!("no agent is hosted as the app '{app_name}'")))?;
    let (run, reader) = served.runs.start(&app.runner, &scope.key, request).await?;
    Ok(follow(&run.invocation_id, Follow::live(reader)))
}

pub(super) async fn resume(
    State(served): State<Arc<Served>>,
    SessionScope { key, .. }: SessionScope<ApiError>,
    Path(Named { invocation: invocation_id }): Path<Named>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let last = headers.get("last-event-id").map(|id| std::str::from_utf8(id.as_bytes()));
    let last = last.transpose().map_err(|_| Error::invalid("the header Last-Event-ID is not UTF-8"))?;
    // A browser that connects again says how far it came, whatever its address said at first.
    let after = last.or(after.as_deref()).filter(|id| !id.is_empty());
    let events = Follow::resume(&served.runs, &served.store.sessions, &key, &invocation_id, after).await?;
    Ok(follow(&invocation_id, events))
}

pub(super) async fn list(State(served): State<Arc<Served>>, scope: SessionScope<ApiError>) -> Json<Value> {
    let runs = served.runs.list(&scope.key);
    let shown = |run: &Arc<Run>| json!({"invocationId": run.invocation_id, "startTime": run.start_time});
    Json(json!({"runs": runs.iter().map(shown).collect::<Vec<_>>()}))
}

pub(super) async fn cancel(
    State(served): State<Arc<Served>>,
    SessionScope { key, .. }: SessionScope<ApiError>,
    Path(Named { invocation: invocation_id }): Path<Named>,
) -> Result<Json<Value>, ApiError> {
    let outcome = match served.runs.find(&key, &invocation_id) {
        Some(run) => {
            run.cancel();
            Some(run.ended().await)
        }
        None => served.runs.outcome(&key, &invocation_id),
    };
    let missing = || Error::not_found(format!("no run '{invocation_id}' of the session {key} is under way"));
    let outcome = outcome.ok_or_else(missing)?;
    Ok(Json(end(&invocation_id, Some(&outcome))))
}

fn request(body: &[u8]) -> Result<RunRequest> {
    // An array would be read as the fields in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Error::invalid("the body is no JSON object; send one, such as {\"message\": \"Hello\"}"));
    }
    let body: RunBody = json::from_slice(body).map_err(|e| e.context("the body"))?;
    let message = match body.message {
        Value::Null => None,
        Value::String(text) => Some(Content::user(text)),
        content => {
            let content = serde_json::from_value::<Content>(content);
            Some(
                content
                    .map_err(|_| Error::invalid("the message is a text or a Content with parts; send one of them"))?,
            )
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
fn follow(invocation_id: &str, events: Follow) -> Response {
    sse::response(invocation_id, frames(invocation_id.to_owned(), events))
}

fn frames(invocation_id: String, mut events: Follow) -> impl Stream<Item = Bytes> {
    stream! {
        yield frame("run", &json!({"invocationId": invocation_id}));
        loop {
            match tokio::time::timeout(HEARTBEAT, events.next()).await {
                Ok(Ok(Some(event))) => yield event_frame(&event),
                Ok(Ok(None)) => {
                    yield frame("end", &end(&invocation_id, events.outcome()));
                    return;
                }
                Ok(Err(error)) => {
                    // Not the end of the run: the client may ask again.
                    yield frame("error", &json!({"error": shown(&error)}));
                    return;
                }
                Err(_) => yield Bytes::from_static(b":\n\n"),
            }
        }
    }
}

fn event_frame(event: &Event) -> Bytes {
    match serde_json::to_string(event) {
        Ok(data) if event.is_partial() => format!("event: piece\ndata: {data}\n\n").into(),
        Ok(data) => format!("id: {}\nevent: event\ndata: {data}\n\n", event.id).into(),
        Err(error) => {
            let error = Error::internal("an event has no JSON").with_source(error);
            frame("error", &json!({"error": shown(&error)}))
        }
    }
}

fn frame(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// How a run ended: `completed`, `failed`, `cancelled`; `unknown` where this server does not know whether it has.
fn end(invocation_id: &str, outcome: Option<&Outcome>) -> Value {
    let mut end = json!({"invocationId": invocation_id, "outcome": outcome.map_or("unknown", Outcome::as_str)});
    if let (Some(Outcome::Failed(error)), Some(end)) = (outcome, end.as_object_mut()) {
        end.insert("error".to_owned(), shown(error));
    }
    end
}
