//! Which failures are tried again.
//!
//! What changes something is tried again only where it was surely not done: the request never left, or the answer is 429
//! or 503. The API appends an event as often as it is asked to, so that one of unknown outcome is not sent again.

use std::time::Duration;

use google_cloud_gax::error::Error as GaxError;
use google_cloud_gax::exponential_backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use google_cloud_gax::polling_error_policy::PollingErrorPolicy;
use google_cloud_gax::polling_state::PollingState;
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

impl PollingErrorPolicy for Patience {
    /// To ask for an operation changes nothing. How long it may take is for who waits for it.
    fn on_error(&self, state: &PollingState, error: GaxError) -> RetryResult {
        if !may_help(true, &error) {
            return RetryResult::Permanent(error);
        }
        if state.start.elapsed() >= self.0 {
            return RetryResult::Exhausted(error);
        }
        RetryResult::Continue(error)
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
    backoff(Duration::from_millis(200), Duration::from_secs(5))
}

/// Between looks at an operation: mostly it is done at once.
pub(super) fn polls() -> ExponentialBackoff {
    backoff(Duration::from_millis(100), Duration::from_secs(2))
}

fn backoff(first: Duration, longest: Duration) -> ExponentialBackoff {
    let builder = ExponentialBackoffBuilder::new().with_initial_delay(first).with_maximum_delay(longest);
    builder.with_scaling(2.0).clamp()
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
