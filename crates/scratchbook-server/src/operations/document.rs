//! The health checks in the OpenAPI document.
#![expect(dead_code, reason = "the document alone reads these")]

use std::collections::HashMap;

use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa::{OpenApi as _, ToSchema};

/// The name of this part of the document.
const SERVER: &str = "Server";

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(health, ready),
    tags((name = SERVER, description = "Health checks. They need no token."))
)]
struct OperationsDocument;

/// The part of the OpenAPI document for the health checks.
pub(crate) fn document() -> OpenApi {
    OperationsDocument::openapi()
}

/// The health of a server.
#[derive(ToSchema)]
#[schema(example = json!({"status": "ready"}))]
struct Health {
    /// `ok` or `ready` if the server works, otherwise `unavailable`.
    status: String,
    /// The problem with the store. Absent if there is none.
    #[schema(required = false)]
    store: HashMap<String, Value>,
    /// What does not work although the server is ready: connections that cannot be made while others work. Absent if
    /// there is nothing.
    #[schema(required = false)]
    degraded: Vec<String>,
}

/// Check whether the server is running.
#[utoipa::path(
    get, path = "/health", operation_id = "health", tag = SERVER,
    responses((status = 200, description = "The server is running.", body = Health))
)]
fn health() {}

/// Check whether the server and its store can answer requests: the store is read, commits a write, and had room for
/// most of the last 20 writes.
#[utoipa::path(
    get, path = "/health/ready", operation_id = "ready", tag = SERVER,
    responses(
        (status = 200, description = "The server and its store are ready.", body = Health),
        (status = 503, description = "The store cannot be read or written, or has no room.", body = Health),
    )
)]
fn ready() {}
