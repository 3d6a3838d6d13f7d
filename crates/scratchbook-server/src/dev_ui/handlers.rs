//! What the interface asks a server for besides ADK's API: the agents as a graph, and what ADK's own server has for
//! tests, evaluation, editing and traces, of which there is none here.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use scratchbook::Agent;
use serde::Deserialize;
use serde_json::{Value, json};

use super::graph::{Theme, as_dot, as_json};
use crate::access::{Caller, Right};
use crate::adk::{AdkError, no_app};
use crate::served::Served;

/// The routes of apps, and of the interface's settings.
pub(super) fn routes() -> Router<Arc<Served>> {
    let app = Router::new()
        .route("/build_graph", get(build_graph))
        .route("/build_graph_image", get(build_graph_image))
        .route("/graph", get(app_graph))
        .route("/builder", get(no_agent_file))
        .route("/debug/trace/session/{session}", get(nothing))
        .route("/debug/trace/{event}", get(no_trace))
        .route("/eval_sets", get(nothing))
        .route("/eval-sets", get(no_eval_sets))
        .route("/eval_results", get(nothing))
        .route("/metrics-info", get(no_metrics))
        .route("/tests", get(nothing));
    Router::new().route("/config/telemetry", get(telemetry).post(set_telemetry)).nest("/dev/apps/{app}", app)
}

/// Which colours a graph is wanted in.
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
    State(served): State<Arc<Served>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&served, &caller, &name)?;
    Ok(Json(json!({"name": name, "root_agent": as_json(agent)})))
}

/// One picture by the path of a workflow in the app; there is the one of the whole.
async fn build_graph_image(
    State(served): State<Arc<Served>>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<GraphQuery>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&served, &caller, &name)?;
    Ok(Json(json!({"": {"dotSrc": as_dot(agent, query.theme())}})))
}

async fn app_graph(
    State(served): State<Arc<Served>>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<GraphQuery>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&served, &caller, &name)?;
    Ok(Json(json!({"dotSrc": as_dot(agent, query.theme())})))
}

fn agent<'a>(served: &'a Served, caller: &Caller, name: &str) -> Result<&'a dyn Agent, AdkError> {
    caller.check(Right::Read)?;
    let app = served.apps.get(name).filter(|_| caller.reaches_app(name));
    Ok(app.ok_or_else(|| no_app(name))?.agent.as_ref())
}

/// The file that an agent was made from, for an editor.
async fn no_agent_file() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], "")
}

async fn nothing() -> Json<Value> {
    Json(json!([]))
}

async fn no_trace() -> AdkError {
    AdkError::new(StatusCode::NOT_FOUND, json!("Trace not found"))
}

async fn no_eval_sets() -> Json<Value> {
    Json(json!({"evalSetIds": []}))
}

async fn no_metrics() -> AdkError {
    AdkError::new(StatusCode::BAD_REQUEST, json!("evaluation is not part of this server; `adk eval` does it"))
}

/// Whether the interface tells its makers of its use: never from here.
async fn telemetry() -> Json<Value> {
    Json(json!({"telemetry": false}))
}

/// The same, whatever is wished for.
async fn set_telemetry(headers: HeaderMap) -> Result<Json<Value>, AdkError> {
    if headers.get("x-adk-telemetry-request").is_none_or(|value| value != "true") {
        let detail = "Forbidden: missing required security header";
        return Err(AdkError::new(StatusCode::BAD_REQUEST, json!(detail)));
    }
    Ok(telemetry().await)
}

/// What older versions of the interface ask for: a logo of one's own.
pub(super) async fn logo() -> Json<Value> {
    Json(json!({"logo_text": null, "logo_image_url": null}))
}
