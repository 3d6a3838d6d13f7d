//! Answers requests for unknown paths, and for methods that a path does not support.

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;
use tower::ServiceExt;

use super::AdkError;
use crate::app_state::AppState;
use crate::surface::INSPECTOR;

/// Knows which paths exist, and answers requests to any other path.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// The routes, with handlers that only report that the route exists.
    known: Router,
}

impl Paths {
    pub(crate) fn new(routes: Router<AppState>, app_state: AppState) -> Self {
        let found = middleware::from_fn(async |_: Request, _: Next| StatusCode::OK);
        Self { known: routes.route_layer(found).with_state(app_state) }
    }

    /// Answers a request to a path without a route. As in ADK, a path that differs from a route only by slashes at its
    /// end is redirected, whatever the method.
    pub(crate) async fn not_found(self, request: Request) -> Response {
        let (parts, _) = request.into_parts();
        match location(&parts) {
            Some(location) if self.knows(parts.uri.path().trim_end_matches('/')).await => {
                (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response()
            }
            _ => AdkError::not_found().into_response(),
        }
    }

    async fn knows(self, path: &str) -> bool {
        let Ok(probe) = Request::get(path).body(Body::empty()) else { return false };
        let Ok(found) = self.known.oneshot(probe).await;
        found.status() != StatusCode::NOT_FOUND
    }
}

/// Returns the requested path without the slashes at its end, with the query; `None` if it does not end with a slash.
fn location(parts: &Parts) -> Option<HeaderValue> {
    let path = parts.uri.path().strip_suffix('/')?.trim_end_matches('/');
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    HeaderValue::try_from(format!("{path}{query}")).ok()
}

/// Answers a request to `/` by a client that is no browser. As in ADK, the status is 404. The answer also names the page
/// that describes the API and, if it is served, the inspector.
pub(crate) fn nothing_at_root(has_inspector: bool) -> Response {
    let mut body = json!({"detail": "Not Found", "docs": "/docs"});
    if has_inspector {
        body["inspector"] = INSPECTOR.into();
    }
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

/// Refuses HEAD, which axum would answer as GET.
pub(super) async fn no_head(path: MatchedPath, request: Request, next: Next) -> Response {
    match *request.method() {
        Method::HEAD => method_not_allowed(path).await,
        _ => next.run(request).await,
    }
}

/// Answers a request with a method that the path does not support. `Allow` names the methods of the path's first route
/// in ADK.
pub(crate) async fn method_not_allowed(path: MatchedPath) -> Response {
    let first = match path.as_str().rsplit('/').next() {
        Some("run" | "run_sse" | "artifacts") => "POST",
        Some("memory") => "PATCH",
        _ => "GET",
    };
    let error = AdkError::new(StatusCode::METHOD_NOT_ALLOWED, json!("Method Not Allowed"));
    ([(header::ALLOW, first)], error).into_response()
}
