//! Sessions and events in ADK's JSON: what its strict clients know, and no key more.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, Event, Result, Session};
use serde::Serialize;
use serde_json::{Map, Value};

use super::credentials::without_secrets;

/// What only ADK itself keeps beside an event; neither taken from clients nor shown to them.
const INTERNAL: &str = "__adk_internal_";

/// JSON text that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// An event: without fields that ADK does not know, without metadata of its own, without secrets of credentials.
///
/// # Errors
///
/// `Internal` where it cannot be written, which is a defect.
pub(crate) fn event(event: &Event) -> Result<String> {
    let mut event = event.known();
    let metadata = event.custom_metadata.as_ref();
    if metadata.is_some_and(|metadata| metadata.keys().any(|key| key.starts_with(INTERNAL))) {
        let event = event.to_mut();
        event.custom_metadata = public_metadata(event.custom_metadata.take());
    }
    written(event.as_ref())
}

/// A session with its events.
///
/// # Errors
///
/// As [`event`].
pub(crate) fn session(session: &Session) -> Result<Text> {
    let mut out = String::new();
    push_session(&mut out, session)?;
    Ok(Text(out))
}

/// Puts a session behind what is written already.
pub(crate) fn push_session(out: &mut String, session: &Session) -> Result<()> {
    let names =
        [("{\"id\":", session.id()), (",\"appName\":", session.app_name()), (",\"userId\":", session.user_id())];
    for (name, value) in names {
        out.push_str(name);
        out.push_str(&json_text(value)?);
    }
    out.push_str(",\"state\":");
    out.push_str(&written(session.state())?);
    out.push_str(",\"events\":");
    push_list(out, session.events().iter(), |out, one| {
        out.push_str(&event(one)?);
        Ok(())
    })?;
    out.push_str(",\"lastUpdateTime\":");
    out.push_str(&json_text(&session.last_update_time())?);
    out.push('}');
    Ok(())
}

/// Puts a list behind what is written already.
pub(crate) fn push_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut String, T) -> Result<()>,
) -> Result<()> {
    let mut between = '[';
    for item in items {
        out.push(between);
        push(out, item)?;
        between = ',';
    }
    out.push_str(if between == '[' { "[]" } else { "]" });
    Ok(())
}

/// Metadata without what only ADK itself may keep there; `None` where nothing is left.
pub(super) fn public_metadata(metadata: Option<Map<String, Value>>) -> Option<Map<String, Value>> {
    let mut metadata = metadata?;
    metadata.retain(|key, _| !key.starts_with(INTERNAL));
    Some(metadata).filter(|metadata| !metadata.is_empty())
}

fn written(value: &impl Serialize) -> Result<String> {
    without_secrets(json_text(value)?).map_err(unwritable)
}

fn json_text(value: &(impl Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::internal("an answer cannot be written as JSON").with_source(error)
}
