//! Sessions and events in ADK's JSON, with only the keys that its strict clients accept.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, Event, Result, Session};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answers::without_secrets;

/// The prefix of metadata that ADK keeps for itself. It is neither accepted from clients nor shown to them.
const INTERNAL: &str = "__adk_internal_";

/// The initial capacity for an event's text, in bytes. Hardly any event is larger.
const ROOM: usize = 1024;

/// JSON text that is ready to be sent.
#[derive(Debug)]
pub(crate) struct JsonText(pub(crate) Vec<u8>);

impl IntoResponse for JsonText {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// Returns an event as JSON, without the fields that ADK does not know, without internal metadata, and without secrets
/// of credentials.
///
/// # Errors
///
/// `Internal` if the event cannot be written, which is a defect.
pub(crate) fn event(event: &Event) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(ROOM);
    push_event(&mut out, event)?;
    Ok(out)
}

/// Appends an event to the text.
pub(crate) fn push_event(out: &mut Vec<u8>, event: &Event) -> Result<()> {
    let mut event = event.known();
    let metadata = event.custom_metadata.as_ref();
    if metadata.is_some_and(|metadata| metadata.keys().any(|key| key.starts_with(INTERNAL))) {
        hide_internal(event.to_mut());
    }
    push_shown(out, event.as_ref())
}

/// Appends a session with its events to the text.
///
/// # Errors
///
/// The errors of [`event`].
pub(crate) fn push_session(out: &mut Vec<u8>, session: &Session) -> Result<()> {
    push_session_head(out, session)?;
    session.events().iter().try_for_each(|event| push_next_event(out, event))?;
    push_session_end(out, session.last_update_time())
}

/// Appends the part of a session before its events.
pub(crate) fn push_session_head(out: &mut Vec<u8>, session: &Session) -> Result<()> {
    let names: [(&[u8], &str); 3] =
        [(b"{\"id\":", session.id()), (b",\"appName\":", session.app_name()), (b",\"userId\":", session.user_id())];
    for (name, value) in names {
        out.extend_from_slice(name);
        push_json(out, value)?;
    }
    out.extend_from_slice(b",\"state\":");
    push_shown(out, session.state())?;
    out.extend_from_slice(b",\"events\":[");
    Ok(())
}

/// Appends the next event of a session to the text, which ends with the session's head or with the previous event.
pub(crate) fn push_next_event(out: &mut Vec<u8>, event: &Event) -> Result<()> {
    // The text ends like this only after the head: an event ends with a brace.
    if !out.ends_with(b"[") {
        out.push(b',');
    }
    push_event(out, event)
}

/// Appends the part of a session after its events.
pub(crate) fn push_session_end(out: &mut Vec<u8>, last_update_time: f64) -> Result<()> {
    out.extend_from_slice(b"],\"lastUpdateTime\":");
    push_json(out, &last_update_time)?;
    out.push(b'}');
    Ok(())
}

/// Appends a list to the text.
pub(crate) fn push_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut Vec<u8>, T) -> Result<()>,
) -> Result<()> {
    let mut between = b'[';
    for item in items {
        out.push(between);
        push(out, item)?;
        between = b',';
    }
    out.extend_from_slice(if between == b'[' { b"[]" } else { b"]" });
    Ok(())
}

/// Removes ADK's internal entries from an event's metadata.
pub(crate) fn hide_internal(event: &mut Event) {
    let metadata = event.custom_metadata.take().map(|metadata| *metadata);
    event.custom_metadata = public_metadata(metadata).map(Box::new);
}

/// Returns metadata without ADK's internal entries, or `None` if nothing is left.
pub(crate) fn public_metadata(metadata: Option<Map<String, Value>>) -> Option<Map<String, Value>> {
    let mut metadata = metadata?;
    metadata.retain(|key, _| !key.starts_with(INTERNAL));
    Some(metadata).filter(|metadata| !metadata.is_empty())
}

/// Appends a value that may contain credentials, without their secrets.
fn push_shown(out: &mut Vec<u8>, value: &impl Serialize) -> Result<()> {
    let start = out.len();
    push_json(out, value)?;
    if let Some(shown) = without_secrets(out.get(start..).unwrap_or_default()).map_err(unwritable)? {
        out.truncate(start);
        out.extend(shown);
    }
    Ok(())
}

fn push_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<()> {
    serde_json::to_writer(out, value).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::internal("an answer cannot be written as JSON").with_source(error)
}
