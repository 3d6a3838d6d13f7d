//! Forms: only the server's own pages can make changes.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, ErrorKind};

use super::page::PageError;
use crate::guard::OwnPage;

/// The fields of a form that a page of this server has sent. A form of any other page is refused, even if it comes with
/// a login, and even if pages of its origin may call the APIs.
#[derive(Clone, Debug)]
pub(super) struct Form(Bytes);

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, PageError> {
        if request.extensions().get::<OwnPage>().is_none() {
            let message = "forms of this server's own pages are taken, and no others";
            return Err(Error::new(ErrorKind::PermissionDenied, message).into());
        }
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|_| Error::invalid("the form did not come whole; send it again").into())
    }
}

impl Form {
    /// Returns a field, or an empty text if the field is absent.
    pub(super) fn field(&self, name: &str) -> String {
        self.find(name).unwrap_or_default()
    }

    /// Returns a field, if it is present and not empty.
    pub(super) fn find(&self, name: &str) -> Option<String> {
        let mut fields = form_urlencoded::parse(&self.0);
        fields.find(|(found, value)| found == name && !value.is_empty()).map(|(_, value)| value.into_owned())
    }
}

/// Redirects to another page after a change.
pub(super) fn see_other(address: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}
