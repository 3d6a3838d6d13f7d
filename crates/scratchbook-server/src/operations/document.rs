//! Health in the document.
#![expect(dead_code, reason = "the document alone reads these")]

use std::collections::HashMap;

use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa::{OpenApi as _, ToSchema};

/// The part of the document that this is.
const SERVER: &str = "Server";

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(health, ready),
    tags((name = SERVER, description = "Whether the server is there and can work; for everybody."))
)]
struct Parts;

/// The part of the document.
pub(crate) fn document() -> OpenApi {
    Parts::openapi()
}

/// The health of a server.
#[derive(ToSchema)]
#[schema(example = json!({"status": "ready"}))]
struct Health {
    /// `ok` or `ready`; otherwise `unavailable`.
    status: String,
    /// What is wrong with the store.
    #[schema(required = false)]
    store: HashMap<String, Value>,
}

/// Whether the server is up.
#[utoipa::path(
    get, path = "/health", operation_id = "health", tag = SERVER,
    responses((status = 200, description = "It is.", body = Health))
)]
fn health() {}

/// Whether requests can be served, which needs the store.
#[utoipa::path(
    get, path = "/health/ready", operation_id = "ready", tag = SERVER,
    responses(
        (status = 200, description = "They can.", body = Health),
        (status = 503, description = "They cannot.", body = Health),
    )
)]
fn ready() {}
