//! Converts events of ADK for TypeScript, which stores times in milliseconds and summaries as fields of the event.

use scratchbook::event::EventCompaction;
use scratchbook::{Content, Event};
use serde_json::{Map, Value};

/// The end of the range of valid times. A larger number is not a time in seconds.
const LAST: f64 = 253_402_300_800.0;
/// The maximum difference between the time in the column and the event's own, in seconds.
const CUT: f64 = 0.001;
/// The stored and the shown names of a summary's fields.
const SUMMARY: [(&str, &str); 5] = [
    ("is_compacted", "isCompacted"),
    ("start_time", "startTime"),
    ("end_time", "endTime"),
    ("compacted_content", "compactedContent"),
    ("is_scratchpad", "isScratchpad"),
];

/// Converts an event if the time column shows that the event's time is in milliseconds.
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

/// Returns the summary in the form of the other ADKs, which agents in every language can read.
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
        // A wrong time is not changed.
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
