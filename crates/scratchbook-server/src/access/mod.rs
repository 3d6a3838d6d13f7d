//! Who calls, and what they may.

mod caller;
mod jwt;
mod login;
mod new_token;
mod tokens;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::Response;
use scratchbook::{Error, ErrorKind};

use crate::refusal;
use crate::served::Served;

pub(crate) use caller::Caller;
pub use caller::Right;
use login::Closed;
pub(crate) use login::Gate;
pub use login::Login;
pub use new_token::{MadeToken, NewToken};

/// What is open to all: whether the server is there and can work, which says nothing of what it holds.
const OPEN_TO_ALL: [&str; 2] = ["/health", "/health/ready"];

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
    request.headers_mut().remove(AUTHORIZATION);
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// The answer of RFC 6750.
fn refuse(path: &str, closed: Closed) -> Response {
    let (challenge, message) = match closed {
        Closed::Missing(message) => ("Bearer", message),
        Closed::Invalid(message) => (r#"Bearer error="invalid_token""#, message),
    };
    let mut response = refusal::of(path, Error::new(ErrorKind::Unauthenticated, message));
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}
