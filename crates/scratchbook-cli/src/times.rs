//! Times as text.

use jiff::Timestamp;

/// Formats a time to the second.
pub(crate) fn time(seconds: f64) -> String {
    Timestamp::from_second(seconds.floor() as i64).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
