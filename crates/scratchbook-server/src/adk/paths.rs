//! Paths that no route is for, and methods that a path does not have.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, OriginalUri, Request};
use axum::http::request::Parts;
use axum::http::uri::Scheme;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tower::ServiceExt;

use super::AdkError;
use crate::served::Served;

/// Knows which paths there are, and what to say of others.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// The routes, none of which does anything: all say that they are there.
    known: Router,
}

impl Paths {
    pub(crate) fn new(routes: Router<Arc<Served>>, served: Arc<Served>) -> Self {
        let found = middleware::from_fn(async |_: Request, _: Next| StatusCode::OK);
        Self { known: routes.route_layer(found).with_state(served) }
    }

    /// What answers where there is no route. A path that is one but for slashes at its end is sent on, as ADK does,
    /// whatever the method.
    pub(crate) async fn not_found(self, request: Request) -> Response {
        let (parts, _) = request.into_parts();
        let (mut known, mut probe) = (self.known, Request::new(Body::empty()));
        let Some(path) = parts.uri.path().strip_suffix('/').map(|path| path.trim_end_matches('/')) else {
            return AdkError::not_found().into_response();
        };
        let Ok(uri) = path.parse() else { return AdkError::not_found().into_response() };
        *probe.uri_mut() = uri;
        let Ok(found) = known.as_service().oneshot(probe).await;
        match location(&parts).filter(|_| found.status() != StatusCode::NOT_FOUND) {
            Some(location) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response(),
            None => AdkError::not_found().into_response(),
        }
    }
}

/// The address that was asked for, without the slashes at the end of its path.
fn location(parts: &Parts) -> Option<HeaderValue> {
    let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
    let (path, query) = (uri.path().trim_end_matches('/'), uri.query().map(|query| format!("?{query}")));
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| Some(uri.authority()?.as_str()));
    // Where it is served by TLS, what accepts the connection says so.
    let scheme = parts.extensions.get::<Scheme>().or(uri.scheme()).map_or("http", Scheme::as_str);
    let origin = host.map(|host| format!("{scheme}://{host}"));
    HeaderValue::try_from([origin.unwrap_or_default().as_str(), path, query.unwrap_or_default().as_str()].concat()).ok()
}

/// Refuses HEAD, which axum would answer as GET.
pub(super) async fn no_head(path: MatchedPath, request: Request, next: Next) -> Response {
    match *request.method() {
        Method::HEAD => method_not_allowed(path).await,
        _ => next.run(request).await,
    }
}

/// What answers where a path has no such method. Named are the methods of the route that comes first in ADK.
pub(crate) async fn method_not_allowed(path: MatchedPath) -> Response {
    let first = match path.as_str().rsplit('/').next() {
        Some("run" | "run_sse" | "artifacts") => "POST",
        Some("memory") => "PATCH",
        _ => "GET",
    };
    let error = AdkError::new(StatusCode::METHOD_NOT_ALLOWED, json!("Method Not Allowed"));
    ([(header::ALLOW, first)], error).into_response()
}
