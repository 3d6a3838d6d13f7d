//! The surfaces of the server, their paths, and the layer that hides the surfaces that are switched off.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::headers;

/// An API of the server, for one kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Surface {
    /// The routes of `adk api_server`, and ADK's dev interface.
    Adk,
    /// This project's own API below `/v1`.
    V1,
    /// Agent Engine Sessions of Vertex AI.
    Vertex,
}

/// The path of the inspector's first page. All its pages are below this path.
pub(crate) const INSPECTOR: &str = "/inspector";

/// The paths that belong to no surface: health and metrics, the documents of the API, and the login of browsers. The
/// paths of the inspector belong to no surface either.
const OF_NONE: [&str; 7] = ["/health", "/health/ready", "/metrics", "/docs", "/openapi.json", "/login", "/logout"];

/// The path prefixes of Vertex AI's surface.
pub(crate) const VERTEX: [&str; 3] = ["/v1beta1", "/v1/projects", "/v1/reasoningEngines"];

impl Surface {
    /// All surfaces.
    pub const ALL: [Self; 3] = [Self::Adk, Self::V1, Self::Vertex];

    /// Returns the surface of a path, whether or not there is a route for it.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if OF_NONE.contains(&path) || is_of_inspector(path) {
            None
        } else if VERTEX.iter().any(|folder| is_below(path, folder)) {
            Some(Self::Vertex)
        } else if is_below(path, "/v1") {
            Some(Self::V1)
        } else {
            Some(Self::Adk)
        }
    }
}

/// Returns whether a path belongs to the inspector.
pub(crate) fn is_of_inspector(path: &str) -> bool {
    is_below(path, INSPECTOR)
}

/// Returns whether a person opens the server's address in a browser.
fn is_entered(request: &Request) -> bool {
    request.method() == Method::GET && request.uri().path() == "/" && headers::take_pages(request.headers())
}

/// Returns whether a path is this folder or something in it.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers 404 to requests for a surface that is switched off, whatever the caller.
pub(crate) async fn check(State(surfaces): State<Arc<[Surface]>>, request: Request, next: Next) -> Response {
    match Surface::of(request.uri().path()) {
        Some(surface) if !surfaces.contains(&surface) && !is_entered(&request) => {
            (StatusCode::NOT_FOUND, [(CONTENT_TYPE, "text/plain; charset=utf-8")], "Not Found").into_response()
        }
        _ => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_of_one_surface() {
        for (path, surface) in [
            ("/health", None),
            ("/health/ready", None),
            ("/metrics", None),
            ("/v1", Some(Surface::V1)),
            ("/v1/apps/a/users/b/sessions", Some(Surface::V1)),
            ("/docs", None),
            ("/openapi.json", None),
            ("/login", None),
            ("/logout", None),
            ("/v1/projects/p/locations/l/reasoningEngines/1/sessions", Some(Surface::Vertex)),
            ("/v1/reasoningEngines/1/sessions", Some(Surface::Vertex)),
            ("/v1beta1", Some(Surface::Vertex)),
            ("/v10", Some(Surface::Adk)),
            ("/list-apps", Some(Surface::Adk)),
            ("/apps/a/users/b/sessions", Some(Surface::Adk)),
            ("/dev-ui/", Some(Surface::Adk)),
            ("/", Some(Surface::Adk)),
            ("/inspector", None),
            ("/inspector/apps/a", None),
            ("/inspectors", Some(Surface::Adk)),
        ] {
            assert_eq!(Surface::of(path), surface, "{path}");
        }
    }
}
