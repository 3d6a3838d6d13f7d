//! Who follows a stream of events: for how long they may, and how many of them.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::RequestExt;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use tokio::time::sleep;

use super::{Access, Caller};
use crate::limits::OpenStream;
use crate::served::Served;
use crate::{refusal, sse};

/// How often it is looked whether somebody who follows a stream would still be let in. Files of a login are read again
/// within a second, so that a stream ends within five of the end of its token.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// The name of the user in the paths of routes.
const USER: &str = "user";

/// Somebody whose request may be answered by a stream.
pub(super) struct Follower {
    served: Arc<Served>,
    caller: Caller,
    token: Option<HeaderValue>,
    /// The user that the path names.
    user_id: Option<String>,
    uri: Uri,
    /// Whether the answer is all there is: nothing was begun that would go on without it.
    is_safe: bool,
}

impl Follower {
    pub(super) async fn new(
        served: Arc<Served>,
        caller: Caller,
        token: Option<HeaderValue>,
        request: &mut Request,
    ) -> Self {
        let (uri, is_safe) = (request.uri().clone(), request.method().is_safe());
        let params = request.extract_parts::<RawPathParams>().await.ok();
        let of_path = params.as_ref().and_then(|params| params.iter().find(|(name, _)| *name == USER));
        let user_id = of_path.map(|(_, user_id)| user_id.to_owned());
        Self { served, caller, token, user_id, uri, is_safe }
    }

    /// Has a stream end, between two frames, when who follows it would not be let in any more, or has to make room for
    /// another. One stream more than the caller may follow is refused, unless its request has begun something.
    pub(super) fn follow(self, response: Response) -> Response {
        if !sse::is_stream(&response) {
            return response;
        }
        let account = self.caller.account(self.user_id.as_deref());
        match self.served.streams.open(self.caller.login().clone(), account) {
            Ok(stream) => sse::until(response, self.has_to_end(Some(stream))),
            Err(error) if self.is_safe => {
                let mut refused = refusal::of(self.uri.path(), error);
                refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
                refused
            }
            Err(_) => sse::until(response, self.has_to_end(None)),
        }
    }

    async fn has_to_end(self, stream: Option<OpenStream>) {
        let makes_room = async {
            match &stream {
                Some(stream) => stream.has_to_end().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.is_let_in_no_more() => {}
            () = makes_room => {}
        }
    }

    /// Ready when the token does not let this caller in any more: it has expired, or was taken back.
    async fn is_let_in_no_more(&self) {
        let (Access::Login(gate), Some(token)) = (&self.served.access, &self.token) else {
            return pending().await;
        };
        let headers = HeaderMap::from_iter([(AUTHORIZATION, token.clone())]);
        let is_let_in = || gate.caller(&headers, self.served.environment.now()).is_ok_and(|now| now == self.caller);
        while is_let_in() {
            sleep(LOOK_EVERY).await;
        }
    }
}
