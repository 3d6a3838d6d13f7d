//! Extractors of `/v1`: bodies of JSON and queries, which refuse unknown fields.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use percent_encoding::percent_decode;
use scratchbook::{Error, ErrorKind, Result, json};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::ApiError;
use crate::app_state::AppState;
use crate::bodies::{Shape, Unread};
use crate::scope;
use crate::wire_names::is_json;

/// A body of JSON. Unknown fields are refused, and so are numbers that could not be returned unchanged.
#[derive(Debug)]
pub(super) struct Body<T>(pub(super) T);

/// The parameters of a query. Unknown ones are refused.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

/// No parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParams {}

/// A query without parameters.
pub(super) type NoQuery = Query<NoParams>;

/// The key that a path names as `{key}`.
#[derive(Debug)]
pub(super) struct PathKey(pub(super) String);

/// The name of an artifact that a path names as `{artifact}`.
#[derive(Debug)]
pub(super) struct PathArtifact(pub(super) String);

/// The id of an event that a path names as `{event}`.
#[derive(Debug)]
pub(super) struct PathEvent(pub(super) String);

/// The id of an invocation that a path names as `{invocation}`.
#[derive(Debug)]
pub(super) struct PathInvocation(pub(super) String);

/// The number of an event that a path names as `{seq}`.
#[derive(Debug)]
pub(super) struct PathSeq(pub(super) u64);

/// A type into which a body is read.
pub(super) trait JsonRequest: DeserializeOwned + Send + 'static {
    /// The shape by which the body's items are counted before it is parsed.
    const SHAPE: &'static Shape = &Shape::Any;
}

impl<T: JsonRequest> FromRequest<AppState> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app_state: &AppState) -> Result<Self, ApiError> {
        check_content_type(request.headers())?;
        let unread = Unread::from_request(request, app_state).await.map_err(unreadable)?.into_json()?;
        // Serde would also read a struct from a list of its fields.
        match unread.bytes().iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => {}
            Some(_) => return Err(Error::invalid("the body is no JSON object; send one").into()),
            None => return Err(Error::invalid("the body is empty; send a JSON object").into()),
        }
        Ok(Self(unread.read(T::SHAPE, |bytes| read(&bytes)).await??))
    }
}

/// A body of any bytes.
#[derive(Debug)]
pub(super) struct BytesBody(pub(super) Bytes);

impl FromRequest<AppState> for BytesBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app_state: &AppState) -> Result<Self, ApiError> {
        let unread = Unread::from_request(request, app_state).await.map_err(unreadable)?;
        Ok(Self(unread.data().await?))
    }
}

/// Reads JSON. The error names the path at which the JSON does not match the type.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    json::from_slice(bytes).map_err(|error| {
        let place = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_slice(bytes));
        match place.map_err(|error| error.path().to_string()) {
            Err(path) if path != "." && path != "?" => error.context(path),
            _ => error,
        }
    })
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("not of text"));
    if is_json(text.unwrap_or_default()) {
        return Ok(());
    }
    let found = text.map_or_else(|| "missing".to_owned(), |text| format!("'{text}'"));
    let error = Error::invalid(format!("the body's content type is {found}; send 'application/json'"));
    Err(ApiError::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error))
}

fn unreadable(rejection: BytesRejection) -> ApiError {
    let status = rejection.status();
    let error = match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Error::new(ErrorKind::PayloadTooLarge, "the body is larger than the server takes")
        }
        _ => Error::invalid("the body ended before it was whole"),
    };
    ApiError::with_status(status, &error)
}

impl<T: DeserializeOwned> FromRequestParts<AppState> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        let text = parts.uri.query().unwrap_or_default().as_bytes();
        if percent_decode(text).decode_utf8().is_err() {
            return Err(Error::invalid("the query is not UTF-8").into());
        }
        let pairs = serde_html_form::Deserializer::new(form_urlencoded::parse(text));
        serde_path_to_error::deserialize(pairs).map(Self).map_err(|error| {
            let (path, inner) = (error.path().to_string(), error.into_inner());
            let error = Error::invalid(inner.to_string());
            ApiError::from(if path == "." { error.context("the query") } else { error.context(path) })
        })
    }
}

/// Implements extractors that read a parameter of a path.
macro_rules! from_path {
    ($($type:ident: $parameter:literal,)+) => {
        $(impl FromRequestParts<AppState> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
                let [text] = scope::named::<ApiError, _>(parts, [$parameter])?;
                Ok(Self(text))
            }
        })+
    };
}

from_path! {
    PathKey: "key",
    PathArtifact: "artifact",
    PathEvent: "event",
    PathInvocation: "invocation",
}

impl FromRequestParts<AppState> for PathSeq {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        let [seq] = scope::named::<ApiError, _>(parts, ["seq"])?;
        seq.parse().map(Self).map_err(|_| {
            let message = format!("'{seq}' is no number of an event; by its id an event is read at events/by-id/ID");
            Error::invalid(message).into()
        })
    }
}

/// Reads a field so that `null` differs from an absent field.
pub(super) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The page of a list without filters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Paged {
    /// The maximum number of items in a page, from 1 to 1,000.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    pub(super) page_size: usize,
    /// The `nextPageToken` of the previous page.
    pub(super) page_token: Option<String>,
}

/// The header in which a client that resumes a stream names the last event it has seen. Browsers send it by themselves.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The header [`LAST_EVENT_ID`], as the OpenAPI document describes it.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "the document alone reads it")]
pub(super) struct Resume {
    /// The last `id` that the client received. The stream continues after it. The header takes precedence over the
    /// query.
    #[param(rename = "Last-Event-ID")]
    last_event_id: Option<String>,
}

/// Refuses an invalid page size.
pub(super) fn page_size(name: &str, size: usize) -> Result<usize> {
    match size {
        1..=1000 => Ok(size),
        _ => Err(Error::invalid(format!("{name} is {size}; it is from 1 to 1,000"))),
    }
}

/// The size of a page if none is given.
pub(super) fn usual() -> usize {
    100
}
