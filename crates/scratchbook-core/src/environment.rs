//! The source of time and ids, which tests can replace.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
