//! Events as the API's `SessionEvent`.
//!
//! The API has fields for a part of an ADK event, and `rawEvent` for the whole event. If there is a whole event, the
//! event is read from it, except for the author, the invocation and the time, which ADK's clients take from the outer
//! fields. State changes are taken from the outer `actions` if it has any, because the API applies those. Fields that
//! the whole event lacks are taken from the outer fields.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::content;
use super::custom::{self, COMPACTION, USAGE};
use super::message::{Message, UnknownFields, either, is_either};
use super::{seconds_from_timestamp, timestamp_from_seconds};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::{Event, EventCompaction, RESTORED};
use scratchbook_core::json;

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
/// The API's names of actions, each with ADK's name, which may differ.
const ACTIONS: &[(&str, &str)] = &[
    ("skipSummarization", "skipSummarization"),
    ("stateDelta", "stateDelta"),
    ("artifactDelta", "artifactDelta"),
    ("transferAgent", "transferToAgent"),
    ("escalate", "escalate"),
    ("requestedAuthConfigs", "requestedAuthConfigs"),
];
/// Names of ADK's actions that the API does not have. ADK for TypeScript sends its actions unchanged. They are returned
/// only in the whole event, because other clients refuse them.
const ADK_ACTIONS: &[&str] = &[
    "transferToAgent",
    "transferReason",
    "requestedToolConfirmations",
    "compaction",
    "endOfAgent",
    "agentState",
    "rewindBeforeInvocationId",
    "route",
    "renderUiWidgets",
    "setModelResponse",
];
/// The fields that belong to the metadata in the API, and to the event itself in ADK.
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
/// How deep an event can be nested: a list of events is two levels deeper, and JSON parsers stop at 128.
const MOST_LEVELS: usize = 120;
/// The mark of an event that a client of this API has sent.
const BROUGHT: &str = "vertex";

/// Reads a `SessionEvent`. Its id is the id of the whole event, if there is a whole event. Fields that the whole event
/// lacks are taken from the outer fields.
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
/// `InvalidArgument` if there are unknown fields outside of the whole event, values of the wrong type, no author or no
/// time, or if it is not an event at all.
pub fn event_from_json(value: Value) -> Result<Event> {
    read(value, UnknownFields::Refused)
}

/// Reads a `SessionEvent` that another program has written, as [`event_from_json`] does. That program may be newer.
/// Unknown fields of the whole event are kept, as by [`Event::from_json`]. Unknown fields of the API, which a newer
/// server may send, are ignored.
///
/// # Errors
///
/// As [`event_from_json`], except for unknown fields.
pub fn event_from_server(value: Value) -> Result<Event> {
    read(value, UnknownFields::LeftOut)
}

fn read(value: Value, unknown: UnknownFields) -> Result<Event> {
    json::check_levels(&value, MOST_LEVELS, || "the event".to_owned())?;
    let mut fields = Message::new(value, "the event", FIELDS, unknown)?;
    let author = fields.text("author")?.ok_or_else(|| Error::invalid("the event has no author; name one"))?;
    let timestamp = fields.text("timestamp")?.ok_or_else(|| Error::invalid("the event has no timestamp; give one"))?;
    let timestamp = seconds_from_timestamp(&timestamp).map_err(|e| e.context("timestamp"))?;
    let invocation_id = fields.text("invocationId")?.unwrap_or_default();
    let whole = fields.object("rawEvent")?.unwrap_or_default();
    let actions = actions(&mut fields, &whole, unknown)?;
    let metadata = fields.take("eventMetadata").unwrap_or_else(|| Map::new().into());
    let mut metadata = Message::new(metadata, "the event's metadata", METADATA, unknown)?;
    let is_partial = metadata.get("partial") == Some(&Value::Bool(true));
    let beside = from_fields(fields, &mut metadata, actions)?;
    if unknown == UnknownFields::Refused {
        check_known(&beside, &whole)?;
    }
    let mut event = laid_over(beside, whole);
    if let Some(versions) = event.get_mut("actions").and_then(|actions| either(actions, "artifactDelta")) {
        as_integers(versions);
    }
    let mut event: Event =
        serde_json::from_value(Value::Object(event)).map_err(|error| Error::invalid(json::describe(&error)))?;
    if is_partial {
        // The event is partial if either form says so.
        event.partial = Some(true);
    }
    event.author = author;
    event.invocation_id = invocation_id;
    event.timestamp = Some(exact(event.timestamp, timestamp));
    event.seq = None;
    event.check()?;
    check_kept(&event)?;
    Ok(event)
}

/// Refuses unknown names in the outer content and summary, which are messages of the API. A value of another type is
/// not checked here, because the whole event may have another value for it. A content or a summary that the whole event
/// has with the same value is not checked either, because the whole event keeps all of it.
fn check_known(beside: &Map<String, Value>, whole: &Map<String, Value>) -> Result<()> {
    fn compaction_of(event: &Map<String, Value>) -> Option<&Value> {
        event.get("actions")?.get("compaction")
    }
    let compaction = compaction_of(beside).filter(|compaction| compaction_of(whole) != Some(compaction));
    let content = beside.get("content").filter(|content| whole.get("content") != Some(content));
    let mut event =
        Event { content: content.and_then(|content| Content::deserialize(content).ok()), ..Event::default() };
    event.actions.compaction =
        compaction.and_then(|compaction| EventCompaction::deserialize(compaction).ok().map(Box::new));
    event.check_known()
}

/// Refuses an event that could not be read again after sending.
#[cfg(feature = "client")]
pub(crate) fn check_sent(event: &Event, sent: &Value) -> Result<()> {
    json::check_levels(sent, MOST_LEVELS, || "the event".to_owned())?;
    check_kept(event)
}

fn check_kept(event: &Event) -> Result<()> {
    content::check_messages(event)?;
    if let Some((name, version)) =
        event.actions.artifact_delta.iter().find(|(_, version)| i32::try_from(**version).is_err())
    {
        return Err(Error::invalid(format!(
            "the artifact {name:?} has the version {version}; the API has 31 bits for one"
        )));
    }
    Ok(())
}

/// Returns the time of the whole event if it equals the outer one, which is truncated to the microsecond.
pub(crate) fn exact(whole: Option<f64>, beside: f64) -> f64 {
    whole.filter(|whole| (whole - beside).abs() < 1.5e-6).unwrap_or(beside)
}

/// Marks an event that a client of this API sends, as [`Event::mark_restored`] does: no run executes its calls and
/// requests. [`event_to_json`] omits this mark, and keeps other marks.
pub fn mark_brought(event: &mut Event) {
    let mark = event.custom_metadata.get_or_insert_default().entry(RESTORED).or_insert(Value::Null);
    // A mark that the client has set stays. If it equals this mark, it becomes `true`, so that the two are not
    // confused.
    *mark = if mark.is_null() {
        BROUGHT.into()
    } else if *mark == BROUGHT {
        true.into()
    } else {
        mark.take()
    };
}

/// Returns the actions with ADK's names. An unknown action that the whole event has with the same value is ignored: a
/// newer client has sent the action twice, and nothing is lost. `unknown` says how other unknown actions are handled.
fn actions(fields: &mut Message, whole: &Map<String, Value>, unknown: UnknownFields) -> Result<Map<String, Value>> {
    let Some(mut sent) = fields.take("actions") else { return Ok(Map::new()) };
    let known: Vec<_> = ACTIONS.iter().map(|(name, _)| name).chain(ADK_ACTIONS).copied().collect();
    if let (Some(sent), Some(Value::Object(whole))) = (sent.as_object_mut(), whole.get("actions")) {
        sent.retain(|name, value| whole.get(name) != Some(value) || known.iter().any(|known| is_either(known, name)));
    }
    let mut sent = Message::new(sent, "the event's actions", &known, unknown)?;
    let mut actions = Map::new();
    for (name, adk) in ACTIONS {
        actions.extend(sent.take(name).map(|value| ((*adk).to_owned(), value)));
    }
    for name in ADK_ACTIONS {
        if let Some(value) = sent.take(name)
            && actions.insert((*name).to_owned(), value).is_some()
        {
            return Err(Error::invalid(
                "the event's actions have the agent to transfer to twice; send 'transferAgent'",
            ));
        }
    }
    Ok(actions)
}

/// Converts versions to integers: proto-JSON may write them as strings or with a fraction of zero.
fn as_integers(versions: &mut Value) {
    for version in versions.as_object_mut().into_iter().flat_map(Map::values_mut) {
        let number = match &*version {
            Value::String(text) => text.parse().ok(),
            other => other.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15).map(|n| n as i64),
        };
        *version = number.map_or_else(|| version.take(), Value::from);
    }
}

/// Completes a whole event with the outer fields that it lacks. If there are outer state changes, the event gets these,
/// because the API applies them.
fn laid_over(mut beside: Map<String, Value>, whole: Map<String, Value>) -> Map<String, Value> {
    let mut actions = match beside.shift_remove("actions") {
        Some(Value::Object(actions)) => actions,
        _ => Map::new(),
    };
    let has_no_delta = |delta: &Value| delta.as_object().is_some_and(Map::is_empty);
    let delta = actions.shift_remove("stateDelta").filter(|delta| !has_no_delta(delta));
    lay_over(&mut beside, whole);
    match beside.get_mut("actions") {
        Some(Value::Object(of_whole)) => {
            lay_over(&mut actions, std::mem::take(of_whole));
            *of_whole = actions;
            of_whole.extend(delta.map(|delta| ("stateDelta".to_owned(), delta)));
        }
        // A value that is not an object is refused.
        Some(other) if !other.is_null() => {}
        _ => {
            actions.extend(delta.map(|delta| ("stateDelta".to_owned(), delta)));
            beside.insert("actions".to_owned(), Value::Object(actions));
        }
    }
    beside
}

fn lay_over(beside: &mut Map<String, Value>, whole: Map<String, Value>) {
    for (name, value) in whole {
        let known = beside.keys().find(|known| is_either(known, &name)).cloned();
        if known.is_none() || !value.is_null() {
            beside.insert(known.unwrap_or(name), value);
        }
    }
}

/// Returns the fields outside of `rawEvent`, under ADK's names.
fn from_fields(
    mut fields: Message,
    metadata: &mut Message,
    mut actions: Map<String, Value>,
) -> Result<Map<String, Value>> {
    let mut event = Map::new();
    event.extend(fields.take("content").map(|value| ("content".to_owned(), content::named(value))));
    for name in ["errorCode", "errorMessage"] {
        event.extend(fields.take(name).map(|value| (name.to_owned(), value)));
    }
    let mut custom = metadata.object("customMetadata")?.unwrap_or_default();
    custom::unpack(&mut custom, &mut event, &mut actions);
    event.insert("actions".to_owned(), Value::Object(actions));
    if !custom.is_empty() {
        event.insert("customMetadata".to_owned(), Value::Object(custom));
    }
    for name in METADATA {
        event.extend(metadata.take(name).map(|value| ((*name).to_owned(), value)));
    }
    Ok(event)
}

/// Writes an event as a `SessionEvent` with its full name.
///
/// # Errors
///
/// `Internal` if it cannot be written, which is a defect; `InvalidArgument` for an event with operations, which no
/// store returns.
pub fn event_to_json(event: &Event, name: impl Into<String>) -> Result<Value> {
    let raw = without_brought(fields_of(event)?);
    // The outer fields are fields of the API, so unknown fields are left out of them.
    let known = match event.known() {
        Cow::Borrowed(_) => None,
        Cow::Owned(known) => Some(without_brought(fields_of(&known)?)),
    };
    let beside = known.as_ref().unwrap_or(&raw);
    let mut out = Map::new();
    out.insert("name".to_owned(), name.into().into());
    let timestamp = timestamp_from_seconds(event.timestamp.unwrap_or_default());
    for (name, value) in [
        ("author", Some(event.author.clone().into())),
        ("invocationId", Some(event.invocation_id.clone().into())),
        ("timestamp", Some(timestamp.into())),
        ("content", beside.get("content").cloned().map(content::shown)),
        ("errorCode", beside.get("errorCode").cloned()),
        ("errorMessage", beside.get("errorMessage").cloned()),
        ("actions", Some(shown_actions(beside))),
        ("eventMetadata", Some(shown_metadata(beside))),
    ] {
        out.extend(value.map(|value| (name.to_owned(), value)));
    }
    out.insert("rawEvent".to_owned(), Value::Object(raw));
    Ok(Value::Object(out))
}

fn fields_of(event: &Event) -> Result<Map<String, Value>> {
    match serde_json::to_value(event) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::internal("an event is no object")),
        Err(e) => Err(Error::internal("an event is no JSON").with_source(e)),
    }
}

fn without_brought(mut event: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(custom)) = event.get_mut("customMetadata")
        && custom.get(RESTORED).is_some_and(|mark| *mark == BROUGHT)
    {
        custom.shift_remove(RESTORED);
        if custom.is_empty() {
            event.shift_remove("customMetadata");
        }
    }
    event
}

fn shown_actions(event: &Map<String, Value>) -> Value {
    let actions = event.get("actions");
    let shown = ACTIONS.iter().filter_map(|(name, adk)| Some(((*name).to_owned(), actions?.get(adk)?.clone())));
    Value::Object(shown.collect())
}

fn shown_metadata(event: &Map<String, Value>) -> Value {
    let mut metadata: Map<_, _> =
        METADATA.iter().filter_map(|name| Some(((*name).to_owned(), event.get(*name)?.clone()))).collect();
    if let Some(grounding) = metadata.get_mut("groundingMetadata") {
        *grounding = content::shown_grounding(grounding.take());
    }
    let compaction = event.get("actions").and_then(|actions| actions.get("compaction"));
    let kept = [(COMPACTION, compaction), (USAGE, event.get("usageMetadata"))];
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

    fn read(value: Value) -> Event {
        event_from_json(value).unwrap()
    }

    #[test]
    fn what_is_not_known_inside_an_event_is_kept_in_the_whole_one_and_refused_beside_it() {
        let mut newer = rich();
        newer.actions.extra.insert("new".to_owned(), json!([1]));
        newer.content.as_mut().unwrap().extra.insert("new".to_owned(), json!(null));
        let sent = event_to_json(&newer, "n/e1").unwrap();
        let known = event_to_json(&rich(), "n/e1").unwrap();
        assert_eq!((&sent["content"], &sent["actions"]), (&known["content"], &known["actions"]));
        assert_eq!(event_from_json(sent).unwrap(), newer);
        let beside = json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "content": {"parts": [{"new": 1}]}});
        let error = event_from_json(beside.clone()).unwrap_err().to_string();
        assert!(error.contains("\"new\" in 'part'"), "{error}");
        assert_eq!(event_from_server(beside).unwrap().content.unwrap().parts()[0].extra["new"], 1);
    }

    #[test]
    fn what_the_whole_event_does_not_have_is_that_of_the_fields_beside_it() {
        let mut value = event_to_json(&rich(), "n/e1").unwrap();
        value["rawEvent"] = json!({"id": "e1", "modelVersion": "m", "error_code": "other", "content": null,
            "actions": {"stateDelta": {"other": 1}, "endOfAgent": true, "artifactDelta": {"g": 3}, "compaction": null}});
        let mut expected = rich();
        expected.error_code = Some("other".to_owned());
        expected.actions.artifact_delta = [("g".to_owned(), 3)].into();
        expected.extra.clear();
        assert_eq!(read(value.clone()), expected);
        // The outer state changes are used, if there are any.
        value["actions"]["stateDelta"] = json!({});
        assert_eq!(read(value).actions.state_delta.len(), 1);
        let value =
            json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "rawEvent": {"id": "e1", "actions": null}});
        assert_eq!(read(value).id, "e1");
    }

    #[test]
    fn actions_are_taken_by_their_names_in_adk_and_given_back_in_the_whole_event() {
        let adk = json!({"stateDelta": {"n": 1}, "artifactDelta": {}, "requestedAuthConfigs": {},
            "requestedToolConfirmations": {"c": {"hint": "Sure?", "confirmed": false}}, "transferToAgent": "till",
            "transferReason": "it pays", "agentState": {"at": 1}, "endOfAgent": true, "rewindBeforeInvocationId": "i0",
            "route": ["left"], "renderUiWidgets": [{"id": "w"}], "setModelResponse": {"x": 1},
            "compaction": {"startTimestamp": 1.0, "endTimestamp": 2.0, "compactedContent": {"parts": []}}});
        let sent = json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "actions": adk});
        let shown = event_to_json(&read(sent.clone()), "n").unwrap();
        for (name, value) in adk.as_object().unwrap() {
            assert_eq!(shown["rawEvent"]["actions"][name], *value, "{name}");
        }
        let beside: Vec<_> = shown["actions"].as_object().unwrap().keys().collect();
        assert_eq!(beside, ["stateDelta", "artifactDelta", "transferAgent", "requestedAuthConfigs"]);
        // An unknown name is accepted only if the whole event has it too.
        let mut newer = sent;
        newer["actions"]["newer"] = json!(1);
        assert!(event_from_json(newer.clone()).unwrap_err().to_string().contains("\"newer\""));
        newer["rawEvent"] = json!({"actions": newer["actions"]});
        assert_eq!(read(newer).actions.extra["newer"], 1);
    }

    #[test]
    fn a_content_or_a_summary_that_the_whole_event_has_as_well_may_be_newer() {
        let content = json!({"parts": [{"text": "x", "newer": 1}]});
        let sent = json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "content": content});
        assert!(event_from_json(sent.clone()).is_err());
        let mut sent = sent;
        sent["rawEvent"] = json!({"content": content});
        assert_eq!(read(sent).content.unwrap().parts()[0].extra["newer"], 1);
        let compaction =
            json!({"startTimestamp": 1.0, "endTimestamp": 2.0, "compactedContent": {"parts": []}, "newer": 1});
        let actions = json!({"compaction": compaction});
        let mut sent = json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z", "actions": actions});
        assert!(event_from_json(sent.clone()).is_err());
        sent["rawEvent"] = json!({"actions": actions});
        assert_eq!(read(sent).actions.compaction.unwrap().extra["newer"], 1);
    }

    #[test]
    fn a_mark_of_what_clients_bring_is_not_shown_and_theirs_is() {
        let plain = rich();
        let mut marked = rich();
        mark_brought(&mut marked);
        assert!(marked.is_restored() && !plain.is_restored());
        assert_eq!(event_to_json(&marked, "n").unwrap(), event_to_json(&plain, "n").unwrap());
        let mut bare = Event::new("a");
        mark_brought(&mut bare);
        assert!(event_to_json(&bare, "n").unwrap()["rawEvent"].get("customMetadata").is_none());
        for own in [json!(true), json!("vertex"), json!("x"), json!(7)] {
            let mut event = Event::new("a");
            event.custom_metadata.get_or_insert_default().insert(RESTORED.to_owned(), own.clone());
            mark_brought(&mut event);
            let shown = event_to_json(&event, "n").unwrap()["rawEvent"]["customMetadata"][RESTORED].clone();
            assert_eq!(shown, if own == "vertex" { json!(true) } else { own });
            assert!(event.is_restored());
        }
    }

    #[test]
    fn numbers_of_versions_may_be_texts_and_have_31_bits() {
        let with = |version: Value| {
            event_from_json(json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z",
                "actions": {"artifactDelta": {"f": version}}}))
        };
        let whole = |version: Value| {
            event_from_json(json!({"author": "a", "timestamp": "2026-01-01T00:00:00Z",
                "rawEvent": {"actions": {"artifact_delta": {"f": version}}}}))
        };
        for good in [json!(3), json!("3"), json!(3.0)] {
            assert_eq!(with(good.clone()).unwrap().actions.artifact_delta["f"], 3);
            assert_eq!(whole(good).unwrap().actions.artifact_delta["f"], 3);
        }
        for bad in [json!(-1), json!("-1"), json!("x"), json!(1.5), json!(2_147_483_648_u64), json!(1e300), json!([])] {
            assert!(with(bad.clone()).is_err(), "{bad}");
        }
    }
}
