//! A request's body, read whole before anything is made of it.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use scratchbook::{Error, ErrorKind};
use tokio::time::timeout;

use crate::refusal;
use crate::served::Served;

/// Reads the body, within the limits of its length and its time: handlers find it whole.
pub(crate) async fn read_whole(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if body.is_end_stream() {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let limits = &served.limits;
    let path = parts.uri.path();
    let too_long = || {
        let message = format!("the body has more than the {} bytes that are taken", limits.body_bytes);
        refuse(path, StatusCode::PAYLOAD_TOO_LARGE, Error::new(ErrorKind::PayloadTooLarge, message))
    };
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return too_long();
    }
    match timeout(limits.body_time, Limited::new(body, limits.body_bytes).collect()).await {
        Ok(Ok(body)) => next.run(Request::from_parts(parts, Body::from(body.to_bytes()))).await,
        Ok(Err(error)) if error.is::<LengthLimitError>() => too_long(),
        // In ADK's words.
        Ok(Err(_)) => {
            let error = Error::invalid("There was an error parsing the body");
            refuse(path, StatusCode::BAD_REQUEST, error)
        }
        Err(_) => {
            let seconds = limits.body_time.as_secs_f64();
            let message = format!("the body did not come within the {seconds} seconds that it may take");
            refuse(path, StatusCode::REQUEST_TIMEOUT, Error::new(ErrorKind::Unavailable, message))
        }
    }
}

/// What is left of the body is not read: the connection ends with the answer.
fn refuse(path: &str, status: StatusCode, error: Error) -> Response {
    let mut response = refusal::with_status(path, status, error);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
