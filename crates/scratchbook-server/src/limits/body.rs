//! A request's body, read whole before anything is made of it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use scratchbook::{Error, ErrorKind};
use tokio::time::timeout;

use super::ServerLimits;
use super::time::runs_agents;
use crate::access::Caller;
use crate::bodies::{Held, LARGE};
use crate::refusal;
use crate::served::Served;

/// For how much more room is taken where it is not said how long the body is.
const STEP: usize = 1 << 20;

/// Reads the body, within the limits of its length and its time: handlers find it whole.
pub(crate) async fn read_whole(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if body.is_end_stream() {
        return next.run(Request::from_parts(parts, body)).await;
    }
    if parts.extensions.get::<Caller>().is_none() {
        // What is open to all takes no body, and a stranger has no room for one.
        let mut response = next.run(Request::from_parts(parts, Body::empty())).await;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    let path = parts.uri.path().to_owned();
    let held = Held::new(parts.extensions.get::<Caller>());
    let declared = body.size_hint().lower();
    let mut body = Limited::new(body, served.limits.body_bytes);
    let bytes = match read(&mut body, declared, &served, &held).await {
        Ok(bytes) => bytes,
        Err(refused) => {
            if matches!(refused, Refused::NoRoom(_)) {
                held.release();
                pass_by(body).await;
            }
            return refused.answer(&path, &served.limits);
        }
    };
    let mut request = Request::from_parts(parts, Body::from(bytes));
    request.extensions_mut().insert(held.clone());
    let mut response = next.run(request).await;
    if held.was_refused() {
        response.headers_mut().insert(RETRY_AFTER, SOON);
    }
    response
}

/// How long a body may come that is not taken.
const PASSING_BY: Duration = Duration::from_secs(2);

/// Has requests with large bodies answered off the runtime's workers, but for those that run agents, whose bodies alone
/// are: an agent may take hours.
pub(crate) async fn leave_workers(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let is_large = request.body().size_hint().lower() > LARGE as u64;
    let held = request.extensions().get::<Held>().cloned();
    let Some(held) = held.filter(|_| is_large && !runs_agents(&request)) else {
        return next.run(request).await;
    };
    let path = request.uri().path().to_owned();
    match served.heavy.enter().await {
        Ok(place) => {
            held.leave_workers();
            // As long as it is worked on, whether anybody still waits for it or not.
            let answer = async move {
                let answer = next.run(request).await;
                drop(held);
                answer
            };
            place.drive(answer).await.unwrap_or_else(|error| refusal::of(&path, error))
        }
        Err(error) => {
            held.mark_refused();
            refusal::of(&path, error)
        }
    }
}

/// When a body for which there was no room may be sent again, in seconds.
const SOON: HeaderValue = HeaderValue::from_static("1");

/// Why a body was not read.
enum Refused {
    TooLong,
    BrokenOff,
    TooSlow,
    NoRoom(Error),
}

/// Lets a body come to its end, for a while: who is still sending would be cut off, and not hear that it may send again.
async fn pass_by(mut body: Limited<Body>) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    drop(timeout(PASSING_BY, rest).await);
}

/// Reads a body of which it is said how long it is at least.
async fn read(body: &mut Limited<Body>, declared: u64, served: &Served, held: &Held) -> Result<Bytes, Refused> {
    let (limits, room) = (&served.limits, &served.room);
    if declared > limits.body_bytes as u64 {
        return Err(Refused::TooLong);
    }
    let declared = usize::try_from(declared).unwrap_or(usize::MAX);
    let mut taken = if declared > LARGE { declared } else { LARGE };
    if declared > LARGE {
        held.take_bytes(room, declared as u64).await.map_err(Refused::NoRoom)?;
    }
    let collect = async {
        let mut bytes = Vec::with_capacity(declared);
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| if error.is::<LengthLimitError>() { Refused::TooLong } else { Refused::BrokenOff })?;
            let Ok(data) = frame.into_data() else { continue };
            while bytes.len() + data.len() > taken {
                held.take_bytes(room, STEP as u64).await.map_err(Refused::NoRoom)?;
                taken += STEP;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Bytes::from(bytes))
    };
    timeout(limits.body_time, collect).await.unwrap_or(Err(Refused::TooSlow))
}

impl Refused {
    fn answer(self, path: &str, limits: &ServerLimits) -> Response {
        match self {
            Self::TooLong => {
                let message = format!("the body has more than the {} bytes that are taken", limits.body_bytes);
                refuse(path, StatusCode::PAYLOAD_TOO_LARGE, Error::new(ErrorKind::PayloadTooLarge, message))
            }
            // In ADK's words.
            Self::BrokenOff => {
                refuse(path, StatusCode::BAD_REQUEST, Error::invalid("There was an error parsing the body"))
            }
            Self::TooSlow => {
                let seconds = limits.body_time.as_secs_f64();
                let message = format!("the body did not come within the {seconds} seconds that it may take");
                refuse(path, StatusCode::REQUEST_TIMEOUT, Error::new(ErrorKind::Unavailable, message))
            }
            Self::NoRoom(error) => {
                let mut response = refuse(path, StatusCode::SERVICE_UNAVAILABLE, error);
                response.headers_mut().insert(RETRY_AFTER, SOON);
                response
            }
        }
    }
}

/// What is left of the body is not read: the connection ends with the answer.
fn refuse(path: &str, status: StatusCode, error: Error) -> Response {
    let mut response = refusal::with_status(path, status, error);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
