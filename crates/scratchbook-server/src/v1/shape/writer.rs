//! Writers of events and of keys.

use scratchbook::error::KeyWriter;
use scratchbook::session::{KeyWrite, StateChange};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The writer of a key. Fields that are not known are absent.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Writer {
    /// The author of the write. Empty if it is no longer known.
    author: String,
    /// The user whose session wrote the key. Absent if the write was outside of any session, or if the token is limited
    /// to another user.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// The session that wrote the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// The number of the event that wrote the key. 0 is the creation of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// The event's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    event_id: String,
    /// The id of the run that the event belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    invocation_id: String,
    /// The time of the write, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<f64>,
}

impl From<KeyWriter> for Writer {
    fn from(writer: KeyWriter) -> Self {
        let (user_id, session_id) = writer.session.unzip();
        let seq = user_id.is_some().then_some(writer.seq);
        let KeyWriter { author, event_id, invocation_id, time, .. } = writer;
        Self { author, user_id, session_id, seq, event_id, invocation_id, time: (time > 0.0).then_some(time) }
    }
}

/// One write to a key, and its writer.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Write {
    /// The value that was written. Absent if the key was removed. `null` is a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    value: Option<Value>,
    /// For a key of a user or an app, the position of the commit in the owner's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    /// For a key of a user or an app, the number of the write. The first write has the number 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(flatten)]
    writer: Writer,
}

impl Write {
    /// A value and its writer.
    pub(crate) fn new(value: Option<Value>, writer: KeyWriter) -> Self {
        Self { value, position: None, version: None, writer: writer.into() }
    }
}

impl From<KeyWrite> for Write {
    fn from(write: KeyWrite) -> Self {
        Self::new(write.value, write.writer)
    }
}

impl From<StateChange> for Write {
    fn from(change: StateChange) -> Self {
        let (position, version) = (Some(change.position), Some(change.version));
        Self { position, version, ..Self::from(KeyWrite::from(change)) }
    }
}

/// One change in the log of a user's or an app's state.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogChange {
    /// The key, without prefix.
    key: String,
    /// `true` if the key was removed, otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<bool>,
    #[serde(flatten)]
    write: Write,
}

impl From<StateChange> for LogChange {
    fn from(change: StateChange) -> Self {
        let removed = change.value.is_none().then_some(true);
        Self { key: change.name.clone(), removed, write: change.into() }
    }
}
