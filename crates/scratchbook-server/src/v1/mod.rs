//! Our own surface: what sessions, state and runs can do beyond ADK's words.

mod error;
mod runs;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::served::Served;

pub(crate) use error::ApiError;

/// The routes, below `/v1`.
pub(crate) fn routes() -> Router<Arc<Served>> {
    Router::new()
        .route("/apps/{app}/users/{user}/sessions/{session}", get(sessions::get))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs", post(runs::start).get(runs::list))
        .route("/apps/{app}/users/{user}/sessions/{session}/runs/{invocation}", get(runs::resume).delete(runs::cancel))
}
