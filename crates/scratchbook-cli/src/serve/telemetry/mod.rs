//! What a server tells of itself: logs to standard error, numbers for Prometheus, traces for a collector.

mod metrics;
#[cfg(feature = "otel")]
mod otlp;

use std::io;

use scratchbook::Error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::args::{LogFormat, LogLevel, ServeArgs};

pub(super) use metrics::Metrics;

/// The crates whose doings are of use here; of others, what is worth a warning.
const OURS: &str = "scratchbook";
/// The spans that logs show: those of requests and of runs, and not what traces have besides.
const SHOWN: &str = "scratchbook_server";
/// The client of models. It logs what providers answer, and with it what was said: it is never heard.
const MODELS: &str = "genai";
const TRACES: &str = "scratchbook_server::trace";

/// What is to be ended when the server ends.
#[derive(Debug, Default)]
pub(super) struct Telemetry {
    #[cfg(feature = "otel")]
    traces: Option<otlp::Traces>,
}

impl Telemetry {
    /// From now on logs are written and traces are sent.
    pub(super) fn begin(args: &ServeArgs) -> Result<Self, Error> {
        let registry = tracing_subscriber::registry().with(logs(args));
        #[cfg(feature = "otel")]
        {
            let traces = args.otlp_endpoint.as_deref().map(otlp::Traces::new).transpose()?;
            registry.with(traces.as_ref().map(otlp::Traces::layer)).init();
            Ok(Self { traces })
        }
        #[cfg(not(feature = "otel"))]
        {
            registry.init();
            Ok(Self {})
        }
    }

    /// Sends what is still to be sent.
    pub(super) async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}

fn logs(args: &ServeArgs) -> Box<dyn Layer<Registry> + Send + Sync> {
    let level = level(args.log_level);
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(OURS, level)
        .with_target(MODELS, LevelFilter::OFF);
    let shown = filter_fn(|metadata| {
        let target = metadata.target();
        !metadata.is_span() || (target.starts_with(SHOWN) && target != TRACES)
    });
    let layer = fmt::layer().with_writer(io::stderr).with_target(false);
    match args.log_format {
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_span_list(false);
            layer.with_filter(targets.and(shown)).boxed()
        }
        LogFormat::Text => {
            let colours = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
            layer.with_ansi(colours).with_filter(targets.and(shown)).boxed()
        }
    }
}

fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
