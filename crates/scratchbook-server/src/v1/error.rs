//! Errors in our own form: `{"error": {"kind", "message", "conflicts"?}}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use scratchbook::Error;
use serde_json::json;

use crate::adk::status;
use crate::scope::Refusal;

/// An error as a client of `/v1` knows it.
#[derive(Debug)]
pub(crate) struct ApiError(Error);

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl Refusal for ApiError {}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {"kind": self.0.kind().as_str(), "message": self.0.to_string()}});
        (status(self.0.kind()), Json(body)).into_response()
    }
}
