//! The layer around answers. It limits the bytes of each answer and of all answers together. From answers to callers
//! that are restricted to a user, it removes secrets of credentials.

mod budget;
mod shown;

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::access::{Account, Caller};
use crate::heavy::{is_small, off_worker};
use crate::limits::ServerLimits;
use crate::refusal::{RefusedRequest, retry_soon};
use crate::surface::Surface;

use budget::{BodyPieces, SMALL};
pub(crate) use budget::{Budget, Share, is_out_of_memory};
pub(crate) use scratchbook::agent::credentials::{is_credential_call, value_without_secrets, without_secrets};

/// The size, in bytes, of the pages in which the data of an answer is read, unless answers are limited to less.
pub(crate) const PAGE_BYTES: u64 = 4 << 20;

/// The size, in bytes, of the pages of streamed answers. A page is held in memory until the client has read it.
pub(crate) const STREAM_PAGE_BYTES: u64 = 1 << 20;

/// Limits an answer, and removes what its caller may not see.
pub(crate) async fn check(
    State(limits): State<Arc<ServerLimits>>,
    State(budget): State<Budget>,
    request: Request,
    next: Next,
) -> Response {
    let surface = Surface::of(request.uri().path());
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let caller = request.extensions().get::<Caller>();
    let is_of_user = caller.is_some_and(|caller| caller.user().is_some());
    let account = caller.and_then(Caller::own_account);
    // Saved artifacts are returned unchanged.
    let route = request.extensions().get::<MatchedPath>();
    let is_artifact = is_read && route.is_some_and(|route| route.as_str().ends_with("/artifacts/{artifact}"));
    let is_of_user = is_of_user && !is_artifact;
    let mut response = next.run(request).await;
    // ADK's surface has already left out the secrets, for every caller.
    if is_of_user && matches!(surface, Some(Surface::Vertex | Surface::V1)) {
        response = match shown::to_user(response).await {
            Ok(response) => response,
            Err(error) => return RefusedRequest::from(error).into_response(),
        };
    }
    let is_committed_write = !is_read && response.status().is_success();
    let bounded = if is_committed_write {
        held(&budget, account, response).await
    } else {
        bounded(limits.answer_bytes, budget.share_of(account), response)
    };
    let mut response = bounded.unwrap_or_else(|error| RefusedRequest::from(error).into_response());
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        retry_soon(&mut response);
    }
    response
}

/// Limits the answer to a read, or an error, which holds its share of the memory until it is sent.
fn bounded(answer_bytes: usize, mut share: Share, response: Response) -> Result<Response> {
    let (response, bytes) = uncounted(response);
    let Some(bytes) = bytes.filter(|bytes| *bytes >= SMALL) else { return Ok(response) };
    if response.status().is_success() && bytes > answer_bytes {
        return Err(too_large(answer_bytes, "ask for less of it: pages, some keys, or fewer events"));
    }
    share.grow_to(bytes)?;
    Ok(share.hold(response))
}

/// Lets the answer to a write hold its share of the memory until it is sent. A committed write is never refused because
/// its answer is long.
async fn held(budget: &Budget, account: Option<Account>, response: Response) -> Result<Response> {
    match uncounted(response) {
        (response, Some(bytes)) if bytes >= SMALL => Ok(budget.share_of_write(account, bytes).await?.hold(response)),
        (response, _) => Ok(response),
    }
}

/// Returns the bytes of an answer that has no share yet. An answer that has one keeps it. A stream has no number of
/// bytes before it is sent.
fn uncounted(mut response: Response) -> (Response, Option<usize>) {
    if let Some(share) = response.extensions_mut().remove::<Arc<Share>>().and_then(Arc::into_inner) {
        return (share.hold(response), None);
    }
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    (response, bytes)
}

/// Returns the error for an answer that exceeds the limit.
pub(crate) fn too_large(answer_bytes: usize, instead: &str) -> Error {
    let message = format!("the answer has more than the {answer_bytes} bytes that an answer may have; {instead}");
    Error::new(ErrorKind::PayloadTooLarge, message)
}

/// Returns a complete JSON answer. `share` is its share of the memory for answers, if it already has one.
pub(crate) fn ready(text: Vec<u8>, share: Option<Share>) -> Response {
    let mut response = ([(CONTENT_TYPE, "application/json")], BodyPieces::of(text)).into_response();
    if let Some(share) = share {
        response.extensions_mut().insert(Arc::new(share));
    }
    response
}

/// Writes a value that may be large as JSON, on a separate thread and not on a worker of the runtime.
///
/// # Errors
///
/// `Internal` if the value cannot be written, which is a defect.
pub(crate) async fn json(value: impl Serialize + Send + 'static) -> Result<Response> {
    let written = match is_small(&value) {
        true => serde_json::to_vec(&value),
        false => off_worker(move || serde_json::to_vec(&value)).await?,
    };
    let text = written.map_err(|e| Error::internal("an answer cannot be written as JSON").with_source(e))?;
    Ok(ready(text, None))
}
