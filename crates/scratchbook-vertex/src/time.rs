//! Times and durations in the form of proto-JSON.

use std::time::Duration;

use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use scratchbook_core::error::{Error, Result};
use scratchbook_core::session::{micros_of_seconds, seconds_of_micros};

/// jiff's range ends some hours before the end of the year 9999, because its times have to exist in every time zone.
/// Later times are computed as if they were some days earlier.
const DAYS: i64 = 2;
const MICROS: i64 = DAYS * 86_400_000_000;

/// Writes a time in seconds since 1970 in the form of RFC 3339, to the microsecond.
///
/// ```
/// assert_eq!(scratchbook::vertex::timestamp_from_seconds(1_700_000_000.5), "2023-11-14T22:13:20.500000Z");
/// ```
#[must_use]
pub fn timestamp_from_seconds(seconds: f64) -> String {
    let micros = micros_of_seconds(seconds);
    if let Ok(time) = Timestamp::from_microsecond(micros) {
        return format!("{time:.6}");
    }
    let earlier = Timestamp::from_microsecond(micros.saturating_sub(MICROS)).unwrap_or(Timestamp::MAX);
    let time = Offset::UTC.to_datetime(earlier).saturating_add(DAYS.days());
    format!("{time:.6}Z")
}

/// Reads a time of RFC 3339 as seconds since 1970, to the microsecond.
///
/// # Errors
///
/// `InvalidArgument` if the text is not such a time.
pub fn seconds_from_timestamp(text: &str) -> Result<f64> {
    let time = text.parse().map(Timestamp::as_microsecond).ok().or_else(|| micros_of_late(text)).ok_or_else(|| {
        Error::invalid(format!("{text:?} is no time; write it with its offset, such as \"2026-01-31T12:00:00Z\""))
    })?;
    Ok(seconds_of_micros(time))
}

/// Reads a time at the end of the year 9999 as microseconds since 1970.
fn micros_of_late(text: &str) -> Option<i64> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = match pieces.offset()? {
        PiecesOffset::Numeric(offset) => offset.offset(),
        _ => Offset::UTC,
    };
    let time = pieces.date().to_datetime(pieces.time()?).checked_sub(DAYS.days()).ok()?;
    Some(offset.to_timestamp(time).ok()?.as_microsecond() + MICROS)
}

/// Reads a duration such as `7200s` or `0.5s`.
///
/// # Errors
///
/// `InvalidArgument` if the text is not such a duration, or if the duration is not positive.
pub fn duration_from_text(text: &str) -> Result<Duration> {
    let number = text.strip_suffix('s').filter(|number| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    let span = number.and_then(|number| Duration::try_from_secs_f64(number.parse().ok()?).ok());
    span.filter(|span| !span.is_zero())
        .ok_or_else(|| Error::invalid(format!("{text:?} is no span of time; write it in seconds, such as \"7200s\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_to_the_microsecond() {
        for text in ["2026-11-20T17:10:22.917539Z", "1970-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"] {
            assert_eq!(timestamp_from_seconds(seconds_from_timestamp(text).unwrap()), text);
        }
        let seconds = seconds_from_timestamp("2026-11-20T18:10:22.917539+01:00").unwrap();
        assert_eq!(timestamp_from_seconds(seconds), "2026-11-20T17:10:22.917539Z");
        assert_eq!(timestamp_from_seconds(253_402_300_799.0), "9999-12-31T23:59:59.000000Z");
        assert_eq!(seconds_from_timestamp("9999-12-31T23:59:59-01:00").unwrap(), 253_402_304_399.0);
        for bad in ["", "now", "2026-11-20", "2026-11-20T17:10:22", "1700000000"] {
            assert!(seconds_from_timestamp(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_are_in_seconds() {
        assert_eq!(duration_from_text("7200s").unwrap(), Duration::from_secs(7200));
        assert_eq!(duration_from_text("0.5s").unwrap(), Duration::from_millis(500));
        for bad in ["", "s", ".s", "0s", "-1s", "1", "1m", "1e3s", "1.2.3s", "99999999999999999999s", "infs"] {
            assert!(duration_from_text(bad).is_err(), "{bad}");
        }
    }
}
