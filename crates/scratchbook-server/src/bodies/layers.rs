//! The layers that read a request's body whole, and answer requests with large bodies on separate threads.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use scratchbook::{Error, ErrorKind};
use tokio::time::timeout;

use super::{BodyState, Held, LARGE};
use crate::access::Caller;
use crate::browser;
use crate::limits::{ServerLimits, begins_run};
use crate::refusal::{RefusedRequest, retry_soon};

/// The step in which more room is taken if the length of the body is not known in advance.
const STEP: usize = 1 << 20;

/// Reads the whole body, within the limits of length and time, before the handler runs.
pub(crate) async fn read_whole(State(state): State<BodyState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if body.is_end_stream() {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let is_stranger = parts.extensions.get::<Caller>().is_none();
    if is_stranger && !browser::takes_form(&parts) {
        // Paths that are open to all take no body except the login form. A caller without a login gets no room for a
        // body.
        let mut response = next.run(Request::from_parts(parts, Body::empty())).await;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    let held = Held::new(parts.extensions.get::<Caller>());
    let declared = body.size_hint().lower();
    let most = if is_stranger { browser::FORM_BYTES } else { state.limits.body_bytes };
    let mut body = Limited::new(body, most);
    let bytes = match read(&mut body, most, declared, &state, &held).await {
        Ok(bytes) => bytes,
        Err(refused) => {
            if matches!(refused, Unreadable::NoRoom(_)) {
                held.release();
                pass_by(body).await;
            }
            return refused.answer(&state.limits);
        }
    };
    let mut request = Request::from_parts(parts, Body::from(bytes));
    // The room of the body is held until the request is answered or the handler releases the room.
    request.extensions_mut().insert(held.clone());
    let response = next.run(request).await;
    drop(held);
    response
}

/// How long the rest of a refused body is read.
const PASSING_BY: Duration = Duration::from_secs(2);

/// Answers requests with large bodies on separate threads, and not on the runtime's workers. For requests that begin
/// runs, only the body is parsed there, since an agent may take hours.
pub(crate) async fn leave_workers(State(state): State<BodyState>, request: Request, next: Next) -> Response {
    let is_large = request.body().size_hint().lower() > LARGE as u64;
    let held = request.extensions().get::<Held>().cloned();
    let Some(held) = held.filter(|_| is_large && !begins_run(&request)) else {
        return next.run(request).await;
    };
    match state.heavy.enter().await {
        Ok(place) => {
            held.leave_workers(place.clone());
            // The permit is held until the work is done, even if no client waits for the answer.
            let answer = async move {
                let answer = next.run(request).await;
                drop(held);
                answer
            };
            place.drive(answer).await.unwrap_or_else(|error| RefusedRequest::from(error).into_response())
        }
        Err(error) => RefusedRequest::from(error).retry_soon(),
    }
}

/// Why a body was not read.
enum Unreadable {
    /// The body is longer than this limit, in bytes.
    TooLong(usize),
    BrokenOff,
    TooSlow,
    NoRoom(Error),
}

/// Reads the rest of a body for a while, so that a client that is still sending gets the answer.
async fn pass_by(mut body: Limited<Body>) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    drop(timeout(PASSING_BY, rest).await);
}

/// Reads a body of at most `most` bytes. `declared` is the minimum length according to its headers.
async fn read(
    body: &mut Limited<Body>,
    most: usize,
    declared: u64,
    state: &BodyState,
    held: &Held,
) -> Result<Bytes, Unreadable> {
    let (limits, room) = (&state.limits, &state.room);
    if declared > most as u64 {
        return Err(Unreadable::TooLong(most));
    }
    let declared = usize::try_from(declared).unwrap_or(usize::MAX);
    let mut taken = if declared > LARGE { declared } else { LARGE };
    if declared > LARGE {
        held.take_bytes(room, declared as u64).await.map_err(Unreadable::NoRoom)?;
    }
    let collect = async {
        let mut bytes = Vec::with_capacity(declared);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() { Unreadable::TooLong(most) } else { Unreadable::BrokenOff }
            })?;
            let Ok(data) = frame.into_data() else { continue };
            while bytes.len() + data.len() > taken {
                held.take_bytes(room, STEP as u64).await.map_err(Unreadable::NoRoom)?;
                taken += STEP;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Bytes::from(bytes))
    };
    timeout(limits.body_time, collect).await.unwrap_or(Err(Unreadable::TooSlow))
}

impl Unreadable {
    fn answer(self, limits: &ServerLimits) -> Response {
        match self {
            Self::TooLong(most) => {
                let message = format!("the body has more than the {most} bytes that are taken");
                refuse(StatusCode::PAYLOAD_TOO_LARGE, Error::new(ErrorKind::PayloadTooLarge, message))
            }
            // The message is ADK's.
            Self::BrokenOff => refuse(StatusCode::BAD_REQUEST, Error::invalid("There was an error parsing the body")),
            Self::TooSlow => {
                let seconds = limits.body_time.as_secs_f64();
                let message = format!("the body did not come within the {seconds} seconds that it may take");
                refuse(StatusCode::REQUEST_TIMEOUT, Error::new(ErrorKind::Unavailable, message))
            }
            Self::NoRoom(error) => {
                let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, error);
                retry_soon(&mut response);
                response
            }
        }
    }
}

/// Returns a refusal. The rest of the body is not read, so the connection ends with the answer.
fn refuse(status: StatusCode, error: Error) -> Response {
    let mut response = RefusedRequest::with_status(status, error).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use axum::http::header::CONTENT_TYPE;
    use scratchbook::connect;
    use tokio::time::sleep;
    use tower::ServiceExt;

    use super::*;
    use crate::Server;

    #[tokio::test(flavor = "multi_thread")]
    async fn bodies_that_wait_for_room_keep_none_from_being_worked_on() {
        let server = Server::builder(connect("memory:").await.unwrap()).build().unwrap();
        let (app_state, router) = (server.app_state(), server.router());
        let everything = Held::default();
        everything.take_parsed(&app_state.room, app_state.limits.body_memory as u64).await.unwrap();
        // There are at most four places for large work, so four bodies of each kind are sent.
        let zeros = vec!["0"; 90_000].join(",");
        let session = format!(r#"{{"state":{{"k":[{zeros}]}}}}"#);
        let run = format!(
            r#"{{"appName":"a","userId":"u","sessionId":"s","stateDelta":{{"k":[{zeros}]}},
                "newMessage":{{"role":"user","parts":[{{"text":"x"}}]}}}}"#
        );
        let ask = |path: &'static str, body: &str| {
            let request = Request::post(path).header(CONTENT_TYPE, "application/json");
            tokio::spawn(router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()))
        };
        let asked = (0..4).map(|_| [ask("/v1/apps/a/users/u/sessions", &session), ask("/run", &run)]);
        let asked: Vec<_> = asked.flatten().collect();
        sleep(Duration::from_secs(1)).await;
        assert!(asked.iter().all(|asked| !asked.is_finished()), "there is no room for them");
        let place = timeout(Duration::from_millis(500), app_state.heavy.enter()).await;
        drop(place.expect("nobody works, and yet there is no place").unwrap());
        drop(everything);
        for asked in asked {
            // The run is refused with 404, since the app does not exist.
            let status = asked.await.unwrap().unwrap().status().as_u16();
            assert!([201, 404].contains(&status), "{status}");
        }
    }
}
