//! Refusals by layers. A layer does not know the form in which the requested surface returns errors.
//!
//! A layer answers with a [`RefusedRequest`], which carries the error through the outer layers. The outermost layer,
//! `wording.rs`, replaces the refusal by an error in the form of the surface.

use std::sync::Arc;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use scratchbook::Error;

use crate::public_error::status_of;

/// The refusal of a request, before it is written in the form of its surface.
#[derive(Debug)]
pub(crate) struct RefusedRequest {
    pub(crate) error: Error,
    /// The status of the answer, if it differs from the status of the error's kind.
    pub(crate) status: Option<StatusCode>,
}

impl RefusedRequest {
    /// Returns a refusal with a status other than the usual status of the error's kind.
    pub(crate) fn with_status(status: StatusCode, error: Error) -> Self {
        Self { error, status: Some(status) }
    }

    /// Takes the refusal out of a response; `None` if the response is no refusal.
    pub(crate) fn take(response: &mut Response) -> Option<Self> {
        response.extensions_mut().remove::<Arc<Self>>().and_then(Arc::into_inner)
    }

    /// Returns a refusal after which the client may soon retry.
    pub(crate) fn retry_soon(self) -> Response {
        let mut response = self.into_response();
        retry_soon(&mut response);
        response
    }
}

impl From<Error> for RefusedRequest {
    fn from(error: Error) -> Self {
        Self { error, status: None }
    }
}

impl IntoResponse for RefusedRequest {
    /// Returns a response with the right status and no body. Layers can add headers and read the status, as with any
    /// response.
    fn into_response(self) -> Response {
        let mut response = self.status.unwrap_or_else(|| status_of(self.error.public_kind())).into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// The number of seconds after which a client may retry a request that was refused temporarily.
const SOON: HeaderValue = HeaderValue::from_static("1");

/// Adds `Retry-After` to a response that has none.
pub(crate) fn retry_soon(response: &mut Response) {
    response.headers_mut().entry(RETRY_AFTER).or_insert(SOON);
}
