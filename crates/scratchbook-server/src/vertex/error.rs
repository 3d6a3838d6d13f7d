//! Errors in Google's form: `{"error": {"code", "message", "status"}}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, ErrorKind};
use serde_json::json;

use crate::public_error::PublicError;
use crate::scope::SurfaceError;

/// An error as Google's clients know it.
#[derive(Debug)]
pub(crate) struct GoogleError {
    code: StatusCode,
    status: &'static str,
    message: String,
}

impl GoogleError {
    /// Returns an error with a code other than the usual code of the error's kind.
    pub(crate) fn with_code(code: StatusCode, error: &Error) -> Self {
        Self { code, ..Self::of(error) }
    }

    fn of(error: &Error) -> Self {
        let PublicError { status: code, kind, message } = PublicError::of(error);
        let message = match code {
            // The log has the internal cause.
            StatusCode::INTERNAL_SERVER_ERROR => "Internal error encountered.",
            // Not every caller may see whose writes conflict.
            _ if !error.conflicts().is_empty() => "others have changed keys of this write; try again",
            _ => message,
        };
        Self { code, status: status_name(kind), message: message.to_owned() }
    }
}

/// Returns a kind's name in `google.rpc.Code`.
fn status_name(kind: ErrorKind) -> &'static str {
    match kind {
        // Google's servers also answer INVALID_ARGUMENT if a request is too large. Clients would retry after
        // RESOURCE_EXHAUSTED.
        ErrorKind::InvalidArgument | ErrorKind::PayloadTooLarge => "INVALID_ARGUMENT",
        ErrorKind::NotFound => "NOT_FOUND",
        ErrorKind::AlreadyExists => "ALREADY_EXISTS",
        ErrorKind::Conflict => "ABORTED",
        ErrorKind::FailedPrecondition => "FAILED_PRECONDITION",
        ErrorKind::ResourceExhausted => "RESOURCE_EXHAUSTED",
        ErrorKind::Unauthenticated => "UNAUTHENTICATED",
        ErrorKind::PermissionDenied => "PERMISSION_DENIED",
        ErrorKind::Unavailable => "UNAVAILABLE",
        ErrorKind::Unsupported => "UNIMPLEMENTED",
        ErrorKind::DataCorrupted => "DATA_LOSS",
        _ => "INTERNAL",
    }
}

impl From<Error> for GoogleError {
    fn from(error: Error) -> Self {
        Self::of(&error)
    }
}

impl SurfaceError for GoogleError {}

impl IntoResponse for GoogleError {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code.as_u16(), "message": self.message, "status": self.status});
        (self.code, Json(json!({"error": error}))).into_response()
    }
}

/// Answers requests for unknown paths, and for methods that a path does not support. Google's servers do not
/// distinguish them.
pub(super) async fn no_route() -> GoogleError {
    GoogleError::from(Error::not_found(
        "there is no such method; there are sessions of reasoningEngines, their events, operations and :appendEvent",
    ))
}
