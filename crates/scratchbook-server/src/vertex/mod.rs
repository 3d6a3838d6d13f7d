//! Vertex AI's surface: the routes of Agent Engine Sessions, for Google's own clients.
//!
//! An engine is an app: its id is the app's name. Project and location stand in names alone. A path names a session
//! without its user, so that ids of sessions that are made here are unique within an app; a caller that is held to a
//! user reaches that user's sessions, as if there were no others.

mod created;
mod document;
mod error;
mod event_list;
mod events;
mod expiry;
mod filter;
mod list;
mod operation;
mod page_token;
mod params;
mod place;
mod sessions;
mod times;
mod update;

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::routing::{any, get};

use crate::served::Served;

pub(crate) use document::document;
pub(crate) use error::GoogleError;

/// How paths begin that are of this surface: each is a folder of its own.
const FOLDERS: [&str; 3] = ["/v1beta1", "/v1/projects", "/v1/reasoningEngines"];

/// The routes, of both versions, with project and location and without.
pub(crate) fn routes() -> Router<Arc<Served>> {
    let in_project = || Router::new().nest("/{project}/locations/{location}/reasoningEngines", engines());
    let closed =
        |routes: Router<Arc<Served>>| routes.fallback(error::no_route).method_not_allowed_fallback(error::no_route);
    let beta = Router::new().nest("/projects", in_project()).nest("/reasoningEngines", engines());
    let routes = Router::new()
        .nest("/v1beta1", closed(beta))
        .nest("/v1/projects", closed(in_project()))
        .nest("/v1/reasoningEngines", closed(engines()));
    // What is nested does not have these.
    FOLDERS.iter().fold(routes, |routes, folder| routes.route(&format!("{folder}/"), any(error::no_route)))
}

/// Whether a path is of this surface, be there a route for it or not.
pub(crate) fn serves(path: &str) -> bool {
    FOLDERS.iter().any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Whether a request to a route goes through a list to find what it wants, and so may read much to say little: events by
/// their times; sessions by something else than their user, or in the order in which they were made.
pub(crate) fn searches(route: &str, uri: &Uri) -> bool {
    let is_of_events = route.ends_with("/{app}/sessions/{session}/events");
    if !serves(uri.path()) || !(is_of_events || route.ends_with("/{app}/sessions")) {
        return false;
    }
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| match &*name {
        "filter" if is_of_events => !value.is_empty(),
        "filter" => ["labels", "display_name", "displayName"].iter().any(|field| value.contains(field)),
        "orderBy" | "order_by" => !is_of_events && value.contains("create"),
        _ => false,
    })
}

fn engines() -> Router<Arc<Served>> {
    Router::new()
        .route("/{app}/sessions", get(list::list).post(sessions::create))
        .route(
            "/{app}/sessions/{session}",
            // What is posted to a session is `SESSION:appendEvent`.
            get(sessions::get).patch(update::update).delete(sessions::delete).post(events::append),
        )
        .route("/{app}/sessions/{session}/events", get(events::list))
        .route("/{app}/sessions/{session}/operations/{operation}", get(sessions::operation))
}
