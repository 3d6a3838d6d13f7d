//! Replaces traces in a program without the feature `otel`. Such a program sends no traces.

use scratchbook::Error;
use scratchbook::agent::TraceConfig;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Identity;

use crate::args::ServeArgs;

/// Returns the details in exported spans of runs, which this program does not export.
pub(in super::super) fn exported(_: &ServeArgs) -> TraceConfig {
    TraceConfig::default()
}

/// The exporter of traces, which cannot be made.
#[derive(Debug)]
pub(super) enum Traces {}

impl Traces {
    pub(super) fn begin(_: &ServeArgs) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    pub(super) fn layer<S: Subscriber>(&self) -> impl Layer<S> + Send + Sync + use<S> {
        Identity::new()
    }

    pub(super) async fn end(self) {}
}
