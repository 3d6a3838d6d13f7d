//! Who calls, and what they may.

mod account;
mod caller;
mod jwt;
mod login;
mod new_token;
mod tokens;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use scratchbook::{Error, ErrorKind};
use tokio::time::sleep;

use crate::refusal;
use crate::served::Served;
use crate::{sse, vertex};

pub(crate) use account::{Account, LoginName};
pub(crate) use caller::Caller;
pub use caller::Right;
use login::Closed;
pub(crate) use login::Gate;
pub use login::Login;
pub use new_token::{MadeToken, NewToken};

/// What is open to all: whether the server is there and can work, which says nothing of what it holds.
const OPEN_TO_ALL: [&str; 2] = ["/health", "/health/ready"];

/// Where Google's clients put a key, in place of a token.
const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// What is said to who sends no token.
const TAKES_TOKEN: &str = "this takes a token: send 'Authorization: Bearer TOKEN'";
const TAKES_TOKEN_OR_KEY: &str = "this takes a token: send 'Authorization: Bearer TOKEN' or 'x-goog-api-key: TOKEN', the \
     credentials or the api_key of a client; a key in the address ('?key=') is ignored";

/// How the routes of streams end that go on for ever.
const WATCHES: &str = "/watch";

/// How often it is looked whether who follows such a stream would still be let in.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Who is let in.
#[derive(Debug)]
pub(crate) enum Access {
    /// Everyone, to everything: for a machine of one's own.
    Open,
    /// Who has a token.
    Login(Gate),
}

/// Finds out who calls, before anything else is looked at.
pub(crate) async fn identify(State(served): State<Arc<Served>>, mut request: Request, next: Next) -> Response {
    if OPEN_TO_ALL.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    if vertex::serves(request.uri().path()) {
        take_api_key(request.headers_mut());
    }
    let caller = match &served.access {
        Access::Open => Ok(Caller::anyone()),
        Access::Login(gate) => gate.caller(request.headers(), served.environment.now()),
    };
    let rates = served.rates.as_ref();
    if let Some(one_too_many) = rates.and_then(|rates| rates.count(caller.as_ref().ok(), &request)) {
        return one_too_many;
    }
    let caller = match caller {
        Ok(caller) => caller,
        Err(closed) => return refuse(request.uri().path(), closed),
    };
    // Nothing further in has a use for the token, so that nothing can show it.
    let token = request.headers_mut().remove(AUTHORIZATION);
    let route = request.extensions().get::<MatchedPath>();
    let endless = token.filter(|_| route.is_some_and(|route| route.as_str().ends_with(WATCHES)));
    request.extensions_mut().insert(caller.clone());
    let response = next.run(request).await;
    match endless {
        Some(token) => sse::until(response, let_in_no_more(served, caller, token)),
        None => response,
    }
}

/// Takes a key of Google's clients for a token, where there is no other.
fn take_api_key(headers: &mut HeaderMap) {
    if headers.get_all(API_KEY).iter().count() > 1 {
        return;
    }
    let Some(key) = headers.remove(API_KEY) else { return };
    let token = HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()).ok();
    if let Some(token) = token.filter(|_| !headers.contains_key(AUTHORIZATION)) {
        headers.insert(AUTHORIZATION, token);
    }
}

/// Ready when a token does not let this caller in any more: it has expired, or was taken back.
async fn let_in_no_more(served: Arc<Served>, caller: Caller, token: HeaderValue) {
    let headers = HeaderMap::from_iter([(AUTHORIZATION, token)]);
    if let Access::Login(gate) = &served.access {
        let is_let_in = || gate.caller(&headers, served.environment.now()).is_ok_and(|now| now == caller);
        while is_let_in() {
            sleep(LOOK_EVERY).await;
        }
    } else {
        pending::<()>().await;
    }
}

/// The answer of RFC 6750.
fn refuse(path: &str, closed: Closed) -> Response {
    let (challenge, message) = match closed {
        Closed::Missing if vertex::serves(path) => ("Bearer", TAKES_TOKEN_OR_KEY.to_owned()),
        Closed::Missing => ("Bearer", TAKES_TOKEN.to_owned()),
        Closed::Invalid(message) => (r#"Bearer error="invalid_token""#, message),
    };
    let mut response = refusal::of(path, Error::new(ErrorKind::Unauthenticated, message));
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}
