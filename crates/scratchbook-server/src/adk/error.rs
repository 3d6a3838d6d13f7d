//! Errors in ADK's form: a status, and `{"detail": ...}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use scratchbook::{Error, ErrorKind};
use serde_json::{Value, json};

use crate::public_error::PublicError;
use crate::scope::SurfaceError;

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

    /// Returns the error for a path without a route.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, json!("Not Found"))
    }

    /// Returns the error for a session that does not exist, or is not within the caller's reach.
    pub(crate) fn no_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, json!("Session not found"))
    }

    pub(crate) fn bad_request(detail: impl Into<Value>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail.into())
    }
}

impl From<Error> for AdkError {
    fn from(error: Error) -> Self {
        let told = PublicError::of(&error);
        match told.kind {
            ErrorKind::NotFound => Self::no_session(),
            _ if told.status == StatusCode::INTERNAL_SERVER_ERROR => Self::new(told.status, Value::Null),
            _ => Self::new(told.status, json!(told.message)),
        }
    }
}

impl SurfaceError for AdkError {
    /// Decodes a name as ADK does: ADK decodes the whole path before it looks for the route. So a name with a slash
    /// results in another path, and an empty name matches no route.
    fn decode(_: &str, raw: &str) -> Result<String, Self> {
        let name = percent_decode_str(raw).decode_utf8_lossy().into_owned();
        if name.is_empty() || name.contains('/') { Err(Self::not_found()) } else { Ok(name) }
    }
}

impl IntoResponse for AdkError {
    fn into_response(self) -> Response {
        // The log has the internal cause.
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            return (self.status, "Internal Server Error").into_response();
        }
        (self.status, Json(json!({"detail": self.detail}))).into_response()
    }
}
