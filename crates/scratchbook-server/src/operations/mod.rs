//! Operations: logs, metrics and traces of requests, `/metrics` for Prometheus, and health checks.

mod document;
mod gauge;
mod metrics;
mod observe;
mod ready;
mod request_id;
#[cfg(feature = "otel")]
mod trace_context;
#[cfg(not(feature = "otel"))]
mod trace_context {
    //! Without the feature `otel`, each request begins a new trace.

    pub(super) fn go_on(_: &tracing::Span, _: &axum::http::HeaderMap) {}
}

use axum::Router;
use axum::routing::get;

pub(crate) use document::document;
pub(crate) use gauge::Gauge;
pub(crate) use metrics::Metrics;
pub(crate) use observe::{Observer, observe};
pub(crate) use ready::Readiness;

/// Returns the routes.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(readiness: &Readiness, metrics: Option<&Metrics>) -> Router<S> {
    let routes = Router::new().route("/health/ready", get(ready::ready)).with_state(readiness.clone());
    match metrics {
        Some(metrics) => routes.route("/metrics", get(metrics.handler())),
        None => routes,
    }
}
