//! Errors in ADK's form: a status, and `{"detail": ...}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, ErrorKind};
use serde_json::{Value, json};

/// An error as ADK's clients know it.
#[derive(Debug)]
pub(crate) struct AdkError {
    pub(super) status: StatusCode,
    pub(super) detail: Value,
}

impl AdkError {
    pub(crate) fn new(status: StatusCode, detail: Value) -> Self {
        Self { status, detail }
    }
}

impl From<Error> for AdkError {
    fn from(error: Error) -> Self {
        Self::new(status(error.kind()), json!(error.to_string()))
    }
}

impl IntoResponse for AdkError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"detail": self.detail}))).into_response()
    }
}

/// The status of a kind of error, on every surface.
pub(crate) fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidArgument | ErrorKind::FailedPrecondition => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::AlreadyExists | ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl crate::scope::Refusal for AdkError {}
