//! An error before a handler was reached, in the form of the surface that was asked.

use axum::http::StatusCode;
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
