//! Continues the trace of a client: W3C's `traceparent`, as the program's propagator reads it.

use axum::http::HeaderMap;
use opentelemetry::global;
use opentelemetry::propagation::Extractor;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes the span a part of the client's trace, if the request names one.
pub(super) fn go_on(span: &Span, headers: &HeaderMap) {
    let parent = global::get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
    // Fails if no layer exports spans: there is then no trace to continue.
    let _ = span.set_parent(parent);
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
