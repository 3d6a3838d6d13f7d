//! The numbers: counted in this process, written when Prometheus asks.

use std::time::Duration;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use scratchbook::Error;
use tokio::time::{MissedTickBehavior, interval};

/// The bounds of the buckets of times, in seconds.
const SECONDS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// How often what histograms were told is put into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// What was counted.
#[derive(Clone)]
pub(in crate::serve) struct Metrics(PrometheusHandle);

impl Metrics {
    /// Counts from now on.
    pub(in crate::serve) fn begin() -> Result<Self, Error> {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .map_err(|e| Error::internal("the buckets of times").with_source(e))?;
        let recorder = builder.build_recorder();
        let metrics = Self(recorder.handle());
        metrics::set_global_recorder(recorder)
            .map_err(|e| Error::internal("metrics are counted twice").with_source(e))?;
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

    /// As Prometheus reads it.
    pub(in crate::serve) fn render(&self) -> String {
        self.0.render()
    }
}

fn describe() {
    describe_gauge!("scratchbook_info", "The version that runs.");
    describe_counter!("scratchbook_http_requests_total", "Requests by method, route and class of status.");
    describe_histogram!("scratchbook_http_request_seconds", Unit::Seconds, "Until the head of the answer.");
    describe_gauge!("scratchbook_http_connections", "Connections that are open.");
    describe_gauge!("scratchbook_http_requests_waiting", "Requests that wait for their turn.");
    describe_gauge!("scratchbook_runs", "Runs of agents that go on, by app.");
    describe_gauge!("scratchbook_runs_waiting", "Runs that wait for another run of their session, by app.");
    describe_counter!("scratchbook_runs_total", "Runs that have ended, by app and outcome.");
    describe_histogram!("scratchbook_run_seconds", Unit::Seconds, "Runs from their beginning to their end.");
    describe_gauge!("scratchbook_watchers", "Streams of changes that are open.");
    describe_counter!("scratchbook_calls_total", "Calls of the store by operation, app and outcome.");
    describe_histogram!("scratchbook_call_seconds", Unit::Seconds, "Calls of the store.");
    describe_counter!("scratchbook_written_bytes_total", Unit::Bytes, "Bytes of JSON given to the store.");
    describe_counter!("scratchbook_log_lines_dropped_total", "Lines of the log that nobody read in time.");
    describe_counter!("scratchbook_items_total", "Items that the store gave back.");
}
