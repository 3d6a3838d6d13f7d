//! Continues the trace of a client. The program's propagator reads the trace from W3C's header `traceparent`.

use axum::http::HeaderMap;
use opentelemetry::global;
use opentelemetry_http::HeaderExtractor;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes the span a part of the client's trace, if the request names one.
pub(super) fn go_on(span: &Span, headers: &HeaderMap) {
    let parent = global::get_text_map_propagator(|propagator| propagator.extract(&HeaderExtractor(headers)));
    // This fails if no layer exports spans. Then there is no trace to continue.
    let _ = span.set_parent(parent);
}
