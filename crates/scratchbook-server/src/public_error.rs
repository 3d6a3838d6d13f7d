//! The public part of an error, which every surface and stream shows; the rest goes to the log.

use axum::http::StatusCode;
use scratchbook::{Error, ErrorKind};

/// The public part of an error. It contains no addresses, paths or account names of the systems behind the server.
#[derive(Debug)]
pub(crate) struct PublicError<'a> {
    pub(crate) status: StatusCode,
    pub(crate) kind: ErrorKind,
    pub(crate) message: &'a str,
}

impl<'a> PublicError<'a> {
    /// Logs what concerns the operators of the server, and returns the public part.
    pub(crate) fn of(error: &'a Error) -> Self {
        let kind = error.public_kind();
        let status = status_of(kind);
        let reason = error.kind().as_str();
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(kind = reason, %error, cause = cause(error), "a request failed");
        } else if error.is_for_operator() {
            tracing::warn!(kind = reason, %error, cause = cause(error), "a request failed");
        }
        Self { status, kind, message: error.public_message() }
    }

    /// Returns the kind as a code. ADK's events and frames show this code where ADK shows the class of an exception.
    pub(crate) fn code(&self) -> String {
        self.kind.as_str().to_uppercase()
    }
}

/// Returns the text of an error's cause, if the error concerns the operators of the server.
fn cause(error: &Error) -> Option<String> {
    let source = std::error::Error::source(error).filter(|_| error.is_for_operator());
    source.map(ToString::to_string)
}

/// Returns the status of a kind of error, on every surface.
pub(crate) fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidArgument | ErrorKind::FailedPrecondition => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::AlreadyExists | ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
