//! An event as the API's `SessionEvent`.
//!
//! The API has fields for a part of what ADK's events have, and `rawEvent` for the whole event. What has a whole event is
//! read from it, but for what ADK's clients take from outside of it: who, in which run and when. State changes
//! are those of `actions`, which is what the API applies.

use serde_json::{Map, Value};

use super::content;
use super::message::Message;
use super::{seconds_from_timestamp, timestamp_from_seconds};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::json;
use crate::state::StateDelta;

const FIELDS: &[&str] = &[
    "name",
    "author",
    "content",
    "invocationId",
    "actions",
    "timestamp",
    "errorCode",
    "errorMessage",
    "eventMetadata",
    "rawEvent",
];
/// Names of the API, and of ADK's actions where they are others.
const ACTIONS: &[(&str, &str)] = &[
    ("skipSummarization", "skipSummarization"),
    ("stateDelta", "stateDelta"),
    ("artifactDelta", "artifactDelta"),
    ("transferAgent", "transferToAgent"),
    ("escalate", "escalate"),
    ("requestedAuthConfigs", "requestedAuthConfigs"),
];
/// What the API puts aside and ADK has in the event itself.
const METADATA: &[&str] = &[
    "groundingMetadata",
    "partial",
    "turnComplete",
    "interrupted",
    "longRunningToolIds",
    "branch",
    "customMetadata",
    "inputTranscription",
    "outputTranscription",
];
/// Where ADK's client keeps what the API has no field for.
const COMPACTION: &str = "_compaction";
const USAGE: &str = "_usage_metadata";

/// Reads a `SessionEvent`. Its id is the whole event's, where there is one.
///
/// ```
/// use scratchbook::vertex::event_from_json;
/// use serde_json::json;
///
/// let event = event_from_json(json!({
///     "author": "agent", "invocationId": "i1", "timestamp": "2026-11-20T17:10:22Z",
///     "actions": {"state_delta": {"n": 1}}, "eventMetadata": {"turn_complete": true},
/// }))?;
/// assert_eq!((event.turn_complete, event.actions.state_delta.contains("n")), (Some(true), true));
/// # Ok::<(), scratchbook::Error>(())
/// ```
///
/// # Errors
///
/// `InvalidArgument` for unknown fields, values of another type, no author or no time, and whatever is no event.
pub fn event_from_json(value: Value) -> Result<Event> {
    let mut fields = Message::new(value, "the event", FIELDS)?;
    let author = fields.text("author")?.ok_or_else(|| Error::invalid("the event has no author; name one"))?;
    let timestamp = fields.text("timestamp")?.ok_or_else(|| Error::invalid("the event has no timestamp; give one"))?;
    let timestamp = seconds_from_timestamp(&timestamp).map_err(|e| e.context("timestamp"))?;
    let invocation_id = fields.text("invocationId")?.unwrap_or_default();
    let actions = actions(&mut fields)?;
    let metadata = fields.take("eventMetadata").unwrap_or_else(|| Map::new().into());
    let mut metadata = Message::new(metadata, "the event's metadata", METADATA)?;
    let mut event = match fields.object("rawEvent")?.filter(|raw| !raw.is_empty()) {
        Some(raw) => {
            let mut event = whole(raw, &actions)?;
            // What is a piece of a stream by either is one.
            event.partial =
                metadata.take("partial").filter(|p| *p == Value::Bool(true)).map(|_| true).or(event.partial);
            event
        }
        None => from_fields(fields, metadata, actions)?,
    };
    event.author = author;
    event.invocation_id = invocation_id;
    event.timestamp = Some(timestamp);
    event.seq = None;
    event.check()?;
    Ok(event)
}

/// The actions in ADK's names.
fn actions(fields: &mut Message) -> Result<Map<String, Value>> {
    let Some(sent) = fields.take("actions") else { return Ok(Map::new()) };
    let known: Vec<_> = ACTIONS.iter().map(|(name, _)| *name).chain(["transferToAgent"]).collect();
    let mut sent = Message::new(sent, "the event's actions", &known)?;
    let mut actions = Map::new();
    for (name, adk) in ACTIONS {
        actions.extend(sent.take(name).map(|value| ((*adk).to_owned(), value)));
    }
    actions.extend(sent.take("transferToAgent").map(|value| ("transferToAgent".to_owned(), value)));
    Ok(actions)
}

fn whole(raw: Map<String, Value>, actions: &Map<String, Value>) -> Result<Event> {
    let mut event = read_event(raw).map_err(|e| e.context("rawEvent"))?;
    if let Some(delta) = actions.get("stateDelta") {
        let Value::Object(delta) = delta else {
            return Err(Error::invalid("'stateDelta' of the event's actions is not an object; send one"));
        };
        event.actions.state_delta = read_delta(delta.clone())?;
    }
    Ok(event)
}

fn from_fields(mut fields: Message, mut metadata: Message, actions: Map<String, Value>) -> Result<Event> {
    let mut event = Map::new();
    event.extend(fields.take("content").map(|value| ("content".to_owned(), content::named(value))));
    for name in ["errorCode", "errorMessage"] {
        event.extend(fields.take(name).map(|value| (name.to_owned(), value)));
    }
    event.insert("actions".to_owned(), Value::Object(actions));
    let mut custom = metadata.object("customMetadata")?.unwrap_or_default();
    if let (Some(compaction), Some(actions)) = (custom.shift_remove(COMPACTION), event.get_mut("actions")) {
        actions["compaction"] = compaction;
    }
    event.extend(custom.shift_remove(USAGE).map(|usage| ("usageMetadata".to_owned(), usage)));
    if !custom.is_empty() {
        event.insert("customMetadata".to_owned(), Value::Object(custom));
    }
    for name in METADATA {
        event.extend(metadata.take(name).map(|value| ((*name).to_owned(), value)));
    }
    read_event(event)
}

fn read_event(event: Map<String, Value>) -> Result<Event> {
    serde_json::from_value(Value::Object(event)).map_err(|error| Error::invalid(json::describe(&error)))
}

fn read_delta(delta: Map<String, Value>) -> Result<StateDelta> {
    serde_json::from_value(Value::Object(delta)).map_err(|error| Error::invalid(json::describe(&error)))
}

/// An event as a `SessionEvent` with its full name.
///
/// # Errors
///
/// `Internal` where it cannot be written, which is a defect; `InvalidArgument` for an event with operations, which no store
/// gives.
pub fn event_to_json(event: &Event, name: impl Into<String>) -> Result<Value> {
    let raw = serde_json::to_value(event).map_err(|e| Error::internal("an event is no JSON").with_source(e))?;
    let Value::Object(raw) = raw else { return Err(Error::internal("an event is no object")) };
    let mut out = Map::new();
    out.insert("name".to_owned(), name.into().into());
    let timestamp = timestamp_from_seconds(event.timestamp.unwrap_or_default());
    for (name, value) in [
        ("author", Some(event.author.clone().into())),
        ("invocationId", Some(event.invocation_id.clone().into())),
        ("timestamp", Some(timestamp.into())),
        ("content", raw.get("content").cloned().map(content::shown)),
        ("errorCode", raw.get("errorCode").cloned()),
        ("errorMessage", raw.get("errorMessage").cloned()),
        ("actions", Some(shown_actions(&raw))),
        ("eventMetadata", Some(shown_metadata(&raw))),
    ] {
        out.extend(value.map(|value| (name.to_owned(), value)));
    }
    out.insert("rawEvent".to_owned(), Value::Object(raw));
    Ok(Value::Object(out))
}

fn shown_actions(raw: &Map<String, Value>) -> Value {
    let actions = raw.get("actions");
    let shown = ACTIONS.iter().filter_map(|(name, adk)| Some(((*name).to_owned(), actions?.get(adk)?.clone())));
    Value::Object(shown.collect())
}

fn shown_metadata(raw: &Map<String, Value>) -> Value {
    let mut metadata: Map<_, _> =
        METADATA.iter().filter_map(|name| Some(((*name).to_owned(), raw.get(*name)?.clone()))).collect();
    let bytes = metadata.get_mut("groundingMetadata").and_then(|found| found.pointer_mut("/searchEntryPoint/sdkBlob"));
    content::with_standard_alphabet(bytes);
    let compaction = raw.get("actions").and_then(|actions| actions.get("compaction"));
    let kept = [(COMPACTION, compaction), (USAGE, raw.get("usageMetadata"))];
    let kept: Vec<_> = kept.into_iter().filter_map(|(name, value)| Some((name, value?.clone()))).collect();
    if !kept.is_empty() {
        let custom = metadata.entry("customMetadata").or_insert_with(|| Value::Object(Map::new()));
        kept.into_iter().for_each(|(name, value)| custom[name] = value);
    }
    Value::Object(metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rich() -> Event {
        let text = json!({
            "id": "e1", "author": "agent", "invocationId": "i1", "timestamp": 1_795_194_623.057_51, "branch": "a.b",
            "content": {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {"n": null}}}]},
            "turnComplete": true, "interrupted": false, "errorCode": "E", "errorMessage": "went wrong",
            "customMetadata": {"k": 1}, "usageMetadata": {"promptTokenCount": 1}, "longRunningToolIds": ["c"],
            "groundingMetadata": {"webSearchQueries": ["q"]}, "modelVersion": "m", "unheardOf": {"x": [1.0, -0.0]},
            "actions": {"stateDelta": {"n": 12_345_678_901_234_567_u64, "gone": "__ADK_SENTINEL_REMOVED__"},
                "artifactDelta": {"f": 2}, "transferToAgent": "x", "escalate": true, "endOfAgent": true,
                "compaction": {"startTimestamp": 1.0, "endTimestamp": 2.0, "compactedContent": {"parts": []}}},
        });
        Event::from_json(&text.to_string()).unwrap()
    }

    #[test]
    fn an_event_comes_back_as_it_was() {
        assert_eq!(event_from_json(event_to_json(&rich(), "n/e1").unwrap()).unwrap(), rich());
    }

    #[test]
    fn without_the_whole_event_what_the_api_has_fields_for_comes_back() {
        let mut value = event_to_json(&rich(), "n/e1").unwrap();
        value.as_object_mut().unwrap().shift_remove("rawEvent");
        let (mut expected, found) = (rich(), event_from_json(value).unwrap());
        assert!(found.id.is_empty() && found.model_version.is_none());
        expected.id = String::new();
        expected.model_version = None;
        expected.extra.clear();
        expected.actions.end_of_agent = None;
        assert_eq!(found, expected);
    }
}
