//! Measures how long operations take: rates, percentiles, processor time. Also limits the time for preparation.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::protocol::{PeerFailure, Result};

/// How long the preparation of a cell may take, in seconds.
const PREPARATION: f64 = 45.0;
/// How many ticks of the processor's clock Linux counts in a second.
const TICKS: f64 = 100.0;

/// The numbers of one cell, which may have several parts.
#[derive(Default)]
pub(crate) struct CellTimes {
    taken: Vec<Duration>,
    seconds: f64,
    used: f64,
}

impl CellTimes {
    /// Lets each task repeat its step until `is_over` returns true, but at least once. Returns how many steps each task
    /// did.
    ///
    /// A step receives the number of its task, and how many steps the task did before. `is_over` receives the time
    /// since the start, and how many steps the task did.
    pub(crate) async fn part<F, S>(
        &mut self,
        tasks: usize,
        step: F,
        is_over: impl Fn(Duration, usize) -> bool + Clone + Send + 'static,
    ) -> Result<Vec<usize>>
    where
        F: Fn(usize, usize) -> S + Clone + Send + 'static,
        S: Future<Output = Result<()>> + Send + 'static,
    {
        let (used, start) = (processor()?, Instant::now());
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (step, is_over) = (step.clone(), is_over.clone());
            running.spawn(async move {
                let mut taken = Vec::new();
                loop {
                    let begun = Instant::now();
                    step(task, taken.len()).await?;
                    taken.push(begun.elapsed());
                    if is_over(start.elapsed(), taken.len()) {
                        return Ok::<_, PeerFailure>((task, taken));
                    }
                }
            });
        }
        let mut done = vec![0; tasks];
        while let Some(ended) = running.join_next().await {
            let (task, taken) = ended??;
            done[task] = taken.len();
            self.taken.extend(taken);
        }
        self.seconds += start.elapsed().as_secs_f64();
        self.used += processor()? - used;
        Ok(done)
    }

    /// Returns how many operations were measured.
    pub(crate) fn count(&self) -> usize {
        self.taken.len()
    }

    pub(crate) fn answer(self) -> Value {
        json!({
            "operations": self.taken.len(),
            "seconds": self.seconds,
            "processor_seconds": self.used,
            "latencies_us": percentiles(self.taken),
            "wrong": null,
            "bytes": null,
            "note": null,
        })
    }
}

/// Lets each task repeat its step until the time is over, but at least once. Returns the answer, and how many steps
/// each task did.
pub(crate) async fn repeat<F, S>(tasks: usize, seconds: f64, step: F) -> Result<(Value, Vec<usize>)>
where
    F: Fn(usize, usize) -> S + Clone + Send + 'static,
    S: Future<Output = Result<()>> + Send + 'static,
{
    let (mut measured, limit) = (CellTimes::default(), Duration::from_secs_f64(seconds));
    let done = measured.part(tasks, step, move |elapsed, _| elapsed >= limit).await?;
    Ok((measured.answer(), done))
}

/// Returns percentiles of durations, in microseconds.
fn percentiles(mut taken: Vec<Duration>) -> Value {
    taken.sort_unstable();
    let at = |share: f64| {
        let place = ((taken.len() as f64 * share) as usize).min(taken.len().saturating_sub(1));
        taken.get(place).map(|time| (time.as_secs_f64() * 1e7).round() / 10.0)
    };
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)})
}

/// Returns the processor time of this process and of its children that have ended, in seconds.
fn processor() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(4).filter_map(|ticks| ticks.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / TICKS)
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024.0)
}

/// Stops a preparation as soon as it is clear that it would take too long.
pub(crate) struct Preparation {
    total: usize,
    done: usize,
    begun: Instant,
}

impl Preparation {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, done: 0, begun: Instant::now() }
    }

    pub(crate) fn advance(&mut self, parts: usize) -> Result<()> {
        self.done += parts;
        let elapsed = self.begun.elapsed().as_secs_f64();
        let expected = elapsed / self.done as f64 * self.total as f64;
        if elapsed > 3.0 && expected > PREPARATION {
            let reason = format!("the preparation of this size takes about {expected:.0} s.");
            return Err(PeerFailure::Unsupported(reason));
        }
        Ok(())
    }
}
