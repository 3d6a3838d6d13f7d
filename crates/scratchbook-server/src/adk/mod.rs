//! ADK's surface: the routes of `adk api_server` of google-adk 2.13.0, with its bodies and its errors.

mod apps;
mod artifact_path;
mod artifacts;
mod body;
mod caller;
mod document;
mod error;
mod idempotency;
mod live;
mod memory;
mod paths;
mod python_json;
mod restore;
mod run;
mod session_json;
mod sessions;
mod shape;

use axum::routing::{get, patch, post};
use axum::{Router, middleware};

use crate::app_state::AppState;

pub(crate) use apps::no_app;
pub(crate) use document::document;
pub(crate) use error::AdkError;
pub(crate) use paths::{Paths, method_not_allowed, nothing_at_root};
pub(crate) use shape::hide_internal;

/// Returns the routes.
pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/health", get(apps::health))
        .route("/version", get(apps::version))
        .route("/list-apps", get(apps::list))
        .route("/run", post(run::run))
        .route("/run_sse", post(run::run_sse))
        .route("/run_live", get(live::live))
        .route("/apps/{app}/app-info", get(apps::info))
        .route("/apps/{app}/users/{user}/memory", patch(memory::update))
        .route("/apps/{app}/users/{user}/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/apps/{app}/users/{user}/sessions/{session}",
            get(sessions::get).post(sessions::create_with_id).patch(sessions::update).delete(sessions::delete),
        )
        .merge(artifacts::routes())
        // These two apply to all routes above them.
        .method_not_allowed_fallback(paths::method_not_allowed)
        .route_layer(middleware::from_fn(paths::no_head))
}
