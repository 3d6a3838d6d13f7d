//! Failures of statements, and when they are retried.

use std::future::Future;
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};

use scratchbook_core::error::{Error, Result};

/// A failure, and whether the statement was applied, as far as this is known.
#[derive(Debug)]
pub struct Failure {
    #[doc(hidden)]
    pub fate: CommitFate,
    #[doc(hidden)]
    pub error: Error,
}

/// Whether a failed statement was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum CommitFate {
    /// It was not applied, and a retry would fail in the same way.
    NeverApplied,
    /// It was not sent, because no connection was available. A retry may succeed later.
    NotSent,
    /// The database rolled it back in favour of another writer. A retry may succeed at once.
    RolledBack,
    /// It was not applied, because a lock was not free in time. A retry may succeed when the lock is released.
    LockTimeout,
    /// The answer to a read was too large, and a retry would not change this. The page has to be read with fewer items.
    TooMuch {
        /// How many rows fit.
        rows: usize,
    },
    /// It is unknown whether the statement was applied, because the connection was lost before the answer. A retry has
    /// to recognize its own earlier work.
    Unknown,
}

/// The result of one attempt.
#[doc(hidden)]
pub type Attempt<T> = Result<T, Failure>;

impl Failure {
    /// Creates the failure of a database that failed or could not be reached. The reason is meant for the operator.
    #[doc(hidden)]
    pub fn new(fate: CommitFate, error: Error) -> Self {
        Self { fate, error: error.for_operator() }
    }
}

/// The request is invalid or cannot be fulfilled, and the caller can see why.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { fate: CommitFate::NeverApplied, error }
    }
}

/// Whether a statement can be retried if it is not known whether the first attempt was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Idempotency {
    /// It can be retried: it reads, removes, or recognizes its own earlier work by an id.
    Idempotent,
    /// It can be retried, but a lock timeout is returned to the caller, which waits for the lock elsewhere.
    IdempotentUnlessLocked,
    /// It would be applied twice, so it is retried only if it certainly was not applied.
    NotIdempotent,
}

/// Retries until the attempt succeeds, is refused, or the timeout has passed.
pub(super) async fn retry<T, F: Future<Output = Attempt<T>>>(
    timeout: Duration,
    idempotency: Idempotency,
    attempt: impl FnMut() -> F,
) -> Attempt<T> {
    let start = Instant::now();
    let delays = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(5))
        .with_max_delay(Duration::from_millis(500))
        .with_jitter()
        .without_max_times();
    let mut tries = 0;
    let is_worth_it = move |failure: &Failure| {
        tries += 1;
        // The first attempt may have used up the whole timeout by itself; the second one runs on a new connection.
        let in_time = start.elapsed() < timeout || tries == 1 && failure.fate != CommitFate::LockTimeout;
        in_time
            && match failure.fate {
                CommitFate::NeverApplied | CommitFate::TooMuch { .. } => false,
                CommitFate::NotSent | CommitFate::RolledBack => true,
                CommitFate::LockTimeout => idempotency != Idempotency::IdempotentUnlessLocked,
                CommitFate::Unknown => idempotency != Idempotency::NotIdempotent,
            }
    };
    attempt
        .retry(delays)
        .when(is_worth_it)
        .notify(|failure, delay| tracing::warn!(error = %failure.error, ?delay, "trying again"))
        .await
        .map_err(|failure| match (failure.fate, idempotency) {
            (CommitFate::Unknown, Idempotency::NotIdempotent) => {
                Failure { error: failure.error.not_retryable(), ..failure }
            }
            _ => failure,
        })
}
