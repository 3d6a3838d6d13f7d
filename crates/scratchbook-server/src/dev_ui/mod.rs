//! ADK's dev interface: the unchanged files of the Python package `google-adk`, and the routes that the interface needs
//! besides ADK's API.
//!
//! The files are not part of this project; the server gets the path of their folder. Without the folder, none of these
//! routes exists.

mod graph;
mod handlers;
mod traces;

use axum::Json;
use axum::Router;
use axum::handler::HandlerWithoutStateExt;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, LOCATION};
use axum::response::IntoResponse;
use axum::routing::get;
use scratchbook::{Error, Result};
use serde_json::json;
use std::path::PathBuf;
use tower_http::services::ServeDir;

use crate::adk::{AdkError, method_not_allowed};
use crate::app_state::AppState;
use crate::url_prefix::UrlPrefix;

/// The files of the interface.
#[derive(Clone, Debug)]
pub(crate) struct DevUi {
    folder: PathBuf,
}

impl DevUi {
    /// # Errors
    ///
    /// `InvalidArgument` if the folder holds no interface.
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        if folder.join("index.html").is_file() {
            return Ok(Self { folder });
        }
        Err(Error::invalid(format!(
            "'{}' holds no dev interface, for there is no index.html in it; give the folder that the Python package \
             google-adk has it in: python3 -c \"import google.adk.cli, os; \
             print(os.path.join(os.path.dirname(google.adk.cli.__file__), 'browser'))\"",
            folder.display()
        )))
    }

    /// Returns the routes.
    pub(crate) fn routes(&self, prefix: &UrlPrefix) -> Router<AppState> {
        let files = ServeDir::new(&self.folder).not_found_service(not_found.into_service());
        // The API is on this server, and the interface reports its use to nobody.
        let config = json!({"backendUrl": prefix.as_str(), "telemetry": false});
        let config = ([(CACHE_CONTROL, "no-store")], Json(config));
        let interface = Router::new()
            .route("/assets/config/runtime-config.json", get(async move || config.clone()))
            .route("/config", get(handlers::logo))
            .fallback_service(files);
        Router::new()
            .route("/", get(to_interface))
            .route("/dev-ui", get(to_interface))
            .nest("/dev-ui/", interface)
            .merge(handlers::routes())
            .method_not_allowed_fallback(method_not_allowed)
    }
}

async fn not_found() -> AdkError {
    AdkError::not_found()
}

async fn to_interface() -> impl IntoResponse {
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/dev-ui/"), (CONTENT_LENGTH, "0")])
}
