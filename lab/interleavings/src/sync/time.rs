//! A clock that only waits advance. The scheduler decides whether the timeout of a wait expires.

use std::sync::LockResult;
use std::time::Duration;

use shuttle::sync::MutexGuard;
use shuttle::sync::atomic::{AtomicU64, Ordering};

use super::{PoisonError, perhaps, point};

shuttle::lazy_static! {
    /// The time in milliseconds since the beginning.
    static ref NOW: AtomicU64 = AtomicU64::new(0);
}

fn advance(time: Duration) {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    NOW.fetch_add(millis.saturating_add(1), Ordering::SeqCst);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(Duration::from_millis(NOW.load(Ordering::SeqCst)))
    }

    pub(crate) fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).filter(|_| time < Duration::MAX).map(Self)
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// Waits for a notification or for the end of the time. The time may be over at once, or only after a notification.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        if perhaps() {
            advance(time);
            return Ok((guard, ()));
        }
        Ok((self.0.wait(guard).unwrap_or_else(PoisonError::into_inner), ()))
    }
}

pub(crate) mod thread {
    use std::time::Duration;

    pub(crate) use shuttle::thread::Builder;

    pub(crate) fn sleep(time: Duration) {
        super::point();
        super::advance(time);
    }
}
