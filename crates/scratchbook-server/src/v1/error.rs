//! Errors in our own form: `{"error": {"kind", "message", "conflicts"?}}`.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use scratchbook::error::{ConflictCause, KeyConflict};
use scratchbook::{Error, ErrorKind};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::{IntoResponses, ToSchema, openapi};

use super::SessionScope;
use super::shape::Writer;
use crate::access::{Caller, Right};
use crate::inspector;
use crate::openapi::refusal;
use crate::public_error::PublicError;
use crate::scope::SurfaceError;

/// An error as a client of `/v1` knows it.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: ErrorBody,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"error": {
    "kind": "not_found", "message": "session not found: shop/alice/s1; create it first",
}}))]
pub(super) struct ErrorBody {
    error: Problem,
}

/// The kind of an error, a message, and the keys that a write conflicts on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// The kind, for programs: `invalid_argument`, `not_found`, `already_exists`, `conflict`, `failed_precondition`,
    /// `resource_exhausted`, `payload_too_large`, `unauthenticated`, `permission_denied`, `unavailable`, `unsupported`,
    /// `data_corrupted` or `internal`.
    #[schema(value_type = String)]
    kind: &'static str,
    /// A message for people, which says what was wrong and what would be right. It can name keys but never contains
    /// values of the state.
    message: String,
    /// The keys that conflict, if the kind is `conflict`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    conflicts: Vec<KeyInTheWay>,
    /// The path of a page of the inspector on this server. The page shows the session and the history of the first key
    /// that conflicts. Absent if the kind is not `conflict`, if the token lacks the right `read`, or if the server has
    /// no inspector.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    view: Option<String>,
}

/// A key for which a write was refused.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeyConflict)]
struct KeyInTheWay {
    /// The key, with its prefix.
    key: String,
    /// `changed` if the key was written after the writer read it. `guard` if its value is not the expected one.
    cause: Cause,
    /// The value that the write expects. Absent if it expects no value, or if the token lacks the right `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    read: Option<Value>,
    /// The value that is stored. Absent if there is none, or if the token lacks the right `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    found: Option<Value>,
    /// The writer of the stored value. Absent if the writer is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    writer: Option<Writer>,
}

/// The reason of a conflict: `changed` if the key was written after the writer read it, `guard` if its value is not the
/// one that the write expects.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Cause {
    Changed,
    Guard,
}

impl ApiError {
    /// An error with a status other than the usual status of its kind.
    pub(super) fn with_status(status: StatusCode, error: &Error) -> Self {
        Self { status, ..Self::new(error, Vec::new()) }
    }

    /// An error for a caller. It shows the values in conflict if the caller may read, and writers within its reach.
    pub(super) fn told(error: Error, caller: &Caller, app_name: &str) -> Self {
        if error.conflicts().is_empty() {
            return error.into();
        }
        let conflicts = error.conflicts().iter().cloned().map(|mut conflict| {
            conflict.writer = conflict.writer.map(|writer| caller.known_writer(writer, app_name));
            conflict
        });
        let error = Error::conflict(conflicts.collect());
        let may_read = caller.may(Right::Read);
        let conflicts = error.conflicts().iter().map(|conflict| KeyInTheWay::shown(conflict, may_read));
        Self::new(&error, conflicts.collect())
    }

    /// Like [`Self::told`], for a write to a session: a conflict names the page that shows the conflicting key.
    pub(super) fn of_session(error: Error, scope: &SessionScope) -> Self {
        let is_shown = error.kind() == ErrorKind::Conflict && scope.app_state.has_inspector;
        let first = error.conflicts().first().map(|conflict| conflict.key.as_str());
        let view = (is_shown && scope.caller.may(Right::Read)).then(|| inspector::of_conflict(&scope.key, first));
        let mut told = Self::told(error, &scope.caller, scope.key.app_name());
        told.body.error.view = view;
        told
    }

    fn new(error: &Error, conflicts: Vec<KeyInTheWay>) -> Self {
        let PublicError { status, kind, message } = PublicError::of(error);
        let problem = Problem { kind: kind.as_str(), message: message.to_owned(), conflicts, view: None };
        Self { status, body: ErrorBody { error: problem } }
    }
}

/// An error in a stream. It does not name the writers of a conflict, because the reader may not be allowed to see them.
pub(super) fn shown(error: &Error) -> Problem {
    let told = PublicError::of(error);
    let message = match error.conflicts() {
        [] => told.message,
        _ => "others have changed keys of this write; read again, then try again",
    };
    Problem { kind: told.kind.as_str(), message: message.to_owned(), conflicts: Vec::new(), view: None }
}

impl KeyInTheWay {
    fn shown(conflict: &KeyConflict, may_read: bool) -> Self {
        Self {
            key: conflict.key.clone(),
            cause: match conflict.cause {
                ConflictCause::Guard => Cause::Guard,
                _ => Cause::Changed,
            },
            read: conflict.read.clone().filter(|_| may_read),
            found: conflict.found.clone().filter(|_| may_read),
            writer: conflict.writer.clone().map(Writer::from),
        }
    }
}

/// Hides values and writers as [`shown`] does, since the caller is not known here.
impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let error = if error.conflicts().is_empty() { error } else { Error::new(error.kind(), shown(&error).message) };
        Self::new(&error, Vec::new())
    }
}

impl SurfaceError for ApiError {}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}

/// The error for a path that is not a route of `/v1`.
pub(super) async fn no_route() -> ApiError {
    ApiError::from(Error::not_found("there is no such route; see /docs"))
}

/// The error for a method that a route of `/v1` does not support.
pub(super) async fn no_method() -> ApiError {
    let error = Error::new(ErrorKind::Unsupported, "the route has no such method; see /docs");
    ApiError::with_status(StatusCode::METHOD_NOT_ALLOWED, &error)
}

/// The errors of a request that reads, for the document.
pub(super) struct ReadErrors;

/// The errors of a request that writes, for the document.
pub(super) struct WriteRefusals;

const REFUSALS: [(&str, &str, &str, &str); 9] = [
    (
        "400",
        "The request is invalid, or the store is not in a state that allows it.",
        "invalid_argument",
        "limit: invalid digit found in string",
    ),
    (
        "401",
        "The token is missing or unknown.",
        "unauthenticated",
        "there is no token; send 'Authorization: Bearer TOKEN'",
    ),
    (
        "403",
        "The token lacks the right that this operation needs.",
        "permission_denied",
        "this takes the right 'admin', which your token lacks",
    ),
    (
        "404",
        "The app, user, session, event or key does not exist, or the token does not allow access to it.",
        "not_found",
        "session not found: shop/alice/s1; create it first",
    ),
    (
        "413",
        "The body, a part of it, or the response is too large.",
        "payload_too_large",
        "the answer has more than the 33554432 bytes that an answer may have; ask for less of it",
    ),
    (
        "429",
        "A queue is full or a limit is reached; try again later.",
        "resource_exhausted",
        "the store's queue is full; try again",
    ),
    (
        "500",
        "The server has a defect, or stored data is damaged.",
        "data_corrupted",
        "the event 3 of shop/alice/s1 is missing",
    ),
    ("501", "The store does not support this operation.", "unsupported", "this store keeps no feed"),
    (
        "503",
        "The store cannot be reached or cannot write at the moment. The server's log has the reason.",
        "unavailable",
        "the store cannot do this just now; try again later",
    ),
];

const WRITE_REFUSALS: [(&str, &str, &str, &str); 3] = [
    (
        "408",
        "The body did not arrive in time.",
        "unavailable",
        "the body did not come within the 30 seconds that it may take",
    ),
    (
        "409",
        "Another writer committed first, a guard does not hold, or the id exists with other content.",
        "conflict",
        "'step' was changed since it was read; read again, then try again",
    ),
    (
        "415",
        "The content type of the body is not JSON.",
        "invalid_argument",
        "the body's content type is 'text/plain'; send 'application/json'",
    ),
];

impl IntoResponses for ReadErrors {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        REFUSALS.into_iter().map(documented).collect()
    }
}

impl IntoResponses for WriteRefusals {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        REFUSALS.into_iter().chain(WRITE_REFUSALS).map(documented).collect()
    }
}

fn documented((status, what, kind, message): (&str, &str, &str, &str)) -> (String, RefOr<openapi::Response>) {
    refusal(status, what, "ErrorBody", Some(json!({"error": {"kind": kind, "message": message}})))
}
