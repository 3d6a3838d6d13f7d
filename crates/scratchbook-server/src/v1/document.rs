//! The OpenAPI document of `/v1`, made of its routes.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

use super::error::ErrorBody;
use super::{ARTIFACTS, EVENTS, FEEDS, RUNS, SESSIONS, STATE, TIME, UPKEEP, USERS, api};
use crate::served::Served;

/// What the routes do not say themselves.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "scratchbook",
        description = "Durable sessions and scoped state for AI agents: what goes beyond ADK's API. Names in paths are \
            percent-encoded. Times are in seconds since 1970, sizes in bytes. Numbers come back exactly as they went in, \
            or are refused: integers are of 64 bits. Unknown fields and parameters are refused; those of an event itself, \
            beside its actions and its content, are kept with it. With an event's id a write is safe to be sent again; where an answer got lost, do so. \
            Beside these routes the server has ADK's own, as `adk api_server` has them: `/list-apps`, `/run`, \
            `/run_sse`, `/apps/...`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
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
struct About;

/// How tokens are sent, by its name in the document.
const BEARER: &str = "token";

/// The document, as JSON.
pub(super) static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let router: OpenApiRouter<std::sync::Arc<Served>> = OpenApiRouter::with_openapi(About::openapi());
    let mut document = router.nest("/v1", api()).into_openapi();
    let bearer = SecurityScheme::Http(Http::builder().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme(BEARER, bearer);
    // A server for one's own machine asks for none.
    document.security =
        Some(vec![SecurityRequirement::default(), SecurityRequirement::new(BEARER, Vec::<String>::new())]);
    // The document is ours, and has text for keys: it can be written.
    serde_json::to_vec(&document).unwrap_or_default().into()
});

pub(super) async fn get() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}
