//! An error before a handler was reached, in the form of the surface that was asked.

use axum::response::{IntoResponse, Response};
use scratchbook::Error;

use crate::adk::AdkError;
use crate::v1::ApiError;

/// The answer to a request to this path.
pub(crate) fn of(path: &str, error: Error) -> Response {
    if path == "/v1" || path.starts_with("/v1/") {
        ApiError::from(error).into_response()
    } else {
        AdkError::from(error).into_response()
    }
}
