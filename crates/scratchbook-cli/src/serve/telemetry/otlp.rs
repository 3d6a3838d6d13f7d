//! Sends traces to an OpenTelemetry collector with OTLP over HTTP.
//!
//! The SDK collects spans and sends them in batches from its own thread. It uses our HTTP client, so the program
//! contains only one TLS library.

mod client;

use opentelemetry::global;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use scratchbook::Error;
use scratchbook::agent::{TRACE_TARGET, TraceConfig};
use tokio::task::spawn_blocking;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::args::ServeArgs;
use client::OtlpClient;

/// The spans in traces: requests as OpenTelemetry names them, runs, what agents do in them, and the store calls.
const SPANS: [&str; 4] =
    ["scratchbook_server::trace", "scratchbook_server::runs", TRACE_TARGET, "scratchbook_layers::metrics"];

/// Returns the details in exported spans of runs.
pub(in super::super) fn exported(args: &ServeArgs) -> TraceConfig {
    let config = TraceConfig::default();
    let config = if args.trace_session_ids { config.with_session_ids() } else { config };
    if args.trace_texts { config.with_texts() } else { config }
}

/// The exporter of traces.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Sends traces to the collector that the options name, if they name one.
    pub(super) fn begin(args: &ServeArgs) -> Result<Option<Self>, Error> {
        args.otlp_endpoint.as_deref().map(Self::new).transpose()
    }

    /// Connects to a collector at a URL such as `http://localhost:4318`.
    fn new(endpoint: &str) -> Result<Self, Error> {
        let client = OtlpClient::new(endpoint)?;
        let endpoint = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build()
            .map_err(|e| {
                let message = "traces cannot be sent there; give --otlp-endpoint as http://HOST:4318";
                Error::invalid(message).with_source(e)
            })?;
        let resource = Resource::builder().with_service_name("scratchbook").build();
        let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Self { provider })
    }

    /// Returns the layer that records spans.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + Send + Sync + for<'a> LookupSpan<'a>,
    {
        let targets = SPANS.into_iter().map(|target| (target, LevelFilter::INFO)).collect::<Targets>();
        let tracer = self.provider.tracer("scratchbook");
        tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false).with_filter(targets)
    }

    /// Sends the remaining spans.
    pub(super) async fn end(self) {
        // This blocks until the SDK's thread has sent them.
        let ended = spawn_blocking(move || self.provider.shutdown()).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
