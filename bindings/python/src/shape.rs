//! The values passed to Python: JSON of sessions, events, writers and feeds, in ADK's spelling.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use scratchbook::error::KeyWriter;
use scratchbook::session::{FeedCommit, FeedEntry, KeyWrite, StateChange};
use scratchbook::{Error, Event, Result, Session};
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::error::no_session;

/// The result of a call.
pub(crate) enum CallAnswer {
    Nothing,
    Number(u64),
    /// JSON.
    Json(Vec<u8>),
    /// A session's JSON, and what it has seen.
    Session(Vec<u8>, String),
    Appended(AppendOutcome),
    /// There is no such session; this is the message.
    NoSession(Error),
}

/// The outcome of an append.
#[derive(Debug)]
pub(crate) struct AppendOutcome {
    /// `stored`, `replayed` or `partial`.
    pub(crate) outcome: &'static str,
    /// What was written and where, as text for `advance`.
    pub(crate) written: String,
    /// The results of operations, as JSON; `None` if there were none.
    pub(crate) changes: Option<Vec<u8>>,
}

impl CallAnswer {
    /// A value as JSON.
    pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> Result<Self> {
        to_json(value).map(Self::Json)
    }

    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Nothing => Ok(py.None()),
            Self::Number(number) => number.into_py_any(py),
            Self::Json(text) => Ok(PyBytes::new(py, &text).into_any().unbind()),
            Self::Session(text, seen) => (PyBytes::new(py, &text), seen).into_py_any(py),
            Self::Appended(AppendOutcome { outcome, written, changes }) => {
                (outcome, written, changes.map(|text| PyBytes::new(py, &text).unbind())).into_py_any(py)
            }
            Self::NoSession(error) => Err(no_session(py, &error)),
        }
    }
}

/// A value of ours as JSON.
pub(crate) fn to_json(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::internal("an answer cannot be written as JSON").with_source(e))
}

/// A session as ADK has it.
pub(crate) struct Whole<'a>(pub(crate) &'a Session);

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Session", 6)?;
        out.serialize_field("id", self.0.id())?;
        out.serialize_field("appName", self.0.app_name())?;
        out.serialize_field("userId", self.0.user_id())?;
        out.serialize_field("state", self.0.state())?;
        out.serialize_field("events", &NumberedEvents(self.0))?;
        out.serialize_field("lastUpdateTime", &self.0.last_update_time())?;
        out.end()
    }
}

/// A session's events, each with its number.
struct NumberedEvents<'a>(&'a Session);

impl Serialize for NumberedEvents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let events = self.0.events();
        let mut out = serializer.serialize_seq(Some(events.len()))?;
        events.iter().try_for_each(|event| out.serialize_element(&EventShape(event)))?;
        out.end()
    }
}

/// An event with its number in the session.
#[derive(Serialize)]
struct StoredShape<'a> {
    #[serde(flatten)]
    event: &'a Event,
    seq: Option<u64>,
}

/// An event as it is stored.
pub(crate) struct EventShape<'a>(pub(crate) &'a Arc<Event>);

impl Serialize for EventShape<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StoredShape { event: self.0, seq: self.0.seq }.serialize(serializer)
    }
}

/// The writer of a key; unknown fields are absent.
pub(crate) fn writer(writer: &KeyWriter) -> Value {
    let mut shown = json!({"author": writer.author});
    if let Some((user_id, session_id)) = &writer.session {
        shown["userId"] = user_id.as_str().into();
        shown["sessionId"] = session_id.as_str().into();
        shown["seq"] = writer.seq.into();
    }
    for (name, text) in [("eventId", &writer.event_id), ("invocationId", &writer.invocation_id)] {
        if !text.is_empty() {
            shown[name] = text.as_str().into();
        }
    }
    if writer.time > 0.0 {
        shown["time"] = writer.time.into();
    }
    shown
}

/// A write to a key; a removal has no value.
pub(crate) fn write(write: &KeyWrite) -> Value {
    let mut shown = writer(&write.writer);
    if let Some(value) = &write.value {
        shown["value"] = value.clone();
    }
    shown
}

/// An entry of a feed.
pub(crate) struct FeedEntryShape(pub(crate) FeedEntry);

impl Serialize for FeedEntryShape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        match &self.0.commit {
            FeedCommit::Event { session, event } => {
                out.serialize_entry("type", "event")?;
                out.serialize_entry("appName", session.app_name())?;
                out.serialize_entry("userId", session.user_id())?;
                out.serialize_entry("sessionId", session.session_id())?;
                out.serialize_entry("event", &EventShape(event))?;
            }
            FeedCommit::Created { session, state, forked_at } => {
                out.serialize_entry("type", "created")?;
                out.serialize_entry("appName", session.app_name())?;
                out.serialize_entry("userId", session.user_id())?;
                out.serialize_entry("sessionId", session.session_id())?;
                out.serialize_entry("forkedAt", forked_at)?;
                out.serialize_entry("state", state)?;
            }
            FeedCommit::State { owner, changes } => {
                out.serialize_entry("type", "state")?;
                out.serialize_entry("appName", owner.app_name())?;
                out.serialize_entry("userId", &owner.user_id())?;
                out.serialize_entry("changes", &changes.iter().map(change).collect::<Vec<_>>())?;
            }
            FeedCommit::Removed(removal) => {
                out.serialize_entry("type", "removed")?;
                out.serialize_entry("appName", removal.user.app_name())?;
                out.serialize_entry("userId", &removal.user.user_id())?;
                out.serialize_entry("sessionId", &removal.session.as_ref().map(|session| session.session_id()))?;
                out.serialize_entry("kind", removal.kind.as_str())?;
                out.serialize_entry("count", &removal.count)?;
                out.serialize_entry("time", &removal.time)?;
            }
            // For kinds that a later library may add.
            _ => out.serialize_entry("type", "other")?,
        }
        out.serialize_entry("cursor", &self.0.cursor)?;
        out.end()
    }
}

fn change(change: &StateChange) -> Value {
    let mut shown =
        json!({"key": change.name, "version": change.version, "author": change.author, "time": change.time});
    match &change.value {
        Some(value) => shown["value"] = value.clone(),
        None => shown["removed"] = true.into(),
    }
    shown
}
