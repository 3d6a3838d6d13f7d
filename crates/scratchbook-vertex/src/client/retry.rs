//! Retries of failed requests.
//!
//! A request that is not idempotent is retried only if it was never sent, or if the answer is 429 or 503. The API
//! appends an event each time that the event arrives, so an append with an unknown outcome is not sent again. A 503 may
//! come from a proxy after the work was done. Reads and creations handle the duplicates that such a retry causes, see
//! [`events`](super::events).

use std::iter::successors;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use google_cloud_gax::backoff_policy::BackoffPolicy;
use google_cloud_gax::error::Error as GaxError;
use google_cloud_gax::error::rpc::StatusDetails;
use google_cloud_gax::exponential_backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use google_cloud_gax::options::RequestOptionsBuilder;
use google_cloud_gax::retry_policy::RetryPolicy;
use google_cloud_gax::retry_result::RetryResult;
use google_cloud_gax::retry_state::RetryState;
use google_cloud_gax::retry_throttler::RetryThrottler;
use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// How long a request is retried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience(pub(super) Duration);

impl Patience {
    /// Applies the retries to a request.
    pub(super) fn with<B: RequestOptionsBuilder>(self, request: B) -> B {
        Tries::new(self).of(request)
    }
}

/// The retry state of one request: whether there is another attempt, and the pause before it.
#[derive(Clone, Debug)]
pub(super) struct Tries {
    patience: Patience,
    noted: Arc<Noted>,
}

/// What the answers so far say about further attempts.
#[derive(Debug, Default)]
struct Noted {
    /// The pause that the server asks for.
    wanted: Mutex<Option<Duration>>,
    may_be_done: AtomicBool,
}

impl Tries {
    pub(super) fn new(patience: Patience) -> Self {
        Self { patience, noted: Arc::default() }
    }

    /// Applies this retry state to a request.
    pub(super) fn of<B: RequestOptionsBuilder>(&self, request: B) -> B {
        request.with_retry_policy(self.clone()).with_backoff_policy(self.clone())
    }

    /// Whether the request was sent again although it may have been carried out: a busy server, or a proxy, may have
    /// reported the failure too late.
    pub(super) fn may_be_done(&self) -> bool {
        self.noted.may_be_done.load(Ordering::Acquire)
    }

    /// Locks the requested pause. After a panic in another thread the value is still valid, so a poisoned lock is
    /// ignored.
    fn wanted(&self) -> MutexGuard<'_, Option<Duration>> {
        self.noted.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RetryPolicy for Tries {
    fn on_error(&self, state: &RetryState, error: GaxError) -> RetryResult {
        if !may_help(state.idempotent, &error) {
            return RetryResult::Permanent(error);
        }
        let wanted = wanted_pause(&error);
        // If the server asks for a longer pause than the time that is left, the request is not retried.
        if state.start.elapsed().saturating_add(wanted.unwrap_or_default()) >= self.patience.0 {
            return RetryResult::Exhausted(error);
        }
        *self.wanted() = wanted;
        if error.http_status_code() == Some(503) {
            self.noted.may_be_done.store(true, Ordering::Release);
        }
        RetryResult::Continue(error)
    }
}

impl BackoffPolicy for Tries {
    fn on_failure(&self, state: &RetryState) -> Duration {
        match self.wanted().take() {
            // Many clients may have got the same pause, so a random time is added.
            Some(wanted) => wanted.saturating_add(pauses().on_failure(&state.clone().set_attempt_count(1_u32))),
            None => pauses().on_failure(state),
        }
    }
}

/// Returns the pause that a busy server asks for: in a header, as seconds or as a time, or in the details of the error,
/// whichever is longer.
pub(super) fn wanted_pause(error: &GaxError) -> Option<Duration> {
    if !matches!(error.http_status_code(), Some(429 | 503)) {
        return None;
    }
    let in_details = error.status().into_iter().flat_map(|status| &status.details).find_map(|detail| match detail {
        StatusDetails::RetryInfo(info) => {
            let delay = info.retry_delay?;
            Some(Duration::new(u64::try_from(delay.seconds()).ok()?, u32::try_from(delay.nanos()).ok()?))
        }
        _ => None,
    });
    error.http_headers().and_then(in_header).max(in_details)
}

fn in_header(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| Some(headers.get(name)?.to_str().ok()?.trim());
    let wanted = text(RETRY_AFTER)?;
    if let Ok(seconds) = wanted.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let time = |text| rfc2822::parse(text).ok().map(|time| time.timestamp());
    // The pause is measured by the server's clock if the answer has a date.
    let now = text(DATE).and_then(time).unwrap_or_else(Timestamp::now);
    Some(Duration::try_from(time(wanted)?.duration_since(now)).unwrap_or_default())
}

/// A throttler that never skips a retry: [`Patience`] and the pauses already limit the retries. After five failures,
/// the throttlers of Google's crate stop all retries of a client until a request succeeds, which then cannot happen.
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

/// Returns the pauses between attempts: from a fifth of a second up to five seconds, with jitter.
fn pauses() -> ExponentialBackoff {
    let builder = ExponentialBackoffBuilder::new().with_initial_delay(Duration::from_millis(200));
    builder.with_maximum_delay(Duration::from_secs(5)).with_scaling(2.0).clamp()
}

/// Returns the pauses between polls of an operation, which is mostly finished at once.
pub(super) fn looks() -> impl Iterator<Item = Duration> {
    successors(Some(Duration::from_millis(50)), |pause| Some((*pause * 2).min(Duration::from_secs(2))))
}

#[cfg(test)]
mod tests {
    use google_cloud_gax::error::rpc::{Code, Status};
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

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
        let tries = Tries::new(Patience(Duration::ZERO));
        let result = tries.on_error(&RetryState::new(true), answer(503));
        assert!(matches!(result, RetryResult::Exhausted(_)));
    }

    /// Creates an answer with headers, and a pause in its details.
    fn busy(code: u16, headers: &[(HeaderName, &str)], delay: Option<i64>) -> GaxError {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        let detail = |seconds| {
            let info =
                json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")});
            serde_json::from_value::<StatusDetails>(info).unwrap()
        };
        let status = Status::default().set_code(Code::Unavailable).set_details(delay.map(detail));
        GaxError::service_with_http_metadata(status, Some(code), Some(headers.collect()))
    }

    #[test]
    fn a_pause_that_is_asked_for_is_made_and_none_that_is_too_long() {
        let date = (DATE, "Sun, 22 Nov 2026 03:00:00 GMT");
        let until = |time| (RETRY_AFTER, time);
        for (error, seconds) in [
            (busy(429, &[until("7")], None), Some(7)),
            (busy(503, &[until(" 7 ")], Some(3)), Some(7)),
            (busy(503, &[until("2")], Some(3)), Some(3)),
            (busy(429, &[], Some(3)), Some(3)),
            (busy(503, &[date.clone(), until("Sun, 22 Nov 2026 03:00:09 GMT")], None), Some(9)),
            (busy(503, &[date, until("Sun, 22 Nov 2026 02:00:00 GMT")], None), Some(0)),
            (busy(503, &[until("Sun, 22 Nov 2020 02:00:00 GMT")], None), Some(0)),
            (busy(429, &[until("soon")], Some(-3)), None),
            (busy(429, &[], None), None),
            (busy(500, &[until("7")], Some(3)), None),
        ] {
            assert_eq!(wanted_pause(&error), seconds.map(Duration::from_secs), "{error:?}");
        }
        let (tries, state) =
            (Tries::new(Patience(Duration::from_secs(30))), RetryState::new(false).set_attempt_count(9_u32));
        assert!(matches!(tries.on_error(&state, busy(429, &[until("7")], None)), RetryResult::Continue(_)));
        let pause = tries.on_failure(&state);
        assert!((Duration::from_secs(7)..Duration::from_millis(7300)).contains(&pause), "{pause:?}");
        assert!(tries.on_failure(&state) < Duration::from_secs(6), "the next is as ever");
        assert!(!tries.may_be_done());
        for long in ["30", "18446744073709551615"] {
            let result = tries.on_error(&state, busy(503, &[until(long)], None));
            assert!(matches!(result, RetryResult::Exhausted(_)), "{result:?}");
        }
        assert!(!tries.may_be_done());
        assert!(matches!(tries.on_error(&state, busy(503, &[], None)), RetryResult::Continue(_)));
        assert!(tries.may_be_done());
    }
}
