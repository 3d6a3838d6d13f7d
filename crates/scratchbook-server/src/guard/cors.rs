//! CORS headers, as `adk api_server` sends them.

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::Origins;

const METHODS: &str = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY";
/// The headers of an answer that scripts of allowed origins can read, besides those that every script can read.
const EXPOSED: &str = "scratchbook-invocation-id, x-request-id, Retry-After";
const PRIVATE_NETWORK: &str = "access-control-request-private-network";
const PREFLIGHT_VARY: &str =
    "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network";

/// Returns the answer to a preflight request; `None` for any other request.
pub(super) fn preflight(origins: &Origins, origin: &str, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let method = headers.get(ACCESS_CONTROL_REQUEST_METHOD).filter(|_| request.method() == Method::OPTIONS)?;
    let mut refused = Vec::new();
    if !origins.allow(origin) {
        refused.push("origin");
    }
    if !METHODS.split(", ").any(|name| name.as_bytes() == method.as_bytes()) {
        refused.push("method");
    }
    if headers.contains_key(PRIVATE_NETWORK) {
        refused.push("private-network");
    }
    let mut response = if refused.is_empty() {
        "OK".into_response()
    } else {
        (StatusCode::BAD_REQUEST, format!("Disallowed CORS {}", refused.join(", "))).into_response()
    };
    let answer = response.headers_mut();
    answer.insert(VARY, HeaderValue::from_static(PREFLIGHT_VARY));
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(names) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    allow(origins, origin, answer);
    Some(response)
}

/// Adds the headers to an answer that is not a preflight's.
pub(super) fn mark(origins: &Origins, origin: Option<&str>, headers: &mut HeaderMap) {
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        allow(origins, origin, headers);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}

fn allow(origins: &Origins, origin: &str, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    if let Some(origin) = HeaderValue::from_str(origin).ok().filter(|_| origins.allow(origin)) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
}
