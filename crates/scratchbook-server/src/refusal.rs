//! Refusals by layers, which do not know how the surface that was asked words its errors.
//!
//! A layer answers with a [`Refused`], which carries the error through the layers around it. The outermost of them,
//! `wording.rs`, replaces it by the error in the form of the surface.

use std::sync::Arc;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use scratchbook::Error;

use crate::public_error::status_of;

/// A request that was refused, before its surface has worded the answer.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// The status of the answer if it is not the one of the error's kind.
    pub(crate) status: Option<StatusCode>,
}

impl Refused {
    /// A refusal with another status than the one of the error's kind.
    pub(crate) fn with_status(status: StatusCode, error: Error) -> Self {
        Self { error, status: Some(status) }
    }

    /// Takes the refusal out of a response; `None` if the response is no refusal.
    pub(crate) fn take(response: &mut Response) -> Option<Self> {
        response.extensions_mut().remove::<Arc<Self>>().and_then(Arc::into_inner)
    }

    /// The refusal of a request that the client may send again in a moment.
    pub(crate) fn retry_soon(self) -> Response {
        let mut response = self.into_response();
        retry_soon(&mut response);
        response
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, status: None }
    }
}

impl IntoResponse for Refused {
    /// A response with the right status and no body. Layers add headers to it and read its status as those of any other.
    fn into_response(self) -> Response {
        let mut response = self.status.unwrap_or_else(|| status_of(self.error.public_kind())).into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// The number of seconds after which a client may repeat a request that was refused temporarily.
const SOON: HeaderValue = HeaderValue::from_static("1");

/// Adds `Retry-After` to a response that has none.
pub(crate) fn retry_soon(response: &mut Response) {
    response.headers_mut().entry(RETRY_AFTER).or_insert(SOON);
}
