//! Sessions and events as the messages of Google's crate.

use google_cloud_aiplatform_v1::model;
use google_cloud_aiplatform_v1::model::part::Data;
use google_cloud_aiplatform_v1::model::session::Expiration;
use google_cloud_wkt::{Duration as WktDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::names::last;
use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{Expiry, Session, SessionKey, SessionMetadata, StateSelection, micros_of_seconds};
use scratchbook_core::state::{REMOVED, Scope, StateMap};

/// Converts a session that was read, without events.
pub(super) fn session(key: SessionKey, sent: model::Session, wanted: &StateSelection) -> Session {
    let mut state = sent.session_state.unwrap_or_default();
    // On the wire this string removes a key. A server that does not know the string returns it as a value.
    state.retain(|key, value| Scope::split(key).0 != Scope::Temp && value.as_str() != Some(REMOVED));
    if let StateSelection::Keys(keys) = wanted {
        state.retain(|key, _| keys.contains(key));
    }
    let metadata = SessionMetadata {
        title: Some(sent.display_name).filter(|title| !title.is_empty()),
        labels: sent.labels.into_iter().collect(),
    };
    let created = sent.create_time.map(seconds);
    let updated = sent.update_time.map(seconds).or(created).unwrap_or_default();
    let expires = match sent.expiration {
        Some(Expiration::ExpireTime(time)) => Some(seconds(*time)),
        _ => None,
    };
    let session = Session::new(key, StateMap::from(state))
        .with_last_update_time(updated)
        .with_expire_time(expires)
        .with_metadata(metadata)
        .with_unknown_seq();
    match created {
        Some(time) => session.with_create_time(time),
        None => session,
    }
}

/// Converts the expiry of a session.
pub(super) fn expiration(expiry: Expiry, now: impl FnOnce() -> f64) -> Result<Expiration> {
    let micros = expiry.micros(now)?;
    Ok(match expiry {
        Expiry::At(_) => Expiration::ExpireTime(Box::new(timestamp(micros))),
        Expiry::After(span) => {
            let nanos = i32::try_from(span.subsec_nanos()).unwrap_or_default();
            let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
            Expiration::Ttl(Box::new(WktDuration::clamp(seconds, nanos)))
        }
    })
}

/// Converts an event for sending: the whole event in `raw_event`, and the API's own fields.
pub(super) fn event(event: &Event) -> Result<model::SessionEvent> {
    let mut whole = crate::event_to_json(event, "")?;
    crate::check_sent(event, &whole)?;
    let Some(Value::Object(raw)) = whole.get_mut("rawEvent").map(Value::take) else {
        return Err(Error::internal("an event is no object"));
    };
    let actions = &event.actions;
    let delta = raw.get("actions").and_then(|actions| actions.get("stateDelta")?.as_object()).cloned();
    let artifacts = actions.artifact_delta.iter();
    // `check_sent` has checked that all versions fit into 31 bits.
    let artifacts = artifacts.filter_map(|(name, version)| Some((name.clone(), i32::try_from(*version).ok()?)));
    let configs = raw.get("actions").and_then(|actions| actions.get("requestedAuthConfigs")?.as_object()).cloned();
    let shown = model::EventActions::new()
        .set_skip_summarization(actions.skip_summarization == Some(true))
        .set_escalate(actions.escalate == Some(true))
        .set_transfer_agent(actions.transfer_to_agent.clone().unwrap_or_default())
        .set_artifact_delta(artifacts)
        .set_or_clear_requested_auth_configs(configs)
        .set_or_clear_state_delta(delta);
    let metadata = model::EventMetadata::new()
        .set_turn_complete(event.turn_complete == Some(true))
        .set_interrupted(event.interrupted == Some(true))
        .set_long_running_tool_ids(event.long_running_tool_ids.iter().flatten().cloned())
        .set_branch(event.branch.clone().unwrap_or_default())
        .set_or_clear_custom_metadata(event.custom_metadata.as_deref().cloned());
    Ok(model::SessionEvent::new()
        .set_author(&event.author)
        .set_invocation_id(&event.invocation_id)
        .set_timestamp(timestamp(micros_of_seconds(event.timestamp.unwrap_or_default())))
        .set_error_code(event.error_code.clone().unwrap_or_default())
        .set_error_message(event.error_message.clone().unwrap_or_default())
        .set_or_clear_content(event.content.as_ref().map(content))
        .set_actions(shown)
        .set_event_metadata(metadata)
        .set_raw_event(raw))
}

/// Converts the parts of a content that the API knows. The API refuses other parts; the whole event contains them.
fn content(content: &Content) -> model::Content {
    let parts = content.parts.iter().flatten();
    model::Content::new().set_role(content.role.clone().unwrap_or_default()).set_parts(parts.filter_map(part))
}

fn part(part: &Part) -> Option<model::Part> {
    let data = if let Some(text) = &part.text {
        Data::Text(text.clone())
    } else if let Some(blob) = &part.inline_data {
        let sent = model::Blob::new().set_mime_type(blob.mime_type.clone().unwrap_or_default());
        Data::InlineData(Box::new(sent.set_data(blob.data.clone().unwrap_or_default())))
    } else if let Some(file) = &part.file_data {
        let sent = model::FileData::new().set_mime_type(file.mime_type.clone().unwrap_or_default());
        Data::FileData(Box::new(sent.set_file_uri(file.file_uri.clone().unwrap_or_default())))
    } else if let Some(call) = &part.function_call {
        let sent = model::FunctionCall::new().set_name(call.name.clone().unwrap_or_default());
        Data::FunctionCall(Box::new(sent.set_or_clear_args(call.args.clone())))
    } else {
        let response = part.function_response.as_ref()?;
        let sent = model::FunctionResponse::new().set_name(response.name.clone().unwrap_or_default());
        Data::FunctionResponse(Box::new(sent.set_or_clear_response(response.response.clone())))
    };
    let sent = model::Part::new().set_thought(part.thought == Some(true)).set_data(data);
    Some(sent.set_thought_signature(part.thought_signature.clone().unwrap_or_default()))
}

/// Converts an event that was read. Its id is the id in `rawEvent`, or else the id that the server has given it.
pub(super) fn read_event(sent: model::SessionEvent) -> Result<Event> {
    let name = sent.name.clone();
    read(sent).map_err(|error| Error::corrupted(format!("the event {name} cannot be read: {error}")))
}

fn read(sent: model::SessionEvent) -> Result<Event> {
    let time = sent.timestamp.ok_or_else(|| Error::invalid("it has no timestamp"))?;
    let mut fields = Map::new();
    fields.insert("author".to_owned(), sent.author.into());
    fields.insert("invocationId".to_owned(), sent.invocation_id.into());
    fields.insert("timestamp".to_owned(), crate::timestamp_from_seconds(seconds(time)).into());
    let actions = sent.actions.unwrap_or_default();
    match sent.raw_event.filter(|raw| !raw.is_empty()) {
        // The server may have changed the event. The state that it applied is in the outer fields.
        Some(raw) => {
            fields.insert("rawEvent".to_owned(), raw.into());
            if let Some(delta) = actions.state_delta {
                fields.insert("actions".to_owned(), json!({"stateDelta": delta}));
            }
        }
        None => {
            let texts = [("errorCode", sent.error_code), ("errorMessage", sent.error_message)];
            let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
            fields.extend(texts.map(|(name, text)| (name.to_owned(), text.into())));
            for (name, value) in [
                ("content", sent.content.as_ref().map(serde_json::to_value)),
                ("actions", Some(serde_json::to_value(&actions))),
                ("eventMetadata", sent.event_metadata.as_ref().map(serde_json::to_value)),
            ] {
                let Some(value) = value else { continue };
                let value = value.map_err(|e| Error::internal(format!("its {name} is no JSON")).with_source(e))?;
                fields.insert(name.to_owned(), value);
            }
        }
    }
    let mut event = crate::event_from_server(Value::Object(fields))?;
    // Other clients may have sent `temp:` keys, and a server may have stored them.
    event.actions.state_delta.retain(|key| Scope::split(key).0 != Scope::Temp);
    if event.id.is_empty() {
        event.id = last(&sent.name).to_owned();
    }
    Ok(event)
}

/// Returns the time of an event that was read: the time in `rawEvent`, which is more exact, if it equals the outer
/// time; otherwise the outer time.
pub(super) fn exact_seconds(sent: &model::SessionEvent) -> Option<f64> {
    let whole = sent.raw_event.as_ref().and_then(|raw| raw.get("timestamp")?.as_f64());
    Some(crate::exact(whole, seconds(sent.timestamp?)))
}

/// Converts to seconds since 1970, to the microsecond.
pub(super) fn seconds(time: Timestamp) -> f64 {
    let micros = i128::from(time.seconds()) * 1_000_000 + i128::from(time.nanos() / 1000);
    micros as f64 / 1e6
}

pub(super) fn timestamp(micros: i64) -> Timestamp {
    let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1000).unwrap_or_default();
    Timestamp::clamp(micros.div_euclid(1_000_000), nanos)
}
