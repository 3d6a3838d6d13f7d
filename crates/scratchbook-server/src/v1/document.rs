//! `/v1` in the document, made of its routes.

use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::error::ErrorBody;
use super::{ARTIFACTS, EVENTS, FEEDS, RUNS, SESSIONS, STATE, TIME, UPKEEP, USERS, api};
use crate::app_state::AppState;

/// What the routes do not say themselves.
#[derive(utoipa::OpenApi)]
#[openapi(
    components(schemas(ErrorBody)),
    tags(
        (name = SESSIONS, description = "Make, read, find, change, fork, rewind and delete sessions."),
        (name = EVENTS, description = "Append events, and read them."),
        (name = STATE, description = "State by scope: of a session, a user, an app. Operations count, guards refuse."),
        (name = TIME, description = "What was: differences, who wrote what, what was done to a key."),
        (name = FEEDS, description = "What is committed, page by page or as it comes: no gap, nothing twice."),
        (name = RUNS, description = "Begin runs of agents, follow them, cancel them."),
        (name = ARTIFACTS, description = "Named, versioned data of a session or, with `user:` before the name, of a user."),
        (name = USERS, description = "Who the users of an app are, and an end to all that is known of one."),
        (name = UPKEEP, description = "Is what is stored what was committed, and what of it may go.")
    )
)]
struct Parts;

/// The part of the document.
pub(crate) fn document() -> OpenApi {
    let router: OpenApiRouter<AppState> = OpenApiRouter::with_openapi(Parts::openapi());
    router.nest("/v1", api()).into_openapi()
}
