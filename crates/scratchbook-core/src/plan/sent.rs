//! An event as it was sent, and as it is stored: the two texts differ in the id and the time, if a store has set them.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::limits::Limits;
use crate::environment::Environment;
use crate::error::Result;
use crate::event::{Event, check_timestamp};
use crate::json;
use crate::session::{check_id, check_nameable, micros_of_seconds};
use crate::state::Scope;

/// The fields that a store has set in an event that was sent without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    id: bool,
    time: bool,
}

/// A checked and completed event without its text, for a store that keeps no texts. Its delta has no operations.
#[derive(Debug)]
pub(crate) struct UnwrittenEvent {
    /// The event, with id and timestamp and without `temp:` keys.
    pub(crate) event: Event,
    pub(crate) completed: Completed,
    /// The length of its text.
    pub(crate) bytes: u64,
    /// The session's new update time, in microseconds since 1970.
    pub(crate) micros: i64,
}

/// Prepares an event without operations, as [`prepare_event`](super::commit::prepare_event) does, but does not write its
/// text.
pub(crate) fn prepare_unwritten(
    mut event: Event,
    environment: &dyn Environment,
    limits: &Limits,
) -> Result<UnwrittenEvent> {
    check(&mut event)?;
    let completed = Completed::complete(&mut event, environment)?;
    if event.has_extras() {
        event.check_extras(&json::to_text(&event, "the event")?)?;
    }
    let bytes = json::text_length(&event, "the event")?;
    limits.check_event(&event.id, bytes, &event.actions.state_delta)?;
    let micros = micros_of_seconds(event.timestamp.unwrap_or_default());
    Ok(UnwrittenEvent { event, completed, bytes, micros })
}

/// Checks an event, and removes what is not stored.
pub(super) fn check(event: &mut Event) -> Result<()> {
    event.check()?;
    check_id("event id", &event.id)?;
    check_nameable("event id", &event.id)?;
    check_id("invocation id", &event.invocation_id)?;
    event.seq = None;
    event.drop_nulls();
    event.actions.state_delta.retain(|key| Scope::split(key).0 != Scope::Temp);
    Ok(())
}

impl Completed {
    /// Sets the id and the timestamp of an event that lacks them.
    pub(super) fn complete(event: &mut Event, environment: &dyn Environment) -> Result<Self> {
        let completed = Self { id: event.id.is_empty(), time: event.timestamp.is_none() };
        if completed.id {
            event.id = environment.new_id();
            check_id("event id", &event.id)?;
        }
        check_timestamp(*event.timestamp.get_or_insert_with(|| environment.now()))?;
        Ok(completed)
    }

    /// Returns the SHA-256 of the text of an event as it was sent. `text` is its text as it is stored.
    pub(crate) fn hash(self, event: &Event, text: &str) -> Result<[u8; 32]> {
        Ok(self.hasher(event, text)?.finalize().into())
    }

    /// Returns the same as [`hash`](Self::hash) as a hasher that takes more bytes.
    pub(super) fn hasher(self, event: &Event, text: &str) -> Result<Sha256> {
        if self == (Self { id: false, time: false }) {
            return Ok(Sha256::new_with_prefix(text));
        }
        // The two texts differ only at their ends.
        let stored = EventEnd { id: &event.id, timestamp: event.timestamp };
        let sent =
            EventEnd { id: if self.id { "" } else { stored.id }, timestamp: stored.timestamp.filter(|_| !self.time) };
        if let Some(start) = text.strip_suffix(stored.text()?.as_str()) {
            return Ok(Sha256::new_with_prefix(start).chain_update(sent.text()?));
        }
        // Here unknown fields follow the id and the timestamp.
        let mut event = event.clone();
        (event.id, event.timestamp) = (sent.id.to_owned(), sent.timestamp);
        Ok(Sha256::new_with_prefix(json::to_text(&event, "the event")?))
    }
}

/// Returns the SHA-256 of an event's stored text.
#[must_use]
pub fn text_hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Returns the SHA-256 of the text of an event that a store keeps in memory.
///
/// # Errors
///
/// None in practice: the event was written as text when it was prepared.
pub fn event_text_hash(event: &Event) -> Result<[u8; 32]> {
    Ok(text_hash(&json::to_text(event, "the event")?))
}

/// The last fields in the text of an event without unknown fields, in this order.
#[derive(Serialize)]
struct EventEnd<'e> {
    id: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
}

impl EventEnd<'_> {
    /// Returns the end of the text, after the comma.
    fn text(&self) -> Result<String> {
        let mut text = json::to_text(self, "the end of an event")?;
        text.remove(0);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::SystemEnvironment;
    use crate::plan::commit::prepare_event;

    fn events() -> Vec<Event> {
        let plain = Event::new("agent").with_content("\"id\":\"\"}");
        let ends = [plain.clone(), plain.clone().with_id("e\"1"), plain.clone().with_timestamp(1.5)];
        let mut events: Vec<_> = ends.into_iter().chain([plain.with_id("e1").with_timestamp(0.1)]).collect();
        let extra = |event: &Event| {
            let mut event = event.clone();
            event.extra_mut().insert("new".to_owned(), 1.into());
            event
        };
        events.extend(events.clone().iter().map(extra));
        events
    }

    /// However the hash is computed, it equals the hash of the whole text as it was sent.
    #[test]
    fn an_event_is_hashed_as_it_was_sent() {
        for event in events() {
            let sent = json::to_text(&event, "it").unwrap();
            let prepared = prepare_event(event, &SystemEnvironment, &Limits::default()).unwrap();
            assert_eq!(prepared.text, json::to_text(&prepared.event, "it").unwrap());
            assert_eq!(prepared.hash, <[u8; 32]>::from(Sha256::digest(&sent)), "{sent}");
        }
    }

    #[test]
    fn an_event_without_text_is_prepared_as_one_with_text() {
        for event in events() {
            let event = event.with_id("e");
            let prepared = prepare_event(event.clone(), &SystemEnvironment, &Limits::default()).unwrap();
            let unwritten = prepare_unwritten(event, &SystemEnvironment, &Limits::default()).unwrap();
            let timed = |event: &Event| event.clone().with_timestamp(1.0);
            assert_eq!(timed(&unwritten.event), timed(&prepared.event));
            assert_eq!(unwritten.bytes, json::to_text(&unwritten.event, "it").unwrap().len() as u64);
        }
    }
}
