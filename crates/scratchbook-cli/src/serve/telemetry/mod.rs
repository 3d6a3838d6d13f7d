//! Telemetry of a server: logs to standard error, metrics for Prometheus, and traces for a collector.

mod log;
mod metrics;
#[cfg(not(feature = "otel"))]
mod no_traces;
#[cfg(feature = "otel")]
mod otlp;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic;

use scratchbook::Error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::args::{LogFormat, LogLevel, ServeArgs};

use log::{Flush, LogQueue};
pub(super) use metrics::PrometheusMetrics;
#[cfg(not(feature = "otel"))]
use no_traces::Traces;
#[cfg(not(feature = "otel"))]
pub(super) use no_traces::exported;
#[cfg(feature = "otel")]
use otlp::Traces;
#[cfg(feature = "otel")]
pub(super) use otlp::exported;

/// The crates that are logged at the chosen level. Other crates log warnings and errors.
const OURS: &str = "scratchbook";
/// The crate whose spans are shown in logs: the spans of requests and runs, but not those of [`TRACES`].
const SHOWN: &str = "scratchbook_server";
/// The client of MCP servers. It is never logged, because it logs the contents of calls.
const MCP: &str = "rmcp";
/// The spans for traces only.
const TRACES: &str = "scratchbook_server::trace";

/// The telemetry of a running server. Dropping it waits until the log is written.
#[derive(Debug)]
pub(super) struct Telemetry {
    traces: Option<Traces>,
    _flush: Flush,
}

impl Telemetry {
    /// Begins to write logs and to send traces.
    pub(super) fn begin(args: &ServeArgs) -> Result<Self, Error> {
        let queue = LogQueue::to_stderr()?;
        let flush = queue.flush_at_end();
        let registry = tracing_subscriber::registry().with(logs(args, queue));
        log_panics();
        let traces = Traces::begin(args)?;
        registry.with(traces.as_ref().map(Traces::layer)).init();
        Ok(Self { traces, _flush: flush })
    }

    /// Sends the remaining traces.
    pub(super) async fn end(self) {
        if let Some(traces) = self.traces {
            traces.end().await;
        }
    }
}

/// Writes panics to the log, because writing to standard error directly could block.
fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        match backtrace.status() {
            BacktraceStatus::Captured => tracing::error!(%panic, %backtrace, "a thread panicked"),
            _ => tracing::error!(%panic, "a thread panicked"),
        }
    }));
}

fn logs(args: &ServeArgs, queue: LogQueue) -> Box<dyn Layer<Registry> + Send + Sync> {
    let level = level(args.log_level);
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(OURS, level)
        .with_target(MCP, LevelFilter::OFF);
    let shown = filter_fn(|metadata| {
        let target = metadata.target();
        !metadata.is_span() || (target.starts_with(SHOWN) && target != TRACES)
    });
    let layer = fmt::layer().with_writer(move || queue.clone()).with_target(false);
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
