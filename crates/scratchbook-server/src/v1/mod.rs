//! Our own HTTP API: the features of sessions, state and runs that ADK's API lacks.
//!
//! `#[utoipa::path]` before each handler defines a route and its part of the OpenAPI document. The router and the
//! document are built from these definitions. The fields of a body are those of the type into which the body is read.

mod artifacts;
mod branch;
mod document;
mod error;
mod events;
mod feeds;
mod listing;
mod past;
mod request;
mod runs;
mod sessions;
mod shape;
mod shared_state;
mod state;
mod upkeep;
mod users;
mod watch;

use axum::routing::any;
use axum::{Json, Router};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app_state::AppState;
use crate::scope;

pub(crate) use document::document;
pub(crate) use error::ApiError;

// The parts of the document, in their order.
const SESSIONS: &str = "Sessions";
const EVENTS: &str = "Events";
const STATE: &str = "State";
const TIME: &str = "Time";
const FEEDS: &str = "Feeds";
const RUNS: &str = "Runs";
const ARTIFACTS: &str = "Artifacts";
const USERS: &str = "Users";
const UPKEEP: &str = "Upkeep";

// The arguments and results of handlers: scopes with their caller, and JSON or an error in our form.
type AppScope = scope::AppScope<AppState, ApiError>;
type UserScope = scope::UserScope<AppState, ApiError>;
type SessionScope = scope::SessionScope<AppState, ApiError>;
type Needs<N> = scope::Needs<N, ApiError>;
type JsonAnswer<T> = Result<Json<T>, ApiError>;

/// The routes under `/v1`.
pub(crate) fn routes() -> Router<AppState> {
    let api = Router::from(api()).fallback(error::no_route).method_not_allowed_fallback(error::no_method);
    Router::new()
        .nest("/v1", api)
        // Nested routes do not inherit this one.
        .route("/v1/", any(error::no_route))
}

/// The API with its document; paths without `/v1`.
fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(listing::of_user, sessions::create))
        .routes(routes!(listing::of_app))
        .routes(routes!(sessions::get, sessions::update, sessions::delete))
        .routes(routes!(branch::fork))
        .routes(routes!(branch::rewind))
        .routes(routes!(events::list, events::append))
        .routes(routes!(events::by_number))
        .routes(routes!(events::by_id))
        .routes(routes!(state::get, state::patch))
        .routes(routes!(state::get_key))
        .routes(routes!(shared_state::of_user, shared_state::patch_user))
        .routes(routes!(shared_state::key_of_user))
        .routes(routes!(shared_state::of_app, shared_state::patch_app))
        .routes(routes!(shared_state::key_of_app))
        .routes(routes!(past::initial))
        .routes(routes!(past::diff))
        .routes(routes!(past::blame))
        .routes(routes!(past::history))
        .routes(routes!(past::history_of_user))
        .routes(routes!(past::history_of_app))
        .routes(routes!(past::log_of_user))
        .routes(routes!(past::log_of_app))
        .routes(routes!(feeds::of_session))
        .routes(routes!(feeds::of_user))
        .routes(routes!(feeds::of_app))
        .routes(routes!(watch::session))
        .routes(routes!(watch::user))
        .routes(routes!(watch::app))
        .routes(routes!(runs::list, runs::start))
        .routes(routes!(runs::resume, runs::cancel))
        .routes(routes!(artifacts::list))
        .routes(routes!(artifacts::get, artifacts::save, artifacts::delete))
        .routes(routes!(artifacts::versions))
        .routes(routes!(users::list))
        .routes(routes!(users::erase))
        .routes(routes!(upkeep::session))
        .routes(routes!(upkeep::user))
        .routes(routes!(upkeep::app))
        .routes(routes!(upkeep::prune_session))
        .routes(routes!(upkeep::prune_user))
        .routes(routes!(upkeep::prune_app))
        .routes(routes!(upkeep::prune_expired))
}
