//! The spans of runs, in the JSON of google-adk 2.13, for the Trace tab, and for the request and the response of an
//! event.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use scratchbook::agent::TraceSpan;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

use crate::access::{Caller, Right};
use crate::adk::AdkError;
use crate::app_state::AppState;

/// A span as the interface reads it. Times are nanoseconds since 1970.
#[derive(Debug, Serialize)]
pub(super) struct WebSpan {
    name: String,
    start_time: u64,
    end_time: u64,
    trace_id: u128,
    span_id: u64,
    parent_span_id: Option<u64>,
    attributes: Map<String, Value>,
    logs: Vec<Value>,
}

impl WebSpan {
    fn of(span: &TraceSpan) -> Self {
        let mut attributes = span.attributes.clone();
        let mut logs = Vec::new();
        if !span.texts.is_empty() {
            let mut details = span.texts.clone();
            details.extend(attributes.iter().filter(|(name, _)| *name != "gen_ai.operation.name").map(owned));
            logs.push(json!({
                "event_name": "gen_ai.client.inference.operation.details", "body": null, "attributes": details,
            }));
            // Spans have the tools as text, and without their arguments.
            if let Some(Value::Array(tools)) = span.texts.get("gen_ai.tool.definitions") {
                let without = |tool: &Value| json!({"name": tool["name"], "description": tool["description"], "parameters": null, "type": "function"});
                let tools: Vec<_> = tools.iter().map(without).collect();
                attributes.insert("gen_ai.tool.definitions".to_owned(), json!(tools).to_string().into());
            }
        }
        Self {
            name: span.name.clone(),
            start_time: nanoseconds(span.start_time),
            end_time: nanoseconds(span.end_time),
            trace_id: span.trace_id,
            span_id: span.span_id,
            parent_span_id: span.parent_span_id,
            attributes,
            logs,
        }
    }
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

/// The attributes of the span of an event.
#[derive(Debug, Serialize)]
pub(super) struct EventTrace {
    #[serde(flatten)]
    attributes: Map<String, Value>,
    trace_id: u128,
    span_id: u64,
}

/// Returns the spans of a session, if the caller reaches it.
pub(super) async fn of_session(
    State(app_state): State<AppState>,
    caller: Caller,
    Path(path): Path<HashMap<String, String>>,
) -> Result<Json<Vec<WebSpan>>, AdkError> {
    let session = path.get("session").map(String::as_str).unwrap_or_default();
    let found = reached(&app_state, &caller, &path, |span| span.session.session_id() == session)?;
    Ok(Json(found.iter().map(|span| WebSpan::of(span)).collect()))
}

/// Returns the span of an event.
pub(super) async fn of_event(
    State(app_state): State<AppState>,
    caller: Caller,
    Path(path): Path<HashMap<String, String>>,
) -> Result<Json<EventTrace>, AdkError> {
    let event = path.get("event").map(String::as_str).unwrap_or_default();
    let is_its = |span: &TraceSpan| span.attributes.get("gcp.vertex.agent.event_id").is_some_and(|id| id == event);
    let found = reached(&app_state, &caller, &path, is_its)?.pop();
    let span = found.ok_or_else(|| AdkError::new(StatusCode::NOT_FOUND, json!("Trace not found")))?;
    let WebSpan { attributes, trace_id, span_id, .. } = WebSpan::of(&span);
    Ok(Json(EventTrace { attributes, trace_id, span_id }))
}

/// Returns the spans for which `wanted` holds and whose users the caller reaches. If the path names an app, returns
/// only spans of that app.
fn reached(
    app_state: &AppState,
    caller: &Caller,
    path: &HashMap<String, String>,
    wanted: impl Fn(&TraceSpan) -> bool,
) -> Result<Vec<Arc<TraceSpan>>, AdkError> {
    caller.check(Right::Read)?;
    let app = path.get("app");
    Ok(app_state.spans.matching(app_state.environment.now(), |span| {
        let key = &span.session;
        app.is_none_or(|app| app == key.app_name())
            && wanted(span)
            && caller.reaches(key.app_name(), Some(key.user_id()))
    }))
}
