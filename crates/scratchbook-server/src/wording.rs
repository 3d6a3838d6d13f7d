//! Writes refusals in the form of the requested surface, or as pages of the inspector. This is the outermost layer that
//! depends on surfaces.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::Error;

use crate::adk::AdkError;
use crate::inspector;
use crate::refusal::RefusedRequest;
use crate::surface::{self, Surface};
use crate::v1::ApiError;
use crate::vertex::GoogleError;

/// Replaces the refusal of an inner layer by an error in the form of the surface, or a page. Headers that layers added
/// stay.
pub(crate) async fn word_refusals(request: Request, next: Next) -> Response {
    let surface = Surface::of(request.uri().path());
    let is_page = surface::is_of_inspector(request.uri().path());
    let mut response = next.run(request).await;
    let Some(RefusedRequest { error, status }) = RefusedRequest::take(&mut response) else { return response };
    let mut worded = match status {
        status if is_page => inspector::refusal(status, &error),
        Some(status) => with_status(surface, status, error),
        None => error_of(surface, error),
    };
    let headers = std::mem::take(response.headers_mut());
    worded.headers_mut().extend(headers.into_iter().filter(|(name, _)| *name != Some(CONTENT_LENGTH)));
    worded
}

/// Writes an error in the format of an API. Without an API, the format is ADK's.
pub(crate) fn error_of(surface: Option<Surface>, error: Error) -> Response {
    match surface {
        Some(Surface::Vertex) => GoogleError::from(error).into_response(),
        Some(Surface::V1) => ApiError::from(error).into_response(),
        Some(Surface::Adk) | None => AdkError::from(error).into_response(),
    }
}

/// Returns an error in the form of a surface, with a status other than the usual status of the error's kind.
fn with_status(surface: Option<Surface>, status: StatusCode, error: Error) -> Response {
    if surface == Some(Surface::Vertex) {
        // The body of Google's errors repeats the status.
        return GoogleError::with_code(status, &error).into_response();
    }
    let mut response = error_of(surface, error);
    *response.status_mut() = status;
    response
}
