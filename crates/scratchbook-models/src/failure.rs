//! Turns failures of a call to a model into errors: failures of the connection and of HTTP, and failures that a
//! provider reports.

use std::error::Error as StdError;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::client::ModelCall;
use super::retry::{FailedAttempt, RetryAdvice};
use scratchbook_core::error::{Error, ErrorKind};

/// How much of a provider's message is repeated, in characters.
const LONGEST_MESSAGE: usize = 1000;

impl ModelCall {
    /// Returns the failure of a response with an error status.
    pub(super) fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> FailedAttempt {
        self.refused_with(status, headers, serde_json::from_str(body).ok())
    }

    /// Returns the failure that a body reports in place of a status.
    pub(super) fn refused_in_body(&self, code: u16, body: Value) -> FailedAttempt {
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
        self.refused_with(status, &HeaderMap::new(), Some(body))
    }

    fn refused_with(&self, status: StatusCode, headers: &HeaderMap, parsed: Option<Value>) -> FailedAttempt {
        let said = parsed.as_ref().and_then(message).unwrap_or_default();
        let mut text = format!("{} answered {}", self.provider(), status.as_u16());
        match parsed.as_ref().and_then(|body| said_in(body)?.get("status")?.as_str()) {
            Some(name) => text = format!("{text} {}", self.quoted(name)),
            None => text.extend(status.canonical_reason().map(|reason| format!(" {reason}"))),
        }
        if !said.is_empty() {
            text = format!("{text}: {}", self.quoted(&said));
        }
        let wanted = wanted_pause(headers).or_else(|| wanted_by_google(parsed.as_ref()));
        if let Some(pause) = wanted {
            text = format!("{text}; it asks to wait {} s", pause.as_secs_f64());
        }
        let retry = match status.as_u16() {
            408 | 429 | 500 | 502 | 503 | 504 | 529 => wanted.map_or(RetryAdvice::Later, RetryAdvice::After),
            _ => RetryAdvice::Never,
        };
        FailedAttempt { error: Error::new(kind(status, parsed.as_ref()), text), retry, answer: None }
    }

    /// Returns the failure of a connection. After an interrupted answer, the caller does not retry.
    pub(super) fn unreached(&self, error: reqwest::Error) -> FailedAttempt {
        if error.is_builder() {
            return Error::invalid("the request cannot be sent").with_source(error.without_url()).into();
        }
        let innermost = innermost(&error);
        let what = if error.is_connect() { "cannot be reached" } else { "has closed the connection" };
        let text = format!("{} {what}: {innermost}", self.provider());
        FailedAttempt {
            error: Error::new(ErrorKind::Unavailable, text).with_source(error.without_url()),
            retry: RetryAdvice::Later,
            answer: None,
        }
    }

    /// Returns the error for an answer that ended early.
    pub(super) fn broken_off(&self) -> Error {
        Error::new(ErrorKind::Unavailable, format!("the answer of {} broke off before its end", self.provider()))
    }

    /// Returns the error for an answer that cannot be parsed.
    pub(super) fn unreadable(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("{} answered with {what}", self.provider()))
    }

    /// Returns a provider's message without secrets. A long message is truncated.
    pub(super) fn quoted(&self, said: &str) -> String {
        let said = self.secrets.hidden_in(said.trim(), LONGEST_MESSAGE * 4 + 4);
        let said = said.trim();
        match said.char_indices().nth(LONGEST_MESSAGE) {
            Some((end, _)) => format!("{}...", &said[..end]),
            None => said.to_owned(),
        }
    }
}

fn kind(status: StatusCode, body: Option<&Value>) -> ErrorKind {
    let is = |word: &str| body.is_some_and(|body| has_word(body, word));
    match status.as_u16() {
        400 if is("API_KEY_INVALID") => ErrorKind::PermissionDenied,
        400 if is("FAILED_PRECONDITION") => ErrorKind::FailedPrecondition,
        401 | 403 => ErrorKind::PermissionDenied,
        402 | 429 => ErrorKind::ResourceExhausted,
        404 => ErrorKind::NotFound,
        408 | 409 | 500.. => ErrorKind::Unavailable,
        400..500 => ErrorKind::InvalidArgument,
        // A redirect is not followed, since the key would be sent along.
        _ => ErrorKind::FailedPrecondition,
    }
}

/// Returns whether Google's error has this status or reason.
fn has_word(body: &Value, word: &str) -> bool {
    let Some(error) = said_in(body) else {
        return false;
    };
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let reasons = details.filter_map(|detail| detail.get("reason"));
    error.get("status").into_iter().chain(reasons).any(|found| found.as_str() == Some(word))
}

/// Returns the object of an error. Most providers send `{"error": {..}}`, Google sends `[{"error": {..}}]`, and some
/// providers send only the object.
fn said_in(body: &Value) -> Option<&Value> {
    let body = body.as_array().map_or(Some(body), |list| list.first())?;
    Some(body.get("error").unwrap_or(body))
}

/// Returns the message of an error. FastAPI has a list of what is wrong, each with its place in the request.
fn message(body: &Value) -> Option<String> {
    let error = said_in(body)?;
    let said = match (error, error.get("message"), error.get("detail")) {
        (Value::String(said), ..) | (_, Some(Value::String(said)), _) | (_, _, Some(Value::String(said))) => {
            said.clone()
        }
        (_, _, Some(Value::Array(wrong))) => {
            let each = wrong.iter().filter_map(|wrong| {
                let place: Vec<_> =
                    wrong["loc"].as_array()?.iter().map(|step| step.to_string().replace('"', "")).collect();
                Some(format!("{}: {}", place.join("."), wrong["msg"].as_str()?))
            });
            each.collect::<Vec<_>>().join("; ")
        }
        _ => return None,
    };
    (!said.trim().is_empty()).then_some(said)
}

/// Returns the pause that a header asks for. The header has seconds, or milliseconds from OpenAI. A date is ignored.
fn wanted_pause(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Returns the pause from the details of Google's error, such as `"34s"`.
fn wanted_by_google(body: Option<&Value>) -> Option<Duration> {
    let details = said_in(body?)?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// Returns the root cause, since reqwest's own message only says that something failed.
fn innermost(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
