//! Who calls, and what they may.

mod account;
pub(crate) mod browser;
mod caller;
mod follower;
mod jwt;
mod login;
mod new_token;
mod tokens;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use scratchbook::{Error, ErrorKind};

use crate::listen::Line;
use crate::served::Served;
use crate::{refusal, vertex};

pub(crate) use account::{Account, LoginName};
pub(crate) use caller::Caller;
pub use caller::Right;
use follower::Follower;
use login::Closed;
pub(crate) use login::Gate;
pub use login::Login;
pub use new_token::{MadeToken, NewToken};

/// What is open to all: whether the server is there and can work, which says nothing of what it holds; and the way in.
const OPEN_TO_ALL: [&str; 4] = ["/health", "/health/ready", browser::LOGIN, browser::LOGOUT];

/// Where Google's clients put a key, in place of a token.
const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// What is said to who sends no token.
const TAKES_TOKEN: &str = "this takes a token: send 'Authorization: Bearer TOKEN'";
const TAKES_TOKEN_OR_KEY: &str = "this takes a token: send 'Authorization: Bearer TOKEN' or 'x-goog-api-key: TOKEN', the \
     credentials or the api_key of a client; a key in the address ('?key=') is ignored";

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
    browser::take_cookie(&mut request);
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
        Err(closed) => {
            let login = browser::instead_of(request.method(), request.uri(), request.headers());
            return login.unwrap_or_else(|| refuse(request.uri().path(), closed));
        }
    };
    // Nothing further in has a use for the token, so that nothing can show it.
    let token = request.headers_mut().remove(AUTHORIZATION);
    let line = request.extensions().get::<Arc<Line>>();
    if let (Access::Login(_), Some(line)) = (&served.access, line)
        && !line.log_in(caller.login())
    {
        return more_than_its_share(request.uri().path());
    }
    request.extensions_mut().insert(caller.clone());
    let follower = Follower::new(served, caller, token, &mut request).await;
    follower.follow(next.run(request).await)
}

/// The answer to a login that has most connections while others are short of them.
fn more_than_its_share(path: &str) -> Response {
    let message = "your requests are under way on more than half of all connections, and others need some; try again";
    let mut response = refusal::for_now(path, Error::new(ErrorKind::ResourceExhausted, message));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
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
