//! Errors of the API.

use google_cloud_gax::error::Error as GaxError;
use google_cloud_gax::error::rpc::Code;

use super::retry::wanted_pause;
use scratchbook_core::error::{Error, ErrorKind};

/// The kind of a call, which matters if a failed call may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// The call changes nothing.
    Read,
    /// The call makes changes and is idempotent.
    Change,
    /// The call is not idempotent.
    Once,
}

/// Returns the error for a failed call; `what` names what could not be done.
///
/// The error quotes the server's message, which names ids, fields and limits. Answers that are not the API's, or that
/// cannot be parsed, are not quoted, because they may contain state.
pub(super) fn failure(what: &str, call: CallKind, error: GaxError) -> Error {
    let may_be_done = may_be_done(&error);
    api_error(what, call, error, may_be_done)
}

/// Returns the error for a call that had begun, if its outcome could not be read.
pub(super) fn unfinished(what: &str, call: CallKind, error: GaxError) -> Error {
    api_error(what, call, error, true)
}

/// Returns the error for an operation that takes too long.
pub(super) fn late(what: &str, call: CallKind, seconds: f64) -> Error {
    let message =
        format!("{what}: the operation was not done within {seconds} s, and it is not known whether it will be");
    marked(Error::new(ErrorKind::Unavailable, message).for_operator(), call)
}

fn api_error(what: &str, call: CallKind, error: GaxError, may_be_done: bool) -> Error {
    let (kind, mut why) = reason(&error);
    if let Some(pause) = wanted_pause(&error) {
        why = format!("{why}; it asks to wait {} s", pause.as_secs_f64());
    }
    let is_unknown = may_be_done && call != CallKind::Read;
    let unknown = if is_unknown { ", and it is not known whether it was done" } else { "" };
    let failed = Error::new(kind, format!("{what}: {why}{unknown}"));
    let failed = if is_of_call(kind) { failed } else { failed.for_operator() };
    let failed = if is_unknown { marked(failed, call) } else { failed };
    // Other errors may contain an answer.
    let is_quotable = error.status().is_some() || error.http_status_code().is_none();
    let is_request = error.is_deserialization() || error.is_serialization() || error.is_binding();
    if is_quotable && !is_request { failed.with_source(error) } else { failed }
}

/// Whether the request is at fault, rather than the server, the credentials or the project.
fn is_of_call(kind: ErrorKind) -> bool {
    use ErrorKind::{AlreadyExists, Conflict, InvalidArgument, NotFound, PayloadTooLarge, Unsupported};
    matches!(kind, AlreadyExists | Conflict | InvalidArgument | NotFound | PayloadTooLarge | Unsupported)
}

fn marked(error: Error, call: CallKind) -> Error {
    if call == CallKind::Once { error.not_retryable() } else { error }
}

fn reason(error: &GaxError) -> (ErrorKind, String) {
    if let Some(status) = error.status() {
        let (kind, said) = (kind_of(status.code, error.http_status_code()), shortened(&status.message));
        return (kind, if said.is_empty() { format!("the server says {}", status.code.name()) } else { said });
    }
    if let Some(code) = error.http_status_code() {
        return (kind_of_status(code), format!("HTTP status {code}, in an answer that is none of the API"));
    }
    let (kind, why) = if error.is_deserialization() {
        (ErrorKind::DataCorrupted, "the answer cannot be read")
    } else if error.is_authentication() {
        let may_pass = error.is_transient_and_before_rpc();
        let kind = if may_pass { ErrorKind::Unavailable } else { ErrorKind::Unauthenticated };
        (kind, "the credentials give no token")
    } else if error.is_serialization() || error.is_binding() {
        (ErrorKind::Internal, "the request cannot be made, which is a defect")
    } else if error.is_timeout() {
        (ErrorKind::Unavailable, "no answer came in time")
    } else {
        (ErrorKind::Unavailable, "the server cannot be reached")
    };
    (kind, why.to_owned())
}

/// Whether the server may have carried out the request. A refusal means that it has not. The errors for which this
/// returns true do not say at which point the request failed.
fn may_be_done(error: &GaxError) -> bool {
    if error.http_status_code().is_some_and(|code| matches!(code, 408 | 499 | 500 | 502 | 504)) {
        return true;
    }
    if let Some(status) = error.status() {
        return matches!(status.code, Code::Internal | Code::Unknown | Code::DeadlineExceeded | Code::Cancelled)
            && error.http_status_code().is_none_or(|code| code >= 500 && code != 503);
    }
    let was_not_sent =
        error.is_connect() || error.is_authentication() || error.is_serialization() || error.is_binding();
    error.http_status_code().is_none() && !was_not_sent
}

fn kind_of(code: Code, http: Option<u16>) -> ErrorKind {
    match code {
        // The API has no code of its own for requests that are too large.
        _ if http == Some(413) => ErrorKind::PayloadTooLarge,
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
        413 => ErrorKind::PayloadTooLarge,
        429 => ErrorKind::ResourceExhausted,
        501 => ErrorKind::Unsupported,
        408 | 499 | 502..=504 => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

/// Whether the requested resource does not exist.
pub(super) fn is_not_found(error: &GaxError) -> bool {
    match error.status() {
        Some(status) => status.code == Code::NotFound,
        None => false,
    }
}

/// Whether the resource to create already exists.
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
            let error = failure("get", CallKind::Read, GaxError::service_with_http_metadata(status, Some(http), None));
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, "get: said"));
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        let answer = |http: u16, code: Code| {
            let status = Status::default().set_code(code).set_message("said.");
            GaxError::service_with_http_metadata(status, Some(http), None)
        };
        let page = |code| GaxError::http(code, Default::default(), "a page".into());
        type Made<'a> = &'a dyn Fn() -> GaxError;
        let cases: [(Made<'_>, bool); 13] = [
            (&|| GaxError::io("reset"), true),
            (&|| GaxError::timeout("late"), true),
            (&|| GaxError::deser("no JSON"), true),
            (&|| answer(500, Code::Internal), true),
            (&|| answer(504, Code::DeadlineExceeded), true),
            (&|| answer(499, Code::Cancelled), true),
            (&|| page(408), true),
            (&|| page(502), true),
            (&|| GaxError::connect("refused"), false),
            (&|| answer(503, Code::Unavailable), false),
            (&|| answer(429, Code::ResourceExhausted), false),
            (&|| answer(400, Code::InvalidArgument), false),
            (&|| page(403), false),
        ];
        for (error, is_unknown) in cases {
            for call in [CallKind::Read, CallKind::Change, CallKind::Once] {
                let failed = failure("append", call, error());
                let says = failed.to_string().contains("not known");
                assert_eq!(says, is_unknown && call != CallKind::Read, "{failed}");
                assert!(!(says && call == CallKind::Once && failed.is_retryable()), "{failed}");
            }
        }
        assert!(failure("append", CallKind::Once, answer(503, Code::Unavailable)).is_retryable());
        assert!(failure("delete", CallKind::Change, page(502)).is_retryable());
        let refused = unfinished("create", CallKind::Once, answer(403, Code::PermissionDenied)).to_string();
        assert!(refused.contains("not known"), "{refused}");
        assert!(
            !late("create", CallKind::Once, 1.0).is_retryable() && late("delete", CallKind::Change, 1.0).is_retryable()
        );
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        let wrong = serde_json::from_str::<u8>("\"s3cret\"").unwrap_err();
        let error = failure("get", CallKind::Read, GaxError::deser(wrong));
        assert_eq!(error.kind(), ErrorKind::DataCorrupted);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        let page = GaxError::http(404, Default::default(), "s3cret".into());
        let error = failure("get", CallKind::Read, page);
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}
