//! What is tried again, when, and how long anything is waited for.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};

use scratchbook_core::error::{Error, ErrorKind, Result};

/// Nobody waits longer between two tries; who is asked to is told at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An attempt that failed, and whether another may do better.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: Error,
    pub(super) again: Again,
}

/// Whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The same would fail again, or be done twice.
    Never,
    /// After a pause.
    Later,
    /// After the pause that the provider has named.
    After(Duration),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, again: Again::Never }
    }
}

/// How long and how often a call is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The longest wait for an answer to begin, and for each piece of it.
    pub(super) timeout: Duration,
    /// How many tries may follow the first.
    pub(super) max_retries: usize,
}

impl Patience {
    /// Runs an attempt until it succeeds, fails for good, or has been tried often enough. Each has the time of
    /// [`timeout`](Self::timeout). An attempt that has shown something must not fail: it is not told apart.
    pub(super) async fn attempt<T, F>(&self, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_secs(1))
            .with_max_delay(LONGEST_PAUSE)
            .with_jitter()
            .with_max_times(self.max_retries);
        let timed = || self.in_time(attempt());
        timed
            .retry(pauses)
            .when(|failure| failure.again != Again::Never)
            .adjust(|failure, pause| match failure.again {
                Again::After(wanted) => pause.and((wanted <= LONGEST_PAUSE).then_some(wanted)),
                Again::Later | Again::Never => pause,
            })
            .notify(|failure, pause| {
                tracing::debug!(kind = %failure.error.kind(), pause_ms = pause.as_millis(), "model call is tried again");
            })
            .await
            .map_err(|failure| failure.error)
    }

    /// Waits for a piece of an answer, no longer than [`timeout`](Self::timeout).
    pub(super) async fn in_time<T>(&self, piece: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::time::timeout(self.timeout, piece).await.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f64();
            Err(Error::new(ErrorKind::Unavailable, format!("nothing came from the model within {seconds} s")).into())
        })
    }
}
