//! What may go wrong between here and a database, and what is tried again.

use std::future::Future;
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};

use scratchbook_core::error::{Error, Result};

/// A failure, and what is known of what had been asked for.
#[derive(Debug)]
pub struct Failure {
    #[doc(hidden)]
    pub fate: CommitFate,
    #[doc(hidden)]
    pub error: Error,
}

/// What became of a statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum CommitFate {
    /// Nothing, and the same would fail again.
    NeverApplied,
    /// Nothing: no connection could be had. The same may succeed later.
    NotSent,
    /// Nothing: the database has undone it in favour of another. The same may succeed at once.
    RolledBack,
    /// Nothing: a lock was not to be had in time. The same may succeed when it is let go.
    LockTimeout,
    /// Nothing, and the same would be too large again: a page is asked for with fewer items.
    TooMuch {
        /// How many rows there was room for.
        rows: usize,
    },
    /// Not known: the connection was lost before the answer. A retry must know its own work again.
    Unknown,
}

/// The result of one try.
#[doc(hidden)]
pub type Attempt<T> = Result<T, Failure>;

impl Failure {
    /// A failure of the database or on the way to it: its reason is for those who run the program.
    #[doc(hidden)]
    pub fn new(fate: CommitFate, error: Error) -> Self {
        Self { fate, error: error.for_operator() }
    }
}

/// What was asked for cannot be done, and the caller can know why.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { fate: CommitFate::NeverApplied, error }
    }
}

/// What a retry does where the first try was done after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Idempotency {
    /// The same: it reads, removes, or knows its own work again by an id.
    Idempotent,
    /// The same, but what is blocked is not tried again here.
    IdempotentUnlessLocked,
    /// It would be done twice, so only what was not done is tried again.
    NotIdempotent,
}

/// Tries until it is done, refused, or the time is over.
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
        // A try may have used up all the time by itself: the next one is on a new connection.
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
}
