//! Answers to conflicts name the page that shows both sides of them.

use axum::extract::{RawPathParams, Request};
use axum::http::header::LINK;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use scratchbook::SessionKey;

use super::address::{self, View};
use crate::access::{Caller, Right};

/// The key that a write conflicted on, in the extensions of its answer.
#[derive(Clone, Debug)]
pub(crate) struct ConflictKey(pub(crate) String);

/// Adds a `Link` to the page of the session, with the history of the key, if a write to a session conflicts and the caller
/// may read.
pub(crate) async fn link_conflicts(params: RawPathParams, request: Request, next: Next) -> Response {
    let may_read = request.extensions().get::<Caller>().is_some_and(|caller| caller.may(Right::Read));
    let key = session_key(&params).filter(|_| may_read);
    let mut response = next.run(request).await;
    if let Some(link) = key.filter(|_| response.status() == StatusCode::CONFLICT).and_then(|key| link(&key, &response))
    {
        response.headers_mut().append(LINK, link);
    }
    response
}

fn session_key(params: &RawPathParams) -> Option<SessionKey> {
    let named = |name: &str| params.iter().find(|(found, _)| *found == name).map(|(_, value)| value);
    SessionKey::new(named("app")?, named("user")?, named("session")?).ok()
}

fn link(key: &SessionKey, response: &Response) -> Option<HeaderValue> {
    let view = match response.extensions().get::<ConflictKey>() {
        Some(ConflictKey(name)) => View::default().with_key(name),
        None => View::default(),
    };
    HeaderValue::try_from(format!("<{}>; rel=\"related\"; type=\"text/html\"", address::session(key, &view))).ok()
}
