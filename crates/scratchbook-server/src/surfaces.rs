//! The surfaces of the server, and those that are switched off.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::served::Served;
use crate::vertex;

/// What one kind of clients speaks to.
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

/// What is of no surface: what says that the server is there and can work, and how; what describes all that is served; and
/// the login of browsers.
const OF_NONE: [&str; 7] = ["/health", "/health/ready", "/metrics", "/docs", "/openapi.json", "/login", "/logout"];

impl Surface {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Adk, Self::V1, Self::Vertex];

    /// The surface that a path is of, be there a route for it or not.
    fn of(path: &str) -> Option<Self> {
        if OF_NONE.contains(&path) {
            None
        } else if vertex::serves(path) {
            Some(Self::Vertex)
        } else if path == "/v1" || path.starts_with("/v1/") {
            Some(Self::V1)
        } else {
            Some(Self::Adk)
        }
    }
}

/// Answers what is of a surface that is off: as if the server did not know it, for every caller.
pub(crate) async fn check(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    match Surface::of(request.uri().path()) {
        Some(surface) if !served.surfaces.contains(&surface) => {
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
        ] {
            assert_eq!(Surface::of(path), surface, "{path}");
        }
    }
}
