//! Traces to an OpenTelemetry collector, by OTLP over HTTP.
//!
//! Spans are gathered by the SDK and sent by a thread of its own, in batches; what is sent goes over a connection of
//! our own, so that there is one TLS library in the program.

mod client;

use opentelemetry::global;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use scratchbook::{Error, ErrorKind};
use tokio::task::spawn_blocking;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use client::Client;

/// What traces show: requests as OpenTelemetry names them, runs, and the calls of the store within.
const SPANS: [&str; 3] = ["scratchbook_server::trace", "scratchbook_server::runs", "scratchbook::adapter"];

/// Traces that are sent.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// To a collector at a URL such as `http://localhost:4318`.
    pub(super) fn new(endpoint: &str) -> Result<Self, Error> {
        let client = Client::new(endpoint)?;
        let endpoint = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build()
            .map_err(|e| {
                let message = "traces cannot be sent there; give --otlp-endpoint as http://HOST:4318";
                Error::new(ErrorKind::InvalidArgument, message).with_source(e)
            })?;
        let resource = Resource::builder().with_service_name("scratchbook").build();
        let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Self { provider })
    }

    /// The layer that hears of spans.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + Send + Sync + for<'a> LookupSpan<'a>,
    {
        let targets = SPANS.into_iter().map(|target| (target, LevelFilter::INFO)).collect::<Targets>();
        let tracer = self.provider.tracer("scratchbook");
        tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false).with_filter(targets)
    }

    /// Sends what was gathered.
    pub(super) async fn end(self) {
        // It waits for the thread that sends.
        let ended = spawn_blocking(move || self.provider.shutdown()).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
