//! Words refusals in the form of the surface or page that was asked: the outermost layer that knows of surfaces.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::Error;

use crate::adk::AdkError;
use crate::inspector;
use crate::refusal::Refused;
use crate::surface::Surface;
use crate::v1::ApiError;
use crate::vertex::GoogleError;

/// Replaces the refusal of an inner layer by an error in the form of the surface. Headers that layers added stay.
pub(crate) async fn word_refusals(request: Request, next: Next) -> Response {
    let form = Form::of(request.uri().path());
    let mut response = next.run(request).await;
    let Some(Refused { error, status }) = Refused::take(&mut response) else { return response };
    let mut worded = form.error(status, error);
    let headers = std::mem::take(response.headers_mut());
    worded.headers_mut().extend(headers.into_iter().filter(|(name, _)| *name != Some(CONTENT_LENGTH)));
    worded
}

/// The form of an error: a page of the inspector, or that of an API. Without an API, it is ADK's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Page,
    Api(Option<Surface>),
}

impl Form {
    pub(crate) fn of(path: &str) -> Self {
        if inspector::is_its_path(path) { Self::Page } else { Self::Api(Surface::of(path)) }
    }

    /// An error, with another status than the one of its kind if there is one.
    pub(crate) fn error(self, status: Option<StatusCode>, error: Error) -> Response {
        let mut response = match self {
            Self::Page => return inspector::refusal(status, &error),
            // The body of Google's errors repeats the status.
            Self::Api(Some(Surface::Vertex)) => {
                return match status {
                    Some(status) => GoogleError::with_code(status, &error).into_response(),
                    None => GoogleError::from(error).into_response(),
                };
            }
            Self::Api(Some(Surface::V1)) => ApiError::from(error).into_response(),
            Self::Api(Some(Surface::Adk) | None) => AdkError::from(error).into_response(),
        };
        if let Some(status) = status {
            *response.status_mut() = status;
        }
        response
    }
}
