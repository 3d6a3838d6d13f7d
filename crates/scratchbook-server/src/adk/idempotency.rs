//! Idempotent changes of state through the header `Idempotency-Key`, since ADK's body has no id for the event.

use axum::extract::OptionalFromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use scratchbook::{Error, ErrorKind, Event};
use serde_json::json;

use super::AdkError;

/// The prefix of the invocation id of an event that changes state without a run, as in ADK.
pub(super) const PATCH: &str = "p-";

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum length of an invocation id without the prefix `PATCH`, in bytes.
const MOST_BYTES: usize = 512 - PATCH.len();

/// The id of the event that a request appends, chosen by its client.
#[derive(Debug)]
pub(super) struct IdempotencyKey(String);

impl IdempotencyKey {
    fn of(headers: &HeaderMap) -> Result<Option<Self>, AdkError> {
        let wrong = |what: &str| AdkError::bad_request(format!("the header Idempotency-Key {what}"));
        let mut keys = headers.get_all(HEADER).iter();
        let Some(key) = keys.next() else { return Ok(None) };
        if keys.next().is_some() {
            return Err(wrong("is there twice; send one"));
        }
        let key = std::str::from_utf8(key.as_bytes()).map_err(|_| wrong("is not UTF-8"))?;
        match key.len() {
            0 => Err(wrong("is empty; send an id, such as a UUID, or leave it out")),
            1..=MOST_BYTES => Ok(Some(Self(key.to_owned()))),
            length => Err(wrong(&format!("has {length} bytes; it has at most {MOST_BYTES}"))),
        }
    }

    /// Returns the event with this key as its id. The invocation id contains the key too, so that a retry appends the
    /// same event.
    pub(super) fn mark(&self, event: Event) -> Event {
        event.with_invocation_id(format!("{PATCH}{}", self.0)).with_id(&self.0)
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = AdkError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, AdkError> {
        Self::of(&parts.headers)
    }
}

/// Returns the error for a change that failed. If the change may have been stored, the message says how to find out.
/// The store's own message is not used then, because it mentions event ids, which this request does not have.
pub(super) fn unfinished(error: Error, key: Option<&IdempotencyKey>) -> AdkError {
    if error.public_kind() != ErrorKind::Unavailable {
        return error.into();
    }
    tracing::warn!(%error, "it is not known whether a change of a session's state was stored");
    let again = match key {
        Some(_) => "send it again with the same Idempotency-Key",
        None => {
            "look whether it was before you send it again; changes with the header Idempotency-Key are safe to send again"
        }
    };
    let detail = format!("the change could not be stored just now, or it is not known whether it was; {again}");
    AdkError::new(StatusCode::SERVICE_UNAVAILABLE, json!(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_stored_is_sent_again_by_its_key() {
        let lost = || Error::new(ErrorKind::Unavailable, "the answer was lost; try again with the same event id");
        let said = |key: Option<IdempotencyKey>| {
            let error = unfinished(lost(), key.as_ref());
            assert_eq!(error.status, StatusCode::SERVICE_UNAVAILABLE);
            error.detail.to_string()
        };
        let with_key = said(Some(IdempotencyKey("k".to_owned())));
        assert!(with_key.contains("the same Idempotency-Key") && !with_key.contains("event id"), "{with_key}");
        let without = said(None);
        assert!(without.contains("look whether it was") && !without.contains("event id"), "{without}");
        assert_eq!(unfinished(Error::invalid("no"), None).status, StatusCode::BAD_REQUEST);
    }
}
