//! The caller of a request, for handlers whose path names no app. A request without a caller is refused in ADK's form.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::AdkError;
use crate::access::Caller;
use crate::scope;

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = AdkError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AdkError> {
        Ok(scope::caller(parts)?)
    }
}
