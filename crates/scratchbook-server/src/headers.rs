//! What browsers are told of every answer.

use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

/// Marks answers: nothing is to be taken for what it does not say it is, what a person's agents said is to be kept by
/// nobody on the way, and no foreign page is to show a page of this server as a part of its own.
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

fn is_of(headers: &HeaderMap, kind: &str) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|found| found.as_bytes().starts_with(kind.as_bytes()))
}
