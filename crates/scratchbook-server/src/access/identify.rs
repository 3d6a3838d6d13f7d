//! The layers that identify the caller of a request, and refuse a request without a caller.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::environment::Environment;
use scratchbook::{Error, ErrorKind};

use super::login::LoginError;
use super::{Access, Caller, is_open_to_all};
use crate::refusal::RefusedRequest;
use crate::surface::Surface;

/// The refusal of a request that was sent without a token.
const TAKES_TOKEN: &str = "this takes a token: send 'Authorization: Bearer TOKEN'";
const TAKES_TOKEN_OR_KEY: &str = "this takes a token: send 'Authorization: Bearer TOKEN' or 'x-goog-api-key: TOKEN', the \
     credentials or the api_key of a client; a key in the address ('?key=') is ignored";

/// The caller of a request, or the reason why the request has none. A request to a path that is open to all has no
/// identity.
#[derive(Clone, Debug)]
pub(crate) struct Identity(Result<Caller, LoginError>);

impl Identity {
    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.0.as_ref().ok()
    }
}

/// The token of an identified caller, as it was sent. It is no longer among the headers of the request.
#[derive(Clone, Debug)]
pub(crate) struct SentToken(pub(crate) HeaderValue);

/// Identifies the caller, unless the path is open to all.
pub(crate) async fn identify(
    State(access): State<Access>,
    State(environment): State<Arc<dyn Environment>>,
    mut request: Request,
    next: Next,
) -> Response {
    if !is_open_to_all(request.uri().path()) {
        let caller = access.caller(request.headers(), environment.now());
        request.extensions_mut().insert(Identity(caller));
    }
    next.run(request).await
}

/// Refuses a request whose caller was not identified. For all other requests, handlers find the [`Caller`] in the
/// extensions.
pub(crate) async fn require_caller(mut request: Request, next: Next) -> Response {
    let Some(Identity(caller)) = request.extensions_mut().remove() else { return next.run(request).await };
    match caller {
        Ok(caller) => request.extensions_mut().insert(caller),
        Err(error) => return unauthenticated(request.uri().path(), error),
    };
    // No handler needs the token. It is removed, so that no handler can show it.
    if let Some(token) = request.headers_mut().remove(AUTHORIZATION) {
        request.extensions_mut().insert(SentToken(token));
    }
    next.run(request).await
}

/// Returns the answer 401, with the challenge of RFC 6750.
fn unauthenticated(path: &str, error: LoginError) -> Response {
    let (challenge, message) = match error {
        LoginError::Missing if Surface::of(path) == Some(Surface::Vertex) => ("Bearer", TAKES_TOKEN_OR_KEY.to_owned()),
        LoginError::Missing => ("Bearer", TAKES_TOKEN.to_owned()),
        LoginError::Invalid(message) => (r#"Bearer error="invalid_token""#, message),
    };
    let mut response = RefusedRequest::from(Error::new(ErrorKind::Unauthenticated, message)).into_response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}
