//! Metrics, recorded in this process and rendered for Prometheus.

use std::time::Duration;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use scratchbook::Error;
use tokio::time::{MissedTickBehavior, interval};

/// The bounds of the buckets for durations, in seconds.
const SECONDS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// How often recorded values are sorted into the buckets of histograms.
const UPKEEP: Duration = Duration::from_secs(5);

/// The recorded metrics.
#[derive(Clone)]
pub(in crate::serve) struct PrometheusMetrics(PrometheusHandle);

impl PrometheusMetrics {
    /// Installs the recorder.
    pub(in crate::serve) fn begin() -> Result<Self, Error> {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .map_err(|e| Error::internal("the buckets of times").with_source(e))?;
        let recorder = builder.build_recorder();
        let metrics = Self(recorder.handle());
        metrics::set_global_recorder(recorder)
            .map_err(|e| Error::internal("a metrics recorder is installed already").with_source(e))?;
        describe();
        gauge!("scratchbook_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        let handle = metrics.0.clone();
        tokio::spawn(async move {
            let mut upkeep = interval(UPKEEP);
            upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                upkeep.tick().await;
                handle.run_upkeep();
            }
        });
        Ok(metrics)
    }

    /// Renders the metrics in Prometheus's text format.
    pub(in crate::serve) fn render(&self) -> String {
        self.0.render()
    }
}

fn describe() {
    describe_gauge!("scratchbook_info", "The running version.");
    describe_counter!("scratchbook_http_requests_total", "Requests by method, route and class of status.");
    describe_histogram!("scratchbook_http_request_seconds", Unit::Seconds, "Time until the head of the response.");
    describe_gauge!("scratchbook_http_connections", "Open connections.");
    describe_gauge!("scratchbook_http_requests_waiting", "Requests that wait for their turn.");
    describe_gauge!("scratchbook_runs", "Active runs of agents, by app.");
    describe_gauge!("scratchbook_runs_waiting", "Runs that wait for another run of their session, by app.");
    describe_counter!("scratchbook_runs_total", "Completed runs, by app and outcome.");
    describe_histogram!("scratchbook_run_seconds", Unit::Seconds, "Duration of runs.");
    describe_gauge!("scratchbook_watchers", "Open streams of changes.");
    describe_counter!("scratchbook_calls_total", "Store calls by operation, app and outcome.");
    describe_histogram!("scratchbook_call_seconds", Unit::Seconds, "Duration of store calls.");
    describe_counter!("scratchbook_written_bytes_total", Unit::Bytes, "Bytes of JSON given to the store.");
    describe_counter!("scratchbook_log_lines_dropped_total", "Log lines that were dropped.");
    describe_counter!("scratchbook_items_total", "Items that the store returned.");
}
