//! One run, from its beginning to its end.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use scratchbook::agent::EventStream;
use scratchbook::{Error, SessionKey};
use tokio::sync::Notify;
use tracing::Span;
use tracing::field::Empty;

use super::Runs;
use super::log::{RunLog, RunOutcome, RunReader};

/// A run in progress.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) key: SessionKey,
    pub(crate) invocation_id: String,
    /// When the run was requested, in seconds since 1970.
    pub(crate) start_time: f64,
    /// The number of the last event of the session that may belong to an earlier run of this invocation. All later
    /// events of the invocation belong to this run.
    pub(super) before: u64,
    /// The number that the run got when it was admitted.
    pub(super) number: u64,
    log: Arc<RunLog>,
    cancelled: Notify,
}

impl Run {
    pub(super) fn new(key: SessionKey, invocation_id: String, start_time: f64, before: u64) -> Self {
        let (log, cancelled) = (Arc::new(RunLog::new()), Notify::new());
        Self { key, invocation_id, start_time, before, number: 0, log, cancelled }
    }

    /// Follows the run from its beginning.
    pub(crate) fn read(&self) -> RunReader {
        self.log.read()
    }

    /// Cancels the run. Committed events stay; an event that is just being committed may stay too.
    pub(crate) fn cancel(&self) {
        self.cancelled.notify_one();
    }

    /// Waits for the end of the run.
    pub(crate) async fn ended(&self) -> RunOutcome {
        self.log.ended().await
    }

    /// Drives the run to its end, whether or not anybody reads.
    pub(super) fn drive(self: Arc<Self>, events: EventStream, runs: Runs) -> impl Future<Output = ()> + Send {
        // `RunGuard` is created outside of the task, because a task may be dropped before it has begun.
        let ending = RunGuard::new(runs, Arc::clone(&self));
        async move {
            let outcome = tokio::select! {
                biased;
                () = self.cancelled.notified() => RunOutcome::Cancelled,
                outcome = self.follow(events) => outcome,
            };
            ending.tell(outcome);
        }
    }

    async fn follow(&self, mut events: EventStream) -> RunOutcome {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.log.push(event),
                Err(error) => return RunOutcome::Failed(Arc::new(error)),
            }
        }
        RunOutcome::Completed
    }

    pub(super) fn end(&self, outcome: RunOutcome) {
        self.log.end(outcome);
    }

    /// Returns the span of the run, which has names but no values.
    pub(super) fn span(&self) -> Span {
        let app = self.key.app_name();
        tracing::info_span!("run", app, invocation_id = self.invocation_id, outcome = Empty)
    }
}

/// Reports the end of a run in every case, even if its task panics or is dropped with its runtime.
struct RunGuard {
    runs: Runs,
    run: Arc<Run>,
    outcome: RunOutcome,
    begun: Instant,
}

impl RunGuard {
    fn new(runs: Runs, run: Arc<Run>) -> Self {
        let outcome = RunOutcome::Failed(Arc::new(Error::internal("the run was cut off")));
        Self { runs, run, outcome, begun: Instant::now() }
    }

    fn tell(mut self, outcome: RunOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let (app, outcome, time) = (self.run.key.app_name(), self.outcome.as_str(), self.begun.elapsed());
        Span::current().record("outcome", outcome);
        match &self.outcome {
            // The text of other errors may quote the conversation.
            RunOutcome::Failed(error) if error.is_for_operator() => {
                tracing::warn!(outcome, kind = error.kind().as_str(), %error, ?time, "the run has ended");
            }
            RunOutcome::Failed(error) => {
                tracing::warn!(outcome, error = error.kind().as_str(), ?time, "the run has ended");
            }
            _ => tracing::info!(outcome, ?time, "the run has ended"),
        }
        let labels = [("app", app.to_owned()), ("outcome", outcome.to_owned())];
        metrics::counter!("scratchbook_runs_total", &labels).increment(1);
        metrics::histogram!("scratchbook_run_seconds", &labels).record(time.as_secs_f64());
        self.runs.end(&self.run, &self.outcome);
    }
}
