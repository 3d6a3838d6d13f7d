//! The API key that Google's clients send in place of a token.

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use crate::surface::Surface;

/// The header that contains the key.
const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Uses the API key of a request to this surface as its token, if the request has no other token.
pub(crate) async fn take_api_key(mut request: Request, next: Next) -> Response {
    if Surface::of(request.uri().path()) == Some(Surface::Vertex) {
        key_to_token(request.headers_mut());
    }
    next.run(request).await
}

fn key_to_token(headers: &mut HeaderMap) {
    if headers.get_all(API_KEY).iter().count() > 1 {
        return;
    }
    let Some(key) = headers.remove(API_KEY) else { return };
    let token = HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()).ok();
    if let Some(token) = token.filter(|_| !headers.contains_key(AUTHORIZATION)) {
        headers.insert(AUTHORIZATION, token);
    }
}
