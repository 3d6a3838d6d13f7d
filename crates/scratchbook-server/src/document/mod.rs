//! The OpenAPI document of all routes, and a page that shows it.
//!
//! Each surface makes its part: `/v1` from its routes, the others in a file `document.rs` beside their routes. A test
//! checks that no route is missing.

mod page;

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};

use crate::surface::Surface;
use crate::url_prefix::{OwnHtml, UrlPrefix};
use crate::{adk, operations, v1, vertex};

/// The text of the document that belongs to no part.
#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "scratchbook",
    description = "Durable sessions and scoped state for AI agents. The server has three APIs: the API of \
            google-adk's `adk api_server`, its own API under `/v1`, and the API of Vertex AI's Agent Engine \
            Sessions. Names in paths are percent-encoded. Times are in seconds since 1970, and sizes are in \
            bytes. Integers have 64 bits, and a number that could not be returned exactly is refused. `/v1` \
            refuses unknown fields and parameters; only unknown fields of an event itself are accepted, and they \
            are stored. If the response to a write is lost and the write names an event id, it can safely be \
            sent again.",
    license(name = "Apache-2.0", identifier = "Apache-2.0")
))]
struct DocumentBase;

/// The name that the document gives to the scheme by which tokens are sent.
const BEARER: &str = "token";

/// The document and its page, which are made at the first request.
#[derive(Debug)]
pub(crate) struct Documents {
    surfaces: Arc<[Surface]>,
    prefix: UrlPrefix,
    json: OnceLock<Bytes>,
    page: OnceLock<Bytes>,
}

/// The routes.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(documents: &Arc<Documents>) -> Router<S> {
    Router::new().route("/openapi.json", get(json)).route("/docs", get(page)).with_state(Arc::clone(documents))
}

async fn json(State(documents): State<Arc<Documents>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], documents.json())
}

async fn page(State(documents): State<Arc<Documents>>) -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, page::POLICY)];
    (Extension(OwnHtml::Page), headers, documents.page())
}

impl Documents {
    pub(crate) fn new(surfaces: Arc<[Surface]>, prefix: UrlPrefix) -> Self {
        Self { surfaces, prefix, json: OnceLock::new(), page: OnceLock::new() }
    }

    fn json(&self) -> Bytes {
        // Our own document has strings as keys, so writing it cannot fail.
        let render = || {
            let mut document = document(&self.surfaces);
            // A relative address counts from the address of the document.
            let root = if self.prefix.as_str().is_empty() { "." } else { self.prefix.as_str() };
            document.servers = Some(vec![utoipa::openapi::Server::new(root)]);
            serde_json::to_vec(&document).unwrap_or_default().into()
        };
        self.json.get_or_init(render).clone()
    }

    fn page(&self) -> Bytes {
        let render = || {
            // The text is our own JSON, so reading it cannot fail.
            let document = serde_json::from_slice(&self.json()).unwrap_or_default();
            page::page(&document).into_string().into()
        };
        self.page.get_or_init(render).clone()
    }
}

/// The document of a server with these surfaces.
fn document(surfaces: &[Surface]) -> OpenApi {
    let mut document = DocumentBase::openapi();
    // The page shows the surfaces in this order, whatever order they were given in.
    for surface in [Surface::Adk, Surface::V1, Surface::Vertex].iter().filter(|surface| surfaces.contains(surface)) {
        document.merge(match surface {
            Surface::V1 => v1::document(),
            Surface::Adk => adk::document(),
            Surface::Vertex => vertex::document(),
        });
    }
    document.merge(operations::document());
    let bearer = SecurityScheme::Http(Http::builder().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme(BEARER, bearer);
    // Without a login no token is needed.
    document.security =
        Some(vec![SecurityRequirement::default(), SecurityRequirement::new(BEARER, Vec::<String>::new())]);
    document
}
