//! The headers for browsers, which are added to every answer, and the header by which browsers are recognized.

use axum::extract::Request;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

/// Adds headers that prevent browsers from sniffing content types, from caching JSON and streams, and from showing
/// pages of this server in frames of foreign pages.
pub(crate) async fn mark(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let is = |kind| is_of(headers, kind);
    if is("application/json") || is("text/event-stream") {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    } else if is("text/html") {
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    }
    response
}

/// Returns whether a client shows pages to a person.
pub(crate) fn take_pages(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|takes| takes.contains("text/html"))
}

fn is_of(headers: &HeaderMap, kind: &str) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|found| found.as_bytes().starts_with(kind.as_bytes()))
}
