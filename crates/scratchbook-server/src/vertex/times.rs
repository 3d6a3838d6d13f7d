//! The times by which events are filtered. They are in microseconds since 1970, the precision in which times are shown.

use scratchbook::vertex::seconds_from_timestamp;
use scratchbook::{Error, Event, Result};

use super::filter::{Comparison, conditions};

/// The times from `from` up to, but not including, `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeRange {
    from: i64,
    until: i64,
}

impl TimeRange {
    /// Returns the times that a filter on `timestamp` allows.
    pub(super) fn new(filter: Option<&str>) -> Result<Self> {
        let mut times = Self { from: i64::MIN, until: i64::MAX };
        for condition in conditions(filter.unwrap_or_default())? {
            if condition.field != ["timestamp"] {
                let field = condition.field.join(".");
                return Err(Error::invalid(format!("events are found by timestamp alone, not by '{field}'")));
            }
            let seconds = seconds_from_timestamp(&condition.value).map_err(|e| e.context("the filter"))?;
            let at = micros(seconds);
            let (from, until) = match condition.comparison {
                Comparison::Is => (at, at + 1),
                Comparison::AtLeast => (at, i64::MAX),
                Comparison::Above => (at + 1, i64::MAX),
                Comparison::Below => (i64::MIN, at),
                Comparison::AtMost => (i64::MIN, at + 1),
            };
            times = Self { from: times.from.max(from), until: times.until.min(until) };
        }
        Ok(times)
    }

    pub(super) fn has(self, event: &Event) -> bool {
        let at = micros(event.timestamp.unwrap_or_default());
        self.from <= at && at < self.until
    }

    /// Returns the time, in seconds, before which no events match, if there is such a time. The time is rounded down,
    /// so it may be slightly before the filter's time.
    pub(super) fn begin(self) -> Option<f64> {
        (self.from > i64::MIN).then(|| ((self.from - 1) as f64 / 1e6).max(0.0))
    }
}

/// Converts seconds since 1970 to microseconds.
pub(super) fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}
