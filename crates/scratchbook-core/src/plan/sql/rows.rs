//! Sessions and events from the rows of SQL stores. An unreadable row is an error that names it; it is never skipped.

use std::sync::Arc;

use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::fields::ReadInto;
use crate::session::{Removal, RemovalKind, Session, SessionKey, SessionMetadata, StateOwner, seconds_of_micros};
use crate::state::{Scope, ScopeMap, StateMap};

/// Returns the error for a row with contents that scratchbook never writes.
pub fn damaged(place: impl std::fmt::Display) -> Error {
    Error::corrupted(format!("{place} cannot be read: the row is damaged"))
}

/// Reads JSON text written by this library.
pub fn json<T: DeserializeOwned>(text: &str, place: impl Fn() -> String) -> Result<T> {
    serde_json::from_str(text).map_err(|e| malformed(&e, place))
}

/// Returns the error for text that is not the JSON of what is read.
fn malformed(error: &serde_json::Error, place: impl Fn() -> String) -> Error {
    // The error's line and column are kept; serde_json's message could quote a value, so it is left out.
    let at = format!("line {}, column {}", error.line(), error.column());
    damaged(place()).with_source(Error::corrupted(format!("malformed JSON at {at}")))
}

/// Reads a number that is never negative.
pub fn number(number: i64, place: impl Fn() -> String) -> Result<u64> {
    u64::try_from(number).map_err(|_| damaged(place()))
}

/// Reads an event from its number and its text, to where it stays.
pub fn event(seq: i64, text: &str, key: &SessionKey) -> Result<Arc<Event>> {
    let seq = number(seq, || format!("the event with the number {seq} of {key}"))?;
    let mut event = Arc::<Event>::default();
    if let Some(place) = Arc::get_mut(&mut event) {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = ReadInto(&mut *place).deserialize(&mut json).and_then(|()| json.end());
        read.map_err(|e| malformed(&e, || format!("the event {seq} of {key}")))?;
        place.seq = Some(seq);
    }
    Ok(event)
}

/// Returns the address of a session, exactly as in a row.
pub fn stored_key(app_name: &str, user_id: &str, session_id: &str) -> Result<SessionKey> {
    let key = SessionKey::new(app_name, user_id, session_id).ok().filter(|key| key.session_id() == session_id);
    key.ok_or_else(|| {
        let place = format!("{app_name:?}/{user_id:?}/{session_id:?}");
        Error::corrupted(format!("the session {place} cannot be read: no session has such an id"))
    })
}

/// Reads a removal from its row: the user, the session or an empty text, and the kind.
pub fn removal(app: &str, [user, session, kind]: [&str; 3], count: u64, time: f64) -> Result<Removal> {
    let place = || format!("a removal in the feed of {app}");
    let kind = RemovalKind::parse(kind).ok_or_else(|| damaged(place()))?;
    if session.is_empty() {
        let user = StateOwner::user(app, user).map_err(|e| damaged(place()).with_source(e))?;
        return Ok(Removal::of_user(user, count, time));
    }
    Ok(Removal::of_session(kind, stored_key(app, user, session)?, count, time))
}

/// Inserts a value into a scope. `owner` names the owner of the scope in errors: the app, then the user and the session
/// if the scope has them.
pub fn insert(values: &mut ScopeMap, scope: Scope, owner: &[&str], name: &str, text: &str) -> Result<()> {
    let value = json(text, || format!("the value of key '{}' of {}", scope.key(name), owner.join("/")))?;
    values.insert(Arc::from(name), Arc::new(value));
    Ok(())
}

/// Reads the title and labels of a session from its row.
pub fn metadata(title: Option<&str>, labels: Option<&str>, of: impl Fn() -> String) -> Result<SessionMetadata> {
    let place = || format!("the title and labels of {}", of());
    let labels = labels.map(|labels| json(labels, place)).transpose()?.unwrap_or_default();
    // Existing metadata is shown, even if it was not written by this library and exceeds the limits.
    Ok(SessionMetadata { title: title.filter(|title| !title.is_empty()).map(str::to_owned), labels })
}

/// Returns a session without its events; creation and update time are in microseconds since 1970.
pub fn described(key: SessionKey, state: StateMap, (made, updated): (i64, i64), seq: u64) -> Session {
    let session = Session::new(key, state).with_create_time(seconds_of_micros(made)).with_seq(seq);
    session.with_last_update_time(seconds_of_micros(updated))
}
