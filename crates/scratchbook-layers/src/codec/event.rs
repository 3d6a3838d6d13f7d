//! Encodes events: the fields that stay readable, and all others as one text.

use std::mem::take;

use serde_json::Value;

use super::text::{marked, unreadable};
use super::{Codec, Coder, Location};
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::extra::ExtraFields;
use scratchbook_core::json;
use scratchbook_core::session::SessionKey;
use scratchbook_core::state::{Change, StateDelta};

/// Properties of an event as it was sent, by which a retry is recognized.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentEvent {
    /// The hash of the event as it was sent.
    pub(super) hash: [u8; 32],
    /// Whether the event came with a time. An event without a time gets one from the store, so that the store
    /// recognizes a retry without a time. If the encoding binds the time, the layer sets the time instead, and a retry
    /// is recognized by the hash.
    pub(super) has_time: bool,
    /// Whether the hash has to be stored. This is so if the event came with operations, whose results are not part of
    /// what was sent, or with an update of its session, which is not part of the event.
    pub(super) stores_hash: bool,
}

impl<C: Codec> Coder<C> {
    /// Encodes an event. The event has an id, and its operations have been resolved.
    pub(super) fn encode_event(&self, session: &SessionKey, mut event: Event, sent: SentEvent) -> Result<Event> {
        if !sent.has_time && !C::BINDS {
            event.timestamp = None;
        }
        let mut clear = take_clear(&mut event);
        let salt = salt(session, &clear.id);
        let given = take(&mut event.actions.state_delta);
        clear.actions.state_delta = self.encode_delta(session, &given, &salt)?;
        let text = json::to_text(&event, "the event")?;
        let must = sent.stores_hash || event.extra.contains_key(C::FIELD);
        if !must && !self.0.wants(text.len()) {
            return Ok(put_back(event, clear));
        }
        let mut plain = sent.hash.to_vec();
        plain.extend_from_slice(text.as_bytes());
        let location = Location::event(session, &clear, &clear.actions.state_delta);
        let encoded = self.0.encode(&plain, &location, &salt)?.to_text(C::MARK);
        if !must && !self.0.keeps(text.len(), encoded.len()) {
            return Ok(put_back(event, clear));
        }
        clear.extra.insert(C::FIELD.to_owned(), Value::String(encoded));
        Ok(clear)
    }

    /// Returns the decoded event, and the hash that was stored with it.
    pub(super) fn decode_event(&self, session: &SessionKey, stored: &Event) -> Result<(Event, Option<[u8; 32]>)> {
        let location = Location::event(session, stored, &stored.actions.state_delta);
        let Some(text) = stored.extra.get(C::FIELD).and_then(marked::<C>) else {
            self.0.check_plain(&location)?;
            let mut event = stored.clone();
            event.actions.state_delta = self.decode_delta(session, &stored.actions.state_delta)?;
            return Ok((event, None));
        };
        let plain = self.decode_text(text, &location)?;
        let Some((hash, text)) = plain.split_first_chunk::<32>() else {
            return Err(unreadable(&location));
        };
        let event: Event = serde_json::from_slice(text).map_err(|_| unreadable(&location))?;
        // The time is stored twice, and both must be equal. Only an event that got its time from the store, such as one
        // from before the time was bound, has no second time.
        let is_same = |sent: f64| stored.timestamp.is_some_and(|time| time.to_bits() == sent.to_bits());
        if !event.timestamp.is_none_or(is_same) {
            return Err(unreadable(&location));
        }
        let mut clear = Event { extra: ExtraFields::default(), ..stored.clone() };
        clear.actions.state_delta = self.decode_delta(session, &stored.actions.state_delta)?;
        Ok((put_back(event, clear), Some(*hash)))
    }

    /// Encodes the values of a delta.
    fn encode_delta(&self, session: &SessionKey, delta: &StateDelta, salt: &[u8]) -> Result<StateDelta> {
        map_values(delta, |key, value| {
            self.encode_value(value, &Location::value(session.app_name(), session.user_id(), key), salt)
        })
    }

    fn decode_delta(&self, session: &SessionKey, delta: &StateDelta) -> Result<StateDelta> {
        map_values(delta, |key, value| {
            let location = Location::value(session.app_name(), session.user_id(), key);
            Ok(self.decode_value(value, &location)?.into_owned())
        })
    }
}

/// Returns a salt that makes an event's encoded form different in each session. Decoding must not need the salt,
/// because a fork copies events inside the store to a session with another id.
fn salt(session: &SessionKey, id: &str) -> Vec<u8> {
    let session = session.session_id().as_bytes();
    [&(session.len() as u64).to_le_bytes(), session, id.as_bytes()].concat()
}

fn map_values(delta: &StateDelta, map: impl Fn(&str, &Value) -> Result<Value>) -> Result<StateDelta> {
    let mut mapped = StateDelta::new();
    for (key, change) in delta.iter() {
        let change = match change {
            Change::Set(value) => Change::Set(map(key, value)?),
            other => other.clone(),
        };
        mapped.insert(key.to_owned(), change)?;
    }
    Ok(mapped)
}

/// Takes out of an event the fields that stores and their readers need. The time is only copied.
fn take_clear(event: &mut Event) -> Event {
    Event {
        id: take(&mut event.id),
        timestamp: event.timestamp,
        author: take(&mut event.author),
        invocation_id: take(&mut event.invocation_id),
        branch: take(&mut event.branch),
        ..Event::default()
    }
}

/// Puts the fields of `take_clear` back into an event.
fn put_back(event: Event, clear: Event) -> Event {
    let mut whole = Event {
        id: clear.id,
        timestamp: clear.timestamp,
        author: clear.author,
        invocation_id: clear.invocation_id,
        branch: clear.branch,
        seq: clear.seq,
        ..event
    };
    whole.actions.state_delta = clear.actions.state_delta;
    whole
}
