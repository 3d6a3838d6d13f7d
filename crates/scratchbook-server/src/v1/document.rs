//! The part of the OpenAPI document for `/v1`, made from its routes.

use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::error::ErrorBody;
use super::{ARTIFACTS, EVENTS, FEEDS, RUNS, SESSIONS, STATE, TIME, UPKEEP, USERS, api};
use crate::app_state::AppState;

/// The parts that the routes do not define themselves.
#[derive(utoipa::OpenApi)]
#[openapi(
    components(schemas(ErrorBody)),
    tags(
        (name = SESSIONS, description = "Create, read, find, change, fork, rewind and delete sessions."),
        (name = EVENTS, description = "Append and read events."),
        (name = STATE, description = "Read and change the state of a session, a user or an app. Operations such as \
            `increment` are carried out in the commit. A guard refuses the commit if a key does not have the \
            expected value."),
        (name = TIME, description = "Read the past: the differences between two events, the writer of each key, and \
            the history of a key."),
        (name = FEEDS, description = "Read commits page by page, or follow them as a stream, without gaps and without \
            duplicates."),
        (name = RUNS, description = "Start, follow and cancel runs of agents."),
        (name = ARTIFACTS, description = "Named, versioned data of a session, or of a user if the name begins with `user:`."),
        (name = USERS, description = "List the users of an app, and erase all data of a user."),
        (name = UPKEEP, description = "Verify stored data, prune events and logs, and delete expired sessions.")
    )
)]
struct V1Document;

/// The part of the document.
pub(crate) fn document() -> OpenApi {
    let router: OpenApiRouter<AppState> = OpenApiRouter::with_openapi(V1Document::openapi());
    router.nest("/v1", api()).into_openapi()
}
