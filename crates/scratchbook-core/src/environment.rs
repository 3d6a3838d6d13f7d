//! The source of time and ids, which tests can replace, and the time by which a caller wants its answer.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::{NoContext, Timestamp, Uuid};

use crate::error::{Error, ErrorKind, Result};

/// The clock and the id source of stores and runners.
pub trait Environment: fmt::Debug + Send + Sync + 'static {
    /// Returns the current time, in seconds since 1970.
    fn now(&self) -> f64;

    /// Returns a new unique id.
    fn new_id(&self) -> String;
}

/// The system's clock, and version 7 UUIDs, which sort by creation time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> f64 {
        seconds_of(SystemTime::now())
    }

    fn new_id(&self) -> String {
        id_at(SystemTime::now()).to_string()
    }
}

/// Refuses a system clock that is set before 1970, because no event can have such a time.
///
/// # Errors
///
/// `FailedPrecondition`.
pub fn check_clock() -> Result<()> {
    check_time(SystemTime::now())
}

fn check_time(now: SystemTime) -> Result<()> {
    if now >= UNIX_EPOCH {
        return Ok(());
    }
    let message = format!("the system's clock is {:.0} s before 1970; set it to the present", -seconds_of(now));
    Err(Error::new(ErrorKind::FailedPrecondition, message))
}

fn seconds_of(time: SystemTime) -> f64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_micros() as f64 / 1e6,
        Err(before) => -(before.duration().as_micros() as f64) / 1e6,
    }
}

fn id_at(now: SystemTime) -> Uuid {
    // `now_v7` panics before 1970.
    if now < UNIX_EPOCH { Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0)) } else { Uuid::now_v7() }
}

tokio::task_local! {
    static DEADLINE: Deadline;
}

/// How many steps a long loop takes before it looks at its deadline again.
pub const STEPS: usize = 10_000;

/// The time by which a call has to end. By default there is none.
///
/// A time limit from outside, such as that of `tokio::time::timeout`, takes effect only where a call waits. A loop that
/// computes for long therefore looks at the deadline of its task, which [`scope`](Self::scope) has set.
///
/// ```
/// use std::time::Duration;
/// use scratchbook::environment::Deadline;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let late = Deadline::after(Duration::ZERO).scope(async { Deadline::current().check() }).await;
/// assert!(late.is_err());
/// assert!(Deadline::current().check().is_ok());
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline that ends this time from now, or the current one if that is earlier.
    #[must_use]
    pub fn after(time: Duration) -> Self {
        let earlier = Self::current().0.into_iter().chain(Instant::now().checked_add(time)).min();
        Self(earlier)
    }

    /// Returns the deadline of the running task.
    #[must_use]
    pub fn current() -> Self {
        DEADLINE.try_with(|deadline| *deadline).unwrap_or_default()
    }

    /// Runs a future with this as its current deadline.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        DEADLINE.scope(self, future).await
    }

    /// Runs a computation with this as its current deadline: on another thread, the task's own is not known.
    pub fn sync_scope<T>(self, work: impl FnOnce() -> T) -> T {
        DEADLINE.sync_scope(self, work)
    }

    /// Ends a computation that has written nothing yet, or whose writes are taken back after an error.
    ///
    /// # Errors
    ///
    /// `Unavailable` after the deadline.
    pub fn check(self) -> Result<()> {
        match self.0 {
            Some(end) if Instant::now() >= end => {
                let message =
                    "this took longer than the time limit of the call; nothing was changed, send less at once";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
            _ => Ok(()),
        }
    }

    /// Checks the deadline in each ten thousandth step of a loop.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_at(self, step: usize) -> Result<()> {
        if step % STEPS == STEPS - 1 { self.check() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_before_1970_is_refused_without_a_panic() {
        let before = UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(seconds_of(before), -1.5);
        assert_ne!(id_at(before), id_at(before));
        assert_eq!(check_time(before).unwrap_err().kind(), ErrorKind::FailedPrecondition);
        assert!(crate::event::check_timestamp(seconds_of(before)).is_err(), "no event gets such a time");
        check_time(UNIX_EPOCH).unwrap();
    }
}
