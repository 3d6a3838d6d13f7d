//! `/metrics`: the metrics in Prometheus' text format.

use std::fmt;
use std::sync::Arc;

use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Ready, ready};

use crate::access::{Caller, Right};
use crate::refusal::RefusedRequest;

/// Renders the metrics as text.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<dyn Fn() -> String + Send + Sync>);

impl Metrics {
    pub(crate) fn new(render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }

    /// Answers callers that have the right `admin` over all apps and users.
    pub(super) fn handler(
        &self,
    ) -> impl Fn(Extension<Caller>) -> Ready<Result<Response, RefusedRequest>> + Clone + Send + Sync + 'static {
        let render = Arc::clone(&self.0);
        move |Extension(caller)| {
            let written = || ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render()).into_response();
            ready(caller.check_of_all(Right::Admin).map(|()| written()).map_err(RefusedRequest::from))
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
