//! Vertex AI's surface: the routes of Agent Engine Sessions, for Google's own clients.
//!
//! An engine is an app: its id is the app's name. Project and location only appear in names. A path names a session
//! without its user, so the ids of sessions that are created here are unique within an app. A caller that is restricted
//! to a user reaches that user's sessions as if there were no others.

mod api_key;
mod created;
mod document;
mod error;
mod event_list;
mod events;
mod expiry;
pub mod filter;
mod list;
mod operation;
pub mod page_token;
mod params;
mod resource_name;
mod sessions;
mod times;
mod update;

use axum::Router;
use axum::routing::{any, get};

use crate::app_state::AppState;
use crate::surface::VERTEX;

pub(crate) use api_key::take_api_key;
pub(crate) use document::document;
pub(crate) use error::GoogleError;

/// Returns the routes of both versions, with and without project and location.
pub(crate) fn routes() -> Router<AppState> {
    let in_project = || Router::new().nest("/{project}/locations/{location}/reasoningEngines", engines());
    let closed =
        |routes: Router<AppState>| routes.fallback(error::no_route).method_not_allowed_fallback(error::no_route);
    let beta = Router::new().nest("/projects", in_project()).nest("/reasoningEngines", engines());
    let routes = Router::new()
        .nest("/v1beta1", closed(beta))
        .nest("/v1/projects", closed(in_project()))
        .nest("/v1/reasoningEngines", closed(engines()));
    // Nested routes do not inherit the fallbacks.
    VERTEX.iter().fold(routes, |routes, folder| routes.route(&format!("{folder}/"), any(error::no_route)))
}

fn engines() -> Router<AppState> {
    Router::new()
        .route("/{app}/sessions", get(list::list).post(sessions::create))
        .route(
            "/{app}/sessions/{session}",
            // The only POST to a session is `SESSION:appendEvent`.
            get(sessions::get).patch(update::update).delete(sessions::delete).post(events::append),
        )
        .route("/{app}/sessions/{session}/events", get(events::list))
        .route("/{app}/sessions/{session}/operations/{operation}", get(sessions::operation))
}
