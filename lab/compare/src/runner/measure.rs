//! Measures an operation that is repeated for a time, by one or more tasks.

use std::future::Future;
use std::time::{Duration, Instant};

use scratchbook_compare::protocol::{Latencies, Measurement};

use crate::failure::{CellFailure, Result};
use crate::processor;

/// Measures how long each operation took, and how long all operations took together.
pub(crate) struct LatencyClock {
    latencies: Vec<Duration>,
    elapsed: Duration,
    used: Option<f64>,
    server: Option<u32>,
}

impl LatencyClock {
    /// Starts the measurement. If the process id of a server is given, the server's processor time is counted, too.
    pub(crate) fn start(server: Option<u32>) -> Self {
        Self { latencies: Vec::new(), elapsed: Duration::ZERO, used: processor::with(server), server }
    }

    /// Adds operations that ran side by side for a time.
    pub(crate) fn add(&mut self, latencies: Vec<Duration>, elapsed: Duration) {
        self.latencies.extend(latencies);
        self.elapsed += elapsed;
    }

    /// Adds one operation that ran alone.
    pub(crate) fn add_one(&mut self, latency: Duration) {
        self.add(vec![latency], latency);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the result. The processor time includes the preparation since the start, if there are several parts.
    pub(crate) fn measured(mut self) -> Measurement {
        let used = self.used.zip(processor::with(self.server)).map(|(before, after)| after - before);
        Measurement {
            operations: self.latencies.len() as u64,
            seconds: self.elapsed.as_secs_f64(),
            processor_seconds: used,
            latencies_us: percentiles(&mut self.latencies),
            ..Measurement::default()
        }
    }
}

fn percentiles(latencies: &mut [Duration]) -> Option<Latencies> {
    latencies.sort_unstable();
    let last = latencies.len().checked_sub(1)?;
    let at = |part: f64| latencies[(last as f64 * part).round() as usize].as_secs_f64() * 1e6;
    Some(Latencies { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) })
}

/// Repeats an operation for a time, but runs it at least once. Returns how long each run took.
pub(crate) async fn repeat<F, Fut>(seconds: f64, mut operation: F) -> Result<Vec<Duration>>
where
    F: FnMut(usize) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut latencies, mut before) = (Vec::new(), Instant::now());
    loop {
        operation(latencies.len()).await?;
        let now = Instant::now();
        latencies.push(now - before);
        if now >= end {
            return Ok(latencies);
        }
        // An operation in memory never waits, so without this the other tasks would begin only after the end of this
        // task.
        tokio::task::consume_budget().await;
        before = Instant::now();
    }
}

/// Runs tasks side by side, and returns what each of them returned.
pub(crate) async fn side_by_side<T, Fut>(tasks: impl IntoIterator<Item = Fut>) -> Result<Vec<T>>
where
    T: Send + 'static,
    Fut: Future<Output = Result<T>> + Send + 'static,
{
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut results = Vec::with_capacity(running.len());
    for task in running {
        results.push(task.await.map_err(|error| CellFailure::new(format!("a task ended: {error}")))??);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_operations() {
        let mut latencies: Vec<_> = (1..=100).rev().map(Duration::from_micros).collect();
        let found = percentiles(&mut latencies).unwrap();
        assert_eq!((found.p50, found.p99, found.max), (51.0, 99.0, 100.0));
        assert_eq!(percentiles(&mut []), None);
    }

    #[tokio::test]
    async fn an_operation_runs_once_at_least() {
        let mut calls = 0;
        let latencies = repeat(0.0, |_| {
            calls += 1;
            async { Ok(()) }
        });
        assert_eq!(latencies.await.unwrap().len(), 1);
        assert_eq!(calls, 1);
        assert!(repeat(0.0, |_| async { Err(CellFailure::new("no")) }).await.is_err());
    }
}
