//! What the interface asks a server for besides ADK's API: the agents as a graph, and what ADK's own server has for
//! tests, evaluation, editing and traces, of which there is none here.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use scratchbook::Agent;
use serde::Deserialize;
use serde_json::{Value, json};

use super::graph::{Theme, as_dot, as_json};
use crate::adk::AdkError;
use crate::scope::AppScope;
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
    scope: AppScope<AdkError>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&served, &scope)?;
    Ok(Json(json!({"name": scope.app_name, "root_agent": as_json(agent)})))
}

/// One picture by the path of a workflow in the app; there is the one of the whole.
async fn build_graph_image(
    State(served): State<Arc<Served>>,
    scope: AppScope<AdkError>,
    Query(query): Query<GraphQuery>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&served, &scope)?;
    Ok(Json(json!({"": {"dotSrc": as_dot(agent, query.theme())}})))
}

async fn app_graph(
    State(served): State<Arc<Served>>,
    scope: AppScope<AdkError>,
    Query(query): Query<GraphQuery>,
) -> Result<Json<Value>, AdkError> {
    let agent = agent(&served, &scope)?;
    Ok(Json(json!({"dotSrc": as_dot(agent, query.theme())})))
}

fn agent<'a>(served: &'a Served, scope: &AppScope<AdkError>) -> Result<&'a dyn Agent, AdkError> {
    let name = &scope.app_name;
    let app = served.apps.get(name);
    let app = app.ok_or_else(|| AdkError::new(StatusCode::NOT_FOUND, json!(format!("Agent not found: '{name}'."))))?;
    Ok(app.agent.as_ref())
}

/// The file that an agent was made from, which an editor could change.
async fn no_agent_file(_: AppScope<AdkError>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], "")
}

async fn nothing(_: AppScope<AdkError>) -> Json<Value> {
    Json(json!([]))
}

async fn no_trace(_: AppScope<AdkError>) -> AdkError {
    AdkError::new(StatusCode::NOT_FOUND, json!("Trace not found"))
}

async fn no_eval_sets(_: AppScope<AdkError>) -> Json<Value> {
    Json(json!({"evalSetIds": []}))
}

async fn no_metrics(_: AppScope<AdkError>) -> AdkError {
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
