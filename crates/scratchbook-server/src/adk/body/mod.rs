//! Bodies of ADK's surface, which are read, checked and refused as FastAPI and pydantic do it for ADK.
//!
//! A handler takes a [`JsonBody`] with a request type of `requests.rs`, or an `Option` of a `JsonBody` if the body may
//! be left out.

mod check;
mod content;
mod event;
mod facts;
mod requests;
mod scalar;
mod text;

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::AdkError;
use crate::app_state::AppState;
use crate::bodies::{Shape, Unread};
use check::{Loc, Problems, check};

pub(crate) use check::FieldType;
pub(crate) use requests::{
    ArtifactPart, CreateSessionRequest, InitialStateBody, RunAgentRequest, SaveArtifactRequest, UpdateMemoryRequest,
    UpdateSessionRequest,
};

/// A type into which a body is read.
pub(crate) trait AdkBody: DeserializeOwned + Send + 'static {
    /// The model against which the body is checked. A body that passes the check can be deserialized, unless our own
    /// types refuse a value.
    const KIND: FieldType;
    /// The shape by which the body's items are counted before it is parsed.
    const SHAPE: &'static Shape = &Shape::Any;
}

/// A JSON body that has passed the check.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: AdkBody> FromRequest<AppState> for JsonBody<T> {
    type Rejection = AdkError;

    async fn from_request(request: Request, app_state: &AppState) -> Result<Self, AdkError> {
        Self::read(unread(request, app_state).await?).await
    }
}

impl<T: AdkBody> OptionalFromRequest<AppState> for JsonBody<T> {
    type Rejection = AdkError;

    async fn from_request(request: Request, app_state: &AppState) -> Result<Option<Self>, AdkError> {
        let unread = unread(request, app_state).await?;
        let is_json = unread.is_json();
        Ok(unread.read(T::SHAPE, move |bytes| optional(is_json, bytes)).await??.map(Self))
    }
}

impl<T: AdkBody> JsonBody<T> {
    /// Reads a required body.
    ///
    /// # Errors
    ///
    /// ADK's error for an invalid body; 413 if the body has too many items of one kind.
    pub(crate) async fn read(unread: Unread) -> Result<Self, AdkError> {
        let is_json = unread.is_json();
        unread.read(T::SHAPE, move |bytes| required(is_json, bytes)).await?.map(Self)
    }
}

fn required<T: AdkBody>(is_json: bool, bytes: Bytes) -> Result<T, AdkError> {
    match value(is_json, bytes)? {
        Some(body) => from_value(body),
        None => Err(problem("missing", "Field required")),
    }
}

fn optional<T: AdkBody>(is_json: bool, bytes: Bytes) -> Result<Option<T>, AdkError> {
    match value(is_json, bytes)? {
        Some(body) if !body.is_null() => from_value(body).map(Some),
        _ => Ok(None),
    }
}

/// Returns the body of a request without parsing it.
///
/// # Errors
///
/// The refusal of a body that could not be received, or is JSON in another form than plain UTF-8.
pub(crate) async fn unread(request: Request, app_state: &AppState) -> Result<Unread, AdkError> {
    let unread = Unread::from_request(request, app_state).await.map_err(unreadable)?;
    Ok(if unread.is_json() { unread.into_json()? } else { unread })
}

/// Returns the refusal of a body that could not be received.
fn unreadable(rejection: BytesRejection) -> AdkError {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => AdkError::new(StatusCode::PAYLOAD_TOO_LARGE, json!("Request body too large")),
        _ => text::unreadable(),
    }
}

/// Reads a body, or returns `None` if it is empty. A body whose content type is not JSON is read as a string.
fn value(is_json: bool, bytes: Bytes) -> Result<Option<Value>, AdkError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let body = match is_json {
        true => text::read(&bytes)?,
        false => Value::String(String::from_utf8(bytes.into()).map_err(|_| text::unreadable())?),
    };
    Ok(Some(body))
}

/// Checks a body and converts it to its type.
fn from_value<T: AdkBody>(mut body: Value) -> Result<T, AdkError> {
    let mut problems = Problems::default();
    check(&mut body, T::KIND, &Loc::Body, &mut problems);
    problems.into_result()?;
    // After the check, only our own types can refuse something.
    serde_json::from_value(body).map_err(|error| problem("value_error", &format!("Value error, {error}")))
}

fn problem(kind: &str, message: &str) -> AdkError {
    let mut problems = Problems::default();
    problems.add(kind, &Loc::Body, message, &Value::Null);
    problems.into_error()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire_names::is_json;

    async fn refusal<T: AdkBody + std::fmt::Debug>(content_type: Option<&str>, body: &[u8]) -> (u16, Value) {
        // `Unread::into_json` takes the byte order mark away before a body is parsed.
        let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
        let read = required::<T>(content_type.is_some_and(is_json), body.to_vec().into());
        read.err().map(|error| (error.status.as_u16(), error.detail)).unwrap_or_default()
    }

    async fn refused<T: AdkBody + std::fmt::Debug>(body: &str) -> Value {
        refusal::<T>(Some("application/json"), body.as_bytes()).await.1
    }

    /// Compares the refusals with those that were recorded from google-adk 2.13.0.
    #[tokio::test]
    async fn bodies_are_refused_as_they_were_by_adk() {
        let measured: Vec<Value> = serde_json::from_str(include_str!("measured.json")).unwrap();
        let mut unlike = Vec::new();
        for case in &measured {
            let (content_type, body) = (case["contentType"].as_str(), case["body"].as_str().unwrap().as_bytes());
            let found = match case["request"].as_str().unwrap() {
                "create" => refusal::<CreateSessionRequest>(content_type, body).await,
                "create_with_id" => refusal::<InitialStateBody>(content_type, body).await,
                "update" => refusal::<UpdateSessionRequest>(content_type, body).await,
                "memory" => refusal::<UpdateMemoryRequest>(content_type, body).await,
                "run" => refusal::<RunAgentRequest>(content_type, body).await,
                _ => refusal::<SaveArtifactRequest>(content_type, body).await,
            };
            if found != (case["status"].as_u64().unwrap() as u16, case["detail"].clone()) {
                unlike
                    .push(format!("{} {}\n  it: {}\n  us: {}", case["request"], case["body"], case["detail"], found.1));
            }
        }
        assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), measured.len(), unlike.join("\n"));
    }

    #[tokio::test]
    async fn what_would_not_come_back_as_it_is_is_refused_where_it_stands() {
        for (body, at) in [
            ("{\"state\":{\"a\":18446744073709551616}}", 14),
            ("{\"state\":{\"a\":NaN}}", 14),
            ("{\"state\":{\"a\":-Infinity}}", 14),
            ("{\"state\":{\"a\":\"\\ud800\"}}", 14),
            ("{\"state\":{\"a\":1e400}}", 14),
            (&format!("{}1{}", "[".repeat(200), "]".repeat(200)), 127),
            (&"[".repeat(1_000_000), 127),
        ] {
            assert_eq!(refused::<CreateSessionRequest>(body).await[0]["loc"], json!(["body", at]));
        }
    }

    #[tokio::test]
    async fn what_is_no_text_is_a_bad_request() {
        for body in [b"\xff{}".as_slice(), b"\x1f\x8b\x08\x00", b"{\"a\":\"\xc3\"}"] {
            let found = refusal::<CreateSessionRequest>(Some("application/json"), body).await;
            assert_eq!(found, (400, json!("There was an error parsing the body")));
        }
    }

    #[tokio::test]
    async fn only_json_types_are_read() {
        for good in ["application/json", "APPLICATION/JSON; charset=utf-8", "application/vnd.api+json"] {
            assert_eq!(refusal::<CreateSessionRequest>(Some(good), b"{}").await.0, 0, "{good}");
        }
    }

    #[test]
    fn a_model_takes_both_spellings_and_writes_one() {
        let body = json!({"session_id": "a", "sessionId": "b", "bogus": 1, "state": {"snake_key": null}, "events": [
            {"invocation_id": "i", "timestamp": "5.5", "partial": "no", "content": null,
             "actions": {"state_delta": {"a": null}, "artifactDelta": {"f": 1.0}}}]});
        let request: CreateSessionRequest = from_value(body).unwrap();
        assert_eq!(request.session_id.as_deref(), Some("b"));
        assert_eq!(Value::Object(request.state.unwrap()), json!({"snake_key": null}));
        let event = &request.events.unwrap()[0];
        assert_eq!((event.invocation_id.as_str(), event.timestamp, event.partial), ("i", Some(5.5), Some(false)));
        assert!(event.actions.state_delta.contains("a") && event.actions.artifact_delta["f"] == 1);
    }
}
