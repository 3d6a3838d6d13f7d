//! Server-sent events. Each frame is one chunk of the body and is sent at once.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use async_stream::stream;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use scratchbook::json::escape_line_ends;
use serde::Serialize;
use tokio::time::timeout;

/// The interval of heartbeats, which show each end that the other end is alive.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// The heartbeat: a comment, which clients do not treat as an event.
pub(crate) const SIGN_OF_LIFE: Bytes = Bytes::from_static(b":\n\n");

/// The header with the id of the run that an answer belongs to.
const INVOCATION_ID: HeaderName = HeaderName::from_static("scratchbook-invocation-id");

/// Returns an answer that streams a run.
pub(crate) fn response(invocation_id: &str, frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = stream(frames);
    name(&mut response, invocation_id);
    response
}

/// Returns an answer that streams frames until there are no more. A stream that is quiet sends heartbeats, since proxies
/// cut off connections on which nothing is sent.
pub(crate) fn stream(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    // Without this header proxies would gather frames or split them.
    const UNBUFFERED: (HeaderName, HeaderValue) =
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    const UNKEPT: (HeaderName, HeaderValue) = (CACHE_CONTROL, HeaderValue::from_static("no-store"));
    const EVENTS: (HeaderName, HeaderValue) =
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    let body = stream! {
        let mut frames = pin!(frames);
        loop {
            match timeout(HEARTBEAT, frames.next()).await {
                Ok(Some(frame)) => yield Ok::<_, Infallible>(on_one_line(frame)),
                Ok(None) => return,
                Err(_) => yield Ok(SIGN_OF_LIFE),
            }
        }
    };
    let body = Body::from_stream(body);
    ([EVENTS, UNBUFFERED, UNKEPT], body).into_response()
}

/// Escapes line ends that JSON does not escape, so that every client finds the same lines in a frame.
pub(crate) fn on_one_line(frame: Bytes) -> Bytes {
    match escape_line_ends(&frame) {
        Cow::Borrowed(_) => frame,
        Cow::Owned(escaped) => escaped.into(),
    }
}

/// Returns a frame with a name and JSON.
pub(crate) fn frame(name: &str, data: &impl Serialize) -> Bytes {
    format!("event: {name}\ndata: {}\n\n", line(data)).into()
}

/// Writes JSON on one line.
pub(crate) fn line(data: &impl Serialize) -> String {
    // Our own types have only text as keys, so they can always be written.
    serde_json::to_string(data).unwrap_or_default()
}

/// Returns whether an answer is a stream of events.
pub(crate) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Ends a stream of events, between two frames, when `end` is ready. Any other answer stays as it is.
pub(crate) fn until(response: Response, end: impl Future<Output = ()> + Send + 'static) -> Response {
    if !is_stream(&response) {
        return response;
    }
    let end = Box::pin(end);
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(end)))
}

/// Adds the header with the run's id to an answer.
pub(crate) fn name(response: &mut Response, invocation_id: &str) {
    // An id that a client chose may not be valid in a header.
    if let Ok(id) = HeaderValue::from_str(invocation_id) {
        response.headers_mut().insert(INVOCATION_ID, id);
    }
}
