//! Which failures are tried again.
//!
//! What changes something is tried again only where it was not done: the request never left, or the answer is 429 or 503.
//! The API appends an event as often as it is asked to, so that one of unknown outcome is not sent again. A 503 may come
//! from what stands before the server, after the work; what that leaves is made good by who reads, see
//! [`events`](super::events), and by who creates.

use std::iter::successors;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use google_cloud_gax::error::Error as GaxError;
use google_cloud_gax::exponential_backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use google_cloud_gax::retry_policy::RetryPolicy;
use google_cloud_gax::retry_result::RetryResult;
use google_cloud_gax::retry_state::RetryState;
use google_cloud_gax::retry_throttler::RetryThrottler;

/// Tries again for so long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience(pub(super) Duration);

impl RetryPolicy for Patience {
    fn on_error(&self, state: &RetryState, error: GaxError) -> RetryResult {
        if !may_help(state.idempotent, &error) {
            return RetryResult::Permanent(error);
        }
        if state.start.elapsed() >= self.0 {
            return RetryResult::Exhausted(error);
        }
        RetryResult::Continue(error)
    }
}

/// The same, and notes where a request was sent again that may have been done: a server that was busy, or what stands
/// before it, may have said so too late.
#[derive(Clone, Debug)]
pub(super) struct Noting {
    pub(super) patience: Patience,
    pub(super) may_be_done: Arc<AtomicBool>,
}

impl RetryPolicy for Noting {
    fn on_error(&self, state: &RetryState, error: GaxError) -> RetryResult {
        let was_sent = error.http_status_code() == Some(503);
        let result = self.patience.on_error(state, error);
        if was_sent && matches!(result, RetryResult::Continue(_)) {
            self.may_be_done.store(true, Ordering::Release);
        }
        result
    }
}

/// Leaves out no retry: how long and how often it is tried is said by [`Patience`] and the pauses. The throttlers of
/// Google's crate stop a client after five failures until something succeeds, which nothing can then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unthrottled;

impl RetryThrottler for Unthrottled {
    fn throttle_retry_attempt(&self) -> bool {
        false
    }

    fn on_retry_failure(&mut self, _: &RetryResult) {}

    fn on_success(&mut self) {}
}

fn may_help(is_idempotent: bool, error: &GaxError) -> bool {
    match error.http_status_code() {
        Some(429 | 503) => true,
        Some(408 | 500 | 502 | 504) => is_idempotent,
        Some(_) => false,
        None => {
            let never_sent = error.is_connect() || error.is_transient_and_before_rpc();
            never_sent || (is_idempotent && (error.is_io() || error.is_timeout() || error.is_transport()))
        }
    }
}

/// Between tries: from a fifth of a second up to five, each by chance.
pub(super) fn pauses() -> ExponentialBackoff {
    let builder = ExponentialBackoffBuilder::new().with_initial_delay(Duration::from_millis(200));
    builder.with_maximum_delay(Duration::from_secs(5)).with_scaling(2.0).clamp()
}

/// Between looks at an operation: mostly it is done at once.
pub(super) fn looks() -> impl Iterator<Item = Duration> {
    successors(Some(Duration::from_millis(50)), |pause| Some((*pause * 2).min(Duration::from_secs(2))))
}

#[cfg(test)]
mod tests {
    use google_cloud_gax::error::rpc::{Code, Status};

    use super::*;

    fn answer(code: u16) -> GaxError {
        let status = Status::default().set_code(Code::Unknown);
        GaxError::service_with_http_metadata(status, Some(code), None)
    }

    #[test]
    fn what_may_have_been_done_is_not_done_again() {
        for (error, write, read) in [
            (answer(429), true, true),
            (answer(503), true, true),
            (answer(500), false, true),
            (answer(504), false, true),
            (answer(400), false, false),
            (answer(409), false, false),
            (GaxError::connect("refused"), true, true),
            (GaxError::io("reset"), false, true),
            (GaxError::timeout("late"), false, true),
            (GaxError::deser("no JSON"), false, false),
        ] {
            assert_eq!((may_help(false, &error), may_help(true, &error)), (write, read), "{error}");
        }
    }

    #[test]
    fn it_ends() {
        let policy = Patience(Duration::ZERO);
        let result = RetryPolicy::on_error(&policy, &RetryState::new(true), answer(503));
        assert!(matches!(result, RetryResult::Exhausted(_)));
    }
}
