//! Ends streams of events and downloads when their callers lose access, and limits how many streams a caller follows.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_stream::stream;
use axum::RequestExt;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use scratchbook::environment::Environment;
use scratchbook::{Error, ErrorKind};
use tokio::time::sleep;

use super::streams::{OpenStream, Streams};
use crate::access::{Access, Caller, SentToken};
use crate::refusal::RefusedRequest;
use crate::sse;

/// How often the token of a follower is checked again. A changed file of tokens or keys is read again within a second,
/// so a stream ends at most five seconds after its token becomes invalid.
const CHECK_EVERY: Duration = Duration::from_secs(3);

/// The name of the user in the paths of routes.
const USER: &str = "user";

/// Marks an answer as a download, which may take as long as its client needs to read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Download;

/// A caller whose request may be answered by a stream.
struct StreamCaller {
    access: Access,
    environment: Arc<dyn Environment>,
    caller: Caller,
    token: Option<HeaderValue>,
}

/// Ends a stream, between two frames, when its caller could no longer log in, or when the stream has to make room for
/// another one. A stream beyond the caller's limit is refused, unless its request has started something that continues
/// without the stream. A download is broken off when its caller could no longer log in.
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
    if response.extensions().get::<Download>().is_some() {
        let follower = StreamCaller { access, environment, caller, token };
        return broken_off_at(response, follower.has_to_end(None));
    }
    if !sse::is_stream(&response) {
        return response;
    }
    let opened = streams.open(caller.login().clone(), caller.account(user_id.as_deref()));
    let follower = StreamCaller { access, environment, caller, token };
    match opened {
        Ok(stream) => sse::until(response, follower.has_to_end(Some(stream))),
        Err(error) if is_safe => {
            let mut refused = RefusedRequest::from(error).into_response();
            refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
            refused
        }
        Err(_) => sse::until(response, follower.has_to_end(None)),
    }
}

/// Ends a body with an error when `end` is ready, so that no client mistakes the received part for the complete body.
fn broken_off_at(response: Response, end: impl Future<Output = ()> + Send + 'static) -> Response {
    response.map(|body| {
        let mut parts = body.into_data_stream().take_until(Box::pin(end));
        Body::from_stream(stream! {
            while let Some(part) = parts.next().await {
                yield part;
            }
            if parts.take_result().is_some() {
                let message = "the token of this download does not count any more";
                yield Err(axum::Error::new(Error::new(ErrorKind::PermissionDenied, message)));
            }
        })
    })
}

/// Returns the user that the path of a request names.
async fn user_of(request: &mut Request) -> Option<String> {
    let params = request.extract_parts::<RawPathParams>().await.ok()?;
    params.iter().find(|(name, _)| *name == USER).map(|(_, user_id)| user_id.to_owned())
}

impl StreamCaller {
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

    /// Waits until the token no longer logs this caller in, because it has expired or was revoked.
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
