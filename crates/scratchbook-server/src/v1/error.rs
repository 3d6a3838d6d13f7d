//! Errors in our own form: `{"error": {"kind", "message", "conflicts"?}}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use scratchbook::Error;
use serde_json::{Value, json};

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
        (status(self.0.kind()), Json(json!({"error": shown(&self.0)}))).into_response()
    }
}

/// An error as `/v1` shows it.
pub(super) fn shown(error: &Error) -> Value {
    json!({"kind": error.kind().as_str(), "message": error.to_string()})
}
