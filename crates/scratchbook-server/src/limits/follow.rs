//! Ends streams of events when their callers lose access, and limits how many a caller follows.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::RequestExt;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::environment::Environment;
use tokio::time::sleep;

use super::streams::{OpenStream, Streams};
use crate::access::{Access, Caller, SentToken};
use crate::refusal::Refused;
use crate::sse;

/// How often the token of a follower is checked again. Files of a login are read again within a second, so that a stream
/// ends at most five seconds after its token.
const CHECK_EVERY: Duration = Duration::from_secs(3);

/// The name of the user in the paths of routes.
const USER: &str = "user";

/// A caller whose request may be answered by a stream.
struct Follower {
    access: Access,
    environment: Arc<dyn Environment>,
    caller: Caller,
    token: Option<HeaderValue>,
}

/// Ends a stream, between two frames, when its caller would no longer be let in, or when it has to make room for another
/// stream. A stream beyond those that the caller may follow is refused, unless its request has started something that
/// goes on without it.
pub(crate) async fn follow_streams(
    State(access): State<Access>,
    State(environment): State<Arc<dyn Environment>>,
    State(streams): State<Arc<Streams>>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = request.extensions_mut().remove().map(|SentToken(token)| token);
    let Some(caller) = request.extensions().get::<Caller>().cloned() else { return next.run(request).await };
    let user_id = user_of(&mut request).await;
    let is_safe = request.method().is_safe();
    let response = next.run(request).await;
    if !sse::is_stream(&response) {
        return response;
    }
    let opened = streams.open(caller.login().clone(), caller.account(user_id.as_deref()));
    let follower = Follower { access, environment, caller, token };
    match opened {
        Ok(stream) => sse::until(response, follower.has_to_end(Some(stream))),
        Err(error) if is_safe => {
            let mut refused = Refused::from(error).into_response();
            refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
            refused
        }
        Err(_) => sse::until(response, follower.has_to_end(None)),
    }
}

/// The user that the path of a request names.
async fn user_of(request: &mut Request) -> Option<String> {
    let params = request.extract_parts::<RawPathParams>().await.ok()?;
    params.iter().find(|(name, _)| *name == USER).map(|(_, user_id)| user_id.to_owned())
}

impl Follower {
    async fn has_to_end(self, stream: Option<OpenStream>) {
        let makes_room = async {
            match &stream {
                Some(stream) => stream.has_to_end().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.is_locked_out() => {}
            () = makes_room => {}
        }
    }

    /// Ready when the token no longer logs this caller in: it has expired, or was revoked.
    async fn is_locked_out(&self) {
        let (Access::Login(_), Some(token)) = (&self.access, &self.token) else {
            return pending().await;
        };
        let headers = HeaderMap::from_iter([(AUTHORIZATION, token.clone())]);
        let is_let_in =
            || self.access.caller(&headers, self.environment.now()).is_ok_and(|caller| caller == self.caller);
        while is_let_in() {
            sleep(CHECK_EVERY).await;
        }
    }
}
