//! The interface's requests beyond ADK's API: the agents as a graph, traces, tests, evaluation and editing. This server
//! has no data for tests, evaluation and editing. Requests that would create such data are refused with the reason;
//! reads are answered as by an ADK server without such data.

use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use scratchbook::{Agent, GetSessionConfig};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;

use super::graph::{Theme, as_dot, as_json};
use super::traces;
use crate::access::{Caller, Right};
use crate::adk::{AdkError, no_app};
use crate::app_state::AppState;
use crate::scope::SessionScope;

/// Returns the routes of apps, and of the interface's settings.
pub(super) fn routes() -> Router<AppState> {
    let app = Router::new()
        .route("/build_graph", get(build_graph))
        .route("/build_graph_image", get(build_graph_image))
        .route("/graph", get(app_graph))
        .route("/builder", get(no_agent_file))
        .route("/builder/save", post(no_editing))
        .route("/debug/trace/session/{session}", get(traces::of_session))
        .route("/debug/trace/{event}", get(traces::of_event))
        .route("/eval_sets", get(nothing))
        .route("/eval_sets/{set}", post(no_evaluation))
        .route("/eval-sets", get(no_eval_sets).post(no_evaluation))
        .route("/eval_results", get(nothing))
        .route("/eval_results/{result}", get(no_eval_result))
        .route("/eval-results", get(no_eval_results))
        .route("/eval-results/{result}", get(no_eval_result))
        .route("/metrics-info", get(no_evaluation))
        .route("/users/{user}/sessions/{session}/events/{event}/graph", get(event_graph))
        .route("/tests", get(nothing))
        .route("/tests/rebuild", post(no_tests))
        .route("/tests/run", post(no_tests))
        .route("/tests/{test}", get(no_test).put(no_tests).delete(no_tests));
    // Older versions of the interface request these paths without the app.
    let older = Router::new()
        .route("/debug/trace/session/{session}", get(traces::of_session))
        .route("/debug/trace/{event}", get(traces::of_event));
    older.route("/config/telemetry", get(telemetry).post(set_telemetry)).nest("/dev/apps/{app}", app)
}

/// The colours of the requested graph.
#[derive(Debug, Deserialize)]
struct GraphQuery {
    dark_mode: Option<String>,
}

impl GraphQuery {
    fn theme(&self) -> Theme {
        match self.dark_mode.as_deref() {
            Some("true" | "1") => Theme::Dark,
            _ => Theme::Light,
        }
    }
}

async fn build_graph(
    State(app_state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&app_state, &caller, &name)?;
    Ok(Json(json!({"name": name, "root_agent": as_json(agent)})))
}

/// Returns graphs by the path of a workflow in the app. This server has only the graph of the whole app.
async fn build_graph_image(
    State(app_state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<GraphQuery>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&app_state, &caller, &name)?;
    Ok(Json(json!({"": {"dotSrc": as_dot(agent, query.theme())}})))
}

async fn app_graph(
    State(app_state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<GraphQuery>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&app_state, &caller, &name)?;
    Ok(Json(json!({"dotSrc": as_dot(agent, query.theme())})))
}

/// Returns the graph for an event. ADK marks in the graph what the event has called. The interface now does that
/// itself, so this server returns the same graph for every event and does not look the event up. Before the first
/// event, the interface requests the event `none`.
async fn event_graph(
    scope: SessionScope<AppState, AdkError>,
    Path(path): Path<HashMap<String, String>>,
) -> Result<Json<Value>, AdkError> {
    let nothing = GetSessionConfig::state_only().without_state();
    if scope.app_state.store.sessions.get_session(&scope.key, &nothing).await?.is_none() {
        return Err(AdkError::no_session());
    }
    if path.get("event").is_some_and(|event| event == "none") {
        return Ok(Json(json!({})));
    }
    let agent = agent(&scope.app_state, &scope.caller, scope.key.app_name())?;
    Ok(Json(json!({"dotSrc": as_dot(agent, Theme::Light)})))
}

fn agent<'a>(app_state: &'a AppState, caller: &Caller, name: &str) -> Result<&'a dyn Agent, AdkError> {
    caller.check(Right::Read)?;
    let app = app_state.apps.get(name).filter(|_| caller.reaches_app(name));
    Ok(app.ok_or_else(|| no_app(name))?.agent.as_ref())
}

/// Answers the editor's request for an agent's file with an empty text.
async fn no_agent_file() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], "")
}

async fn nothing() -> Json<Value> {
    Json(json!([]))
}

async fn no_eval_sets() -> Json<Value> {
    Json(json!({"evalSetIds": []}))
}

async fn no_eval_results() -> Json<Value> {
    Json(json!({"evalResultIds": []}))
}

async fn no_eval_result(Path(path): Path<HashMap<String, String>>) -> AdkError {
    let name = path.get("result").map(String::as_str).unwrap_or_default();
    AdkError::new(StatusCode::NOT_FOUND, json!(format!("Eval set result `{name}` not found.")))
}

async fn no_test() -> AdkError {
    AdkError::new(StatusCode::NOT_FOUND, json!("Test file not found"))
}

async fn no_evaluation() -> AdkError {
    AdkError::bad_request("evaluation is not part of this server; `adk eval` does it")
}

async fn no_tests() -> AdkError {
    AdkError::bad_request("tests of agents are not part of this server; `adk test` runs them")
}

async fn no_editing() -> AdkError {
    AdkError::bad_request("this server edits no agents; change their files, and start it again")
}

/// Returns whether the interface reports its use to its makers. With this server it never does.
async fn telemetry() -> Json<Value> {
    Json(json!({"telemetry": false}))
}

/// Gives the same answer as `telemetry`, whatever setting the request sends.
async fn set_telemetry(headers: HeaderMap) -> Result<Json<Value>, AdkError> {
    if headers.get("x-adk-telemetry-request").is_none_or(|value| value != "true") {
        let detail = "Forbidden: missing required security header";
        return Err(AdkError::new(StatusCode::BAD_REQUEST, json!(detail)));
    }
    Ok(telemetry().await)
}

/// Answers the request for the operator's logo, which older versions of the interface send. There is no such logo.
pub(super) async fn logo() -> Json<Value> {
    Json(json!({"logo_text": null, "logo_image_url": null}))
}
