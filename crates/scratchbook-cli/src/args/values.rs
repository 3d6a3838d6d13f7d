//! Values on the command line: times, durations, labels, and positions in a change feed.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp};
use scratchbook::session::{FeedCursor, FeedStart};

/// A duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    /// Returns the time this long before now.
    pub(crate) fn ago(self) -> PointInTime {
        PointInTime(Timestamp::now().checked_sub(self.0).unwrap_or(Timestamp::MIN))
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointInTime(pub(crate) Timestamp);

impl PointInTime {
    /// Returns the time in seconds since 1970, to the microsecond.
    pub(crate) fn seconds(self) -> f64 {
        self.0.as_microsecond() as f64 / 1e6
    }
}

/// A label of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Where to start in a change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start(pub(crate) FeedStart);

/// Parses a duration: `30d`, `1h 30m`, `2 weeks`, and ISO 8601's `P30D`.
pub(super) fn span(text: &str) -> Result<Span, String> {
    const RIGHT: &str = "write a span such as 30d, 12h, 90s or \"1 week\"";
    let span: jiff::Span = text.parse().map_err(|_| RIGHT.to_owned())?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err("months and years are of any length; write it in days, such as 30d".to_owned());
    }
    let span = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| RIGHT.to_owned())?;
    match Duration::try_from(span) {
        Ok(span) if !span.is_zero() => Ok(Span(span)),
        _ => Err(format!("it is more than nothing; {RIGHT}")),
    }
}

/// Parses a time: in RFC 3339's form, or a date with or without a time of day in UTC.
pub(super) fn moment(text: &str) -> Result<PointInTime, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(PointInTime(time));
    }
    let in_utc = text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC));
    in_utc.map(|time| PointInTime(time.timestamp())).map_err(|_| "write a time such as 2027-01-01T00:00:00Z".to_owned())
}

/// Parses a number of a type that excludes 0.
pub(super) fn at_least_one<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "it is a whole number, at least 1".to_owned())
}

/// Parses the path of a seal.
pub(super) fn seal_file(text: &str) -> Result<PathBuf, String> {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash {
        return Err(
            "name a file that 'scratchbook seal --to FILE' has written; hashes are not compared any more".to_owned()
        );
    }
    Ok(PathBuf::from(text))
}

/// Parses the number of an event.
pub(super) fn event_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        "it is the number of an event, as `scratchbook sessions show` has it; 0 is the creation of the session"
            .to_owned()
    })
}

/// Parses a label. Its name ends at the first `=`.
pub(super) fn label(text: &str) -> Result<Label, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Label { name: name.to_owned(), value: value.to_owned() }),
        _ => Err("write it as KEY=VALUE, such as status=open".to_owned()),
    }
}

/// Parses a position in a change feed.
pub(super) fn from(text: &str) -> Result<Start, String> {
    match text {
        "beginning" => Ok(Start(FeedStart::Beginning)),
        "now" => Ok(Start(FeedStart::Now)),
        "" => Err("it is empty; write beginning, now, or a cursor as watch has given it".to_owned()),
        cursor => Ok(Start(FeedStart::After(FeedCursor::new(cursor)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_as_people_write_them() {
        for (text, seconds) in [
            ("30d", 30 * 86_400),
            ("1 week", 7 * 86_400),
            ("1h 30m", 5_400),
            ("90s", 90),
            ("2 hours, 1 minute", 7_260),
            ("P30D", 30 * 86_400),
        ] {
            assert_eq!(span(text), Ok(Span(Duration::from_secs(seconds))), "{text}");
        }
        assert_eq!(span("200ms"), Ok(Span(Duration::from_millis(200))));
        for text in ["", "30", "0s", "-1d", "1d ago", "soon", "1 month", "2y", "9999999999999999d"] {
            assert!(span(text).is_err(), "{text}: {:?}", span(text));
        }
    }

    #[test]
    fn times_without_an_offset_are_utc() {
        let expected: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
        for text in ["2027-01-01", "2027-01-01T00:00", "2027-01-01 00:00:00", "2027-01-01T01:00:00+01:00"] {
            assert_eq!(moment(text), Ok(PointInTime(expected)), "{text}");
        }
        for text in ["", "tomorrow", "1798761600", "2027-13-01", "12:00"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
