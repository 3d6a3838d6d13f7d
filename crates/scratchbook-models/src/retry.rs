//! Which calls are retried and when, and how long each wait may be.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};

use scratchbook_agent::model::LlmResponse;
use scratchbook_core::error::{Error, ErrorKind};

/// The maximum pause between two attempts. If the provider asks for more, the error is returned at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A failed attempt, and whether it can be retried.
#[derive(Debug)]
pub(super) struct FailedAttempt {
    pub(super) error: Error,
    pub(super) retry: RetryAdvice,
    /// The answer with the provider's own words about the failure, if the answer had begun but nothing of it was shown.
    pub(super) answer: Option<Box<LlmResponse>>,
}

/// Whether a failed attempt is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAdvice {
    /// A retry would also fail, or would do the work twice.
    Never,
    /// The attempt is retried after a pause.
    Later,
    /// The attempt is retried after the pause that the provider asked for.
    After(Duration),
}

impl From<Error> for FailedAttempt {
    fn from(error: Error) -> Self {
        Self { error, retry: RetryAdvice::Never, answer: None }
    }
}

/// The timeout and number of retries of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPolicy {
    /// The maximum wait for an answer to begin, and for each piece of it.
    pub(super) timeout: Duration,
    /// How many attempts may follow the first.
    pub(super) max_retries: usize,
}

impl RetryPolicy {
    /// Runs an attempt until it succeeds, fails for good, or has been retried often enough. An attempt must not fail
    /// after it has shown something, since the retry would show it twice.
    pub(super) async fn attempt<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, FailedAttempt>
    where
        F: Future<Output = Result<T, FailedAttempt>>,
    {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_secs(1))
            .with_max_delay(LONGEST_PAUSE)
            .with_jitter()
            .with_max_times(self.max_retries);
        attempt
            .retry(pauses)
            .when(|failure| failure.retry != RetryAdvice::Never)
            .adjust(|failure, pause| match failure.retry {
                RetryAdvice::After(wanted) => pause.and((wanted <= LONGEST_PAUSE).then_some(wanted)),
                RetryAdvice::Later | RetryAdvice::Never => pause,
            })
            .notify(|failure, pause| {
                let (kind, pause_ms) = (failure.error.kind(), pause.as_millis());
                tracing::debug!(%kind, pause_ms, "the model call is tried again");
            })
            .await
    }

    /// Waits for a piece of an answer, up to [`timeout`](Self::timeout).
    pub(super) async fn in_time<T>(
        &self,
        piece: impl Future<Output = Result<T, FailedAttempt>>,
    ) -> Result<T, FailedAttempt> {
        tokio::time::timeout(self.timeout, piece).await.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f64();
            Err(Error::new(ErrorKind::Unavailable, format!("nothing came from the model within {seconds} s")).into())
        })
    }
}
