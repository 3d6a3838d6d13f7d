//! ADK's surface: the routes of `adk api_server` of google-adk 2.13.0, with its bodies and its errors.

mod apps;
mod artifact_path;
mod artifacts;
mod body;
mod error;
mod python_json;
mod run;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde_json::json;

use crate::served::Served;

pub(crate) use apps::no_app;
pub(crate) use error::{AdkError, status};

/// The routes.
pub(crate) fn routes() -> Router<Arc<Served>> {
    Router::new()
        .route("/health", get(apps::health))
        .route("/version", get(apps::version))
        .route("/list-apps", get(apps::list))
        .route("/run", post(run::run))
        .route("/run_sse", post(run::run_sse))
        .route("/apps/{app}/app-info", get(apps::info))
        .route("/apps/{app}/users/{user}/sessions/{session}", get(sessions::get))
        .merge(artifacts::routes())
}

/// What answers where there is no route.
pub(crate) async fn not_found() -> AdkError {
    AdkError::new(StatusCode::NOT_FOUND, json!("Not Found"))
}

/// What answers where a route has no such method.
pub(crate) async fn method_not_allowed() -> AdkError {
    AdkError::new(StatusCode::METHOD_NOT_ALLOWED, json!("Method Not Allowed"))
}
