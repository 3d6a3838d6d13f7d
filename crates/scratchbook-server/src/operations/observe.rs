//! Records each request as a span, a line in the log, and metrics. None of these names a user or shows a value.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, histogram};
use tracing::field::Empty;
use tracing::{Instrument, Span, error, info, info_span};

use super::request_id::{HEADER, RequestIds};
use super::trace_context;

/// The target of the span that logs show for all lines of a request.
const REQUESTS: &str = "scratchbook_server::request";
/// The target of the span for traces.
const TRACES: &str = "scratchbook_server::trace";

/// The state of the layer.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    ids: Arc<RequestIds>,
}

impl Observer {
    pub(crate) fn new() -> Self {
        Self { ids: Arc::new(RequestIds::new()) }
    }
}

/// Logs and measures requests. As the outermost layer, it sees refused requests too. The measured time ends at the head
/// of the answer.
pub(crate) async fn observe(State(observer): State<Observer>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = observer.ids.of(request.headers().get(HEADER));
    let asked = ObservedRequest::of(&request);
    let trace = asked.trace(&request);
    let span = info_span!(target: REQUESTS, parent: &trace, "request", id = id.to_str().unwrap_or_default());
    let mut response = next.run(request).instrument(span.clone()).instrument(trace.clone()).await;
    let status = response.status();
    trace.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        trace.record("otel.status_code", "ERROR");
    }
    span.in_scope(|| asked.answered(status, began.elapsed()));
    response.headers_mut().insert(HEADER, id);
    response
}

/// A request without personal data.
struct ObservedRequest {
    method: &'static str,
    /// The template of the route, with the names of its parameters and not their values.
    path: Option<MatchedPath>,
}

impl ObservedRequest {
    fn of(request: &Request) -> Self {
        Self { method: method(request.method()), path: request.extensions().get().cloned() }
    }

    /// Returns the span for traces, with OpenTelemetry's names.
    fn trace(&self, request: &Request) -> Span {
        let (method, route) = (self.method, self.route());
        let span = info_span!(
            target: TRACES,
            "http",
            otel.name = Empty,
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
        );
        if !span.is_disabled() {
            span.record("otel.name", format!("{method} {route}"));
            trace_context::go_on(&span, request.headers());
        }
        span
    }

    fn route(&self) -> &str {
        self.path.as_ref().map_or("none", MatchedPath::as_str)
    }

    fn answered(&self, status: StatusCode, time: Duration) {
        let (method, route, seconds) = (self.method, self.route(), time.as_secs_f64());
        let milliseconds = (seconds * 1e6).round() / 1e3;
        let code = status.as_u16();
        if status.is_server_error() {
            error!(%method, %route, status = code, milliseconds, "answered");
        } else {
            info!(%method, %route, status = code, milliseconds, "answered");
        }
        let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", class(status).to_owned())];
        histogram!("scratchbook_http_request_seconds", &labels).record(seconds);
        counter!("scratchbook_http_requests_total", &labels).increment(1);
    }
}

/// Returns the name of a method. Unknown methods share one label, so that clients cannot invent labels.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}
