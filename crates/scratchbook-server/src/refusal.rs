//! An error before a handler was reached, in the form of the surface that was asked.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use scratchbook::Error;

use crate::adk::AdkError;
use crate::v1::ApiError;
use crate::vertex::{self, GoogleError};

/// The answer to a request to this path.
pub(crate) fn of(path: &str, error: Error) -> Response {
    if vertex::serves(path) {
        GoogleError::from(error).into_response()
    } else if path == "/v1" || path.starts_with("/v1/") {
        ApiError::from(error).into_response()
    } else {
        AdkError::from(error).into_response()
    }
}

/// After how many seconds a client tries again what could not be done just now.
const SOON: HeaderValue = HeaderValue::from_static("1");

/// The answer to a request to this path that may be sent again in a moment.
pub(crate) fn for_now(path: &str, error: Error) -> Response {
    let mut response = of(path, error);
    ask_again(&mut response);
    response
}

/// Says in an answer that the request may be sent again in a moment, unless it says when already.
pub(crate) fn ask_again(response: &mut Response) {
    response.headers_mut().entry(RETRY_AFTER).or_insert(SOON);
}

/// The answer to a request to this path, with another status than its kind's.
pub(crate) fn with_status(path: &str, status: StatusCode, error: Error) -> Response {
    if vertex::serves(path) {
        // Its body has the status too.
        return GoogleError::with_code(status, &error).into_response();
    }
    let mut response = of(path, error);
    *response.status_mut() = status;
    response
}
