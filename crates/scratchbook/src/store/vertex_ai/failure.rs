//! What an answer of the API means here.

use google_cloud_gax::error::Error as GaxError;
use google_cloud_gax::error::rpc::Code;

use crate::error::{Error, ErrorKind};

/// Whether a call that failed may have been done nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// It changes nothing, or doing it twice is as good as once.
    Read,
    /// It may have been done.
    Write,
}

/// An error of the API, `what` could not be done.
///
/// The server's own words are in it: they name ids, fields and limits. What is no answer of the API is not quoted, and
/// neither is an answer that cannot be read: there may be state in it.
pub(super) fn failure(what: &str, call: Call, error: GaxError) -> Error {
    if let Some(status) = error.status() {
        let (kind, said) = (kind_of(status.code, error.http_status_code()), shortened(&status.message));
        let said = if said.is_empty() { format!("the server says {}", status.code.name()) } else { said };
        return Error::new(kind, format!("{what}: {said}")).with_source(error);
    }
    if let Some(code) = error.http_status_code() {
        let message = format!("{what}: HTTP status {code}, in an answer that is none of the API");
        return Error::new(kind_of_status(code), message);
    }
    if error.is_deserialization() {
        let message = match call {
            Call::Read => format!("{what}: the answer cannot be read"),
            Call::Write => format!("{what}: the answer cannot be read, so that it is not known whether it was done"),
        };
        return Error::corrupted(message);
    }
    if error.is_authentication() {
        return not_authenticated(what, error);
    }
    if error.is_serialization() || error.is_binding() {
        return Error::internal(format!("{what}: the request cannot be made, which is a defect"));
    }
    let unknown = match call {
        Call::Write if !error.is_connect() => ", and it is not known whether it was done",
        _ => "",
    };
    let why = if error.is_timeout() { "no answer came in time" } else { "the server cannot be reached" };
    Error::new(ErrorKind::Unavailable, format!("{what}: {why}{unknown}")).with_source(error)
}

fn not_authenticated(what: &str, error: GaxError) -> Error {
    let kind = if error.is_transient_and_before_rpc() { ErrorKind::Unavailable } else { ErrorKind::Unauthenticated };
    Error::new(kind, format!("{what}: the credentials give no token")).with_source(error)
}

fn kind_of(code: Code, http: Option<u16>) -> ErrorKind {
    match code {
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidArgument,
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::Aborted => ErrorKind::Conflict,
        Code::FailedPrecondition => ErrorKind::FailedPrecondition,
        Code::ResourceExhausted => ErrorKind::ResourceExhausted,
        Code::Unauthenticated => ErrorKind::Unauthenticated,
        Code::PermissionDenied => ErrorKind::PermissionDenied,
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => ErrorKind::Unavailable,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::DataLoss => ErrorKind::DataCorrupted,
        _ => http.map_or(ErrorKind::Internal, kind_of_status),
    }
}

fn kind_of_status(code: u16) -> ErrorKind {
    match code {
        400 | 414 | 422 => ErrorKind::InvalidArgument,
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::PermissionDenied,
        404 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        413 | 429 => ErrorKind::ResourceExhausted,
        501 => ErrorKind::Unsupported,
        408 | 499 | 502..=504 => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

/// Whether what was asked for is not there.
pub(super) fn is_not_found(error: &GaxError) -> bool {
    match error.status() {
        Some(status) => status.code == Code::NotFound,
        None => false,
    }
}

/// Whether what was to be made is there.
pub(super) fn is_taken(error: &GaxError) -> bool {
    error.status().is_some_and(|status| status.code == Code::AlreadyExists)
}

fn shortened(text: &str) -> String {
    const MOST: usize = 500;
    let text = text.trim().trim_end_matches('.');
    let cut: String = text.chars().filter(|c| !c.is_control()).take(MOST).collect();
    if text.chars().nth(MOST).is_some() { format!("{cut}...") } else { cut }
}

#[cfg(test)]
mod tests {
    use google_cloud_gax::error::rpc::Status;

    use super::*;

    #[test]
    fn a_status_has_a_kind() {
        for (code, http, kind) in [
            (Code::InvalidArgument, 400, ErrorKind::InvalidArgument),
            (Code::NotFound, 404, ErrorKind::NotFound),
            (Code::Aborted, 409, ErrorKind::Conflict),
            (Code::ResourceExhausted, 429, ErrorKind::ResourceExhausted),
            (Code::Unimplemented, 501, ErrorKind::Unsupported),
            (Code::Unknown, 503, ErrorKind::Unavailable),
            (Code::Internal, 500, ErrorKind::Internal),
        ] {
            let status = Status::default().set_code(code).set_message("said.");
            let error = failure("get", Call::Read, GaxError::service_with_http_metadata(status, Some(http), None));
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, "get: said"));
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let says = |call, error| failure("append", call, error).to_string().contains("not known");
        assert!(says(Call::Write, GaxError::io("reset")) && says(Call::Write, GaxError::timeout("late")));
        assert!(!says(Call::Write, GaxError::connect("refused")) && !says(Call::Read, GaxError::io("reset")));
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        let wrong = serde_json::from_str::<u8>("\"s3cret\"").unwrap_err();
        let error = failure("get", Call::Read, GaxError::deser(wrong));
        assert_eq!(error.kind(), ErrorKind::DataCorrupted);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        let page = GaxError::http(404, Default::default(), "s3cret".into());
        let error = failure("get", Call::Read, page);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}
