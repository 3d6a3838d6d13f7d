//! Counts the connections of each login. If connections are scarce, refuses a login that has most of them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;
use scratchbook::{Error, ErrorKind};

use super::ConnectionHandle;
use crate::access::{Access, Caller};
use crate::refusal::RefusedRequest;

/// Counts a connection for the login of its request. Without a login there is nothing to count.
pub(crate) async fn count_login(State(access): State<Access>, request: Request, next: Next) -> Response {
    let (line, caller) = (request.extensions().get::<Arc<ConnectionHandle>>(), request.extensions().get::<Caller>());
    if let (Access::Login(_), Some(line), Some(caller)) = (&access, line, caller)
        && !line.log_in(caller.login())
    {
        return more_than_its_share();
    }
    next.run(request).await
}

fn more_than_its_share() -> Response {
    let message = "your requests are under way on more than half of all connections, and others need some; try again";
    let mut response = RefusedRequest::from(Error::new(ErrorKind::ResourceExhausted, message)).retry_soon();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
