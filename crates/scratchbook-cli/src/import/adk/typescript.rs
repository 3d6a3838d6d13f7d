//! What ADK for TypeScript stores in another way: its times are milliseconds, and a summary is fields of the event.

use scratchbook::{Content, Event, EventCompaction};
use serde_json::{Map, Value};

/// Where the times of events end. A larger number is no time in seconds.
const LAST: f64 = 253_402_300_800.0;
/// How far the column of a time may be from the event's own, in seconds.
const CUT: f64 = 0.001;
/// Fields of a summary, as they are stored and as they are shown.
const SUMMARY: [(&str, &str); 5] = [
    ("is_compacted", "isCompacted"),
    ("start_time", "startTime"),
    ("end_time", "endTime"),
    ("compacted_content", "compactedContent"),
    ("is_scratchpad", "isScratchpad"),
];

/// Reads an event as ADK for TypeScript means it, if the column beside it shows that its time is in milliseconds.
pub(super) fn convert(event: &mut Event, column: Option<f64>) {
    let millis = event.timestamp.filter(|time| *time >= LAST);
    let Some((millis, column)) = millis.zip(column) else { return };
    if (millis / 1000.0 - column).abs() > CUT {
        return;
    }
    event.timestamp = Some(millis / 1000.0);
    if event.extra().contains_key("is_compacted") {
        let fields = event.extra_mut();
        for (stored, shown) in SUMMARY {
            let value = fields.shift_remove(stored);
            fields.extend(value.map(|value| (shown.to_owned(), value)));
        }
        if event.actions.compaction.is_none() {
            event.actions.compaction = summary(event.extra()).map(Box::new);
        }
    }
}

/// The summary in the form of the other ADKs, so that agents in every language read it as one.
fn summary(fields: &Map<String, Value>) -> Option<EventCompaction> {
    let seconds = |name: &str| fields.get(name)?.as_f64().map(|millis| millis / 1000.0);
    let text = fields.get("compactedContent")?.as_str()?;
    Some(EventCompaction::new(seconds("startTime")?, seconds("endTime")?, Content::model(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &Value, column: f64) -> Event {
        let mut event = scratchbook::json::from_str(&text.to_string()).unwrap();
        convert(&mut event, Some(column));
        event
    }

    #[test]
    fn milliseconds_are_known_by_the_column_beside_them() {
        let event = json!({"author": "a", "timestamp": 1_795_194_000_123_u64});
        assert_eq!(read(&event, 1_795_194_000.123).timestamp, Some(1_795_194_000.123));
        // A time that is wrong is not made another.
        assert_eq!(read(&event, 1_795_194_000_123.0).timestamp, Some(1_795_194_000_123.0));
        assert_eq!(read(&json!({"author": "a", "timestamp": 1.5}), 0.0015).timestamp, Some(1.5));
    }

    #[test]
    fn a_summary_is_one_for_every_agent() {
        let event = json!({"author": "a", "timestamp": 1_795_194_000_500_u64, "is_compacted": true,
            "start_time": 1_795_194_000_000_u64, "end_time": 1_795_194_000_250_u64, "compacted_content": "Tea."});
        let event = read(&event, 1_795_194_000.5);
        let compaction = event.actions.compaction.as_deref().unwrap();
        assert_eq!((compaction.start_timestamp, compaction.end_timestamp), (1_795_194_000.0, 1_795_194_000.25));
        assert_eq!(compaction.compacted_content.parts()[0].text.as_deref(), Some("Tea."));
        assert_eq!((event.extra()["isCompacted"].clone(), event.extra().get("is_compacted")), (json!(true), None));
    }
}
