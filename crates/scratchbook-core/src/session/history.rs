//! Differences between two states of a session, and the history of a key.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::Serialize;
use serde_json::Value;

use super::ext::{check_event_number, no_session};
use super::{ChangeQuery, GetSessionConfig, PAGE_BYTES, SessionKey, SessionService, StateChange};
use crate::error::{Error, KeyWriter, Result};
use crate::event::Event;
use crate::json::bytes_of;
use crate::state::{Scope, StateMap};

/// How many events are read at a time.
pub(super) const PAGE: usize = 500;

/// The keys that differ between two states, with their prefixes.
///
/// In JSON it is an object of those keys, each with its values `before` and `after`; the value is left out where the
/// key was absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct StateDiff(BTreeMap<String, KeyDiff>);

/// A key whose values in two states differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeyDiff {
    /// The value in the first state; `None` if the key was absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value in the second state; `None` if the key was absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl StateDiff {
    /// Compares two states.
    #[must_use]
    pub fn of(before: &StateMap, after: &StateMap) -> Self {
        let mut keys: BTreeMap<String, KeyDiff> = BTreeMap::new();
        for (key, value) in before.iter().filter(|(key, value)| after.get(key) != Some(*value)) {
            keys.entry(key).or_default().before = Some(value.clone());
        }
        for (key, value) in after.iter().filter(|(key, value)| before.get(key) != Some(*value)) {
            keys.entry(key).or_default().after = Some(value.clone());
        }
        Self(keys)
    }
}

impl Deref for StateDiff {
    type Target = BTreeMap<String, KeyDiff>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// One write to a key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyWrite {
    /// The value written; `None` for a removal.
    pub value: Option<Value>,
    /// The writer. A write before the prune point has the number of the last pruned event and no event id.
    pub writer: KeyWriter,
}

impl From<StateChange> for KeyWrite {
    fn from(change: StateChange) -> Self {
        Self { writer: change.writer(), value: change.value }
    }
}

/// Returns the writer of an event's changes.
pub(crate) fn event_writer(key: &SessionKey, event: &Event) -> KeyWriter {
    KeyWriter::new(&event.author)
        .with_event(key.user_id(), key.session_id(), event.seq.unwrap_or_default(), &event.id)
        .with_invocation(&event.invocation_id)
        .with_time(event.timestamp.unwrap_or_default())
}

/// Returns the writes to a key up to an event or to now, the latest first.
pub(super) async fn of_key<S: SessionService + ?Sized>(
    service: &S,
    key: &SessionKey,
    name: &str,
    at: Option<u64>,
    limit: usize,
) -> Result<Vec<KeyWrite>> {
    let nothing = GetSessionConfig::state_only().without_state();
    let session = service.get_session(key, &nothing).await?.ok_or_else(|| no_session(key))?;
    match Scope::split(name) {
        (Scope::Session, name) => {
            let last = at.unwrap_or(session.seq());
            check_event_number(key, last, 0, session.seq())?;
            of_own_key(service, key, name, last, limit).await
        }
        (scope @ (Scope::User | Scope::App), name) => {
            let owner = if scope == Scope::User { key.user() } else { key.app() };
            let query = match at {
                Some(seq) => ChangeQuery::of_key_at(name, u64::MAX, key, seq),
                None => ChangeQuery::of_key(name, u64::MAX),
            };
            let changes = service.list_state_changes(&owner, &query, limit).await?;
            Ok(changes.into_iter().map(KeyWrite::from).collect())
        }
        (Scope::Temp, _) => Err(Error::invalid(format!("'{name}' has no history: temp: keys are never stored"))),
    }
}

/// Reads the writes to a session's own key from its events, the latest first.
async fn of_own_key<S: SessionService + ?Sized>(
    service: &S,
    key: &SessionKey,
    name: &str,
    last: u64,
    limit: usize,
) -> Result<Vec<KeyWrite>> {
    let (mut writes, mut before, mut left) = (Vec::new(), last + 1, PAGE_BYTES);
    while writes.len() < limit && left > 0 {
        let config =
            GetSessionConfig::default().without_state().with_events_before(before, PAGE).with_page_bytes(PAGE_BYTES);
        let session = service.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
        for event in session.events().iter().rev() {
            before = event.seq.unwrap_or_default();
            if let Some(change) = event.actions.state_delta.get(name)
                && left > 0
            {
                left = left.saturating_sub(bytes_of(&change.value()).max(1));
                writes.push(KeyWrite { value: change.value().cloned(), writer: event_writer(key, event) });
            }
        }
        if session.events().is_empty() || before <= 1 {
            let initial = service.get_initial_state(key).await?.ok_or_else(|| no_session(key))?;
            check_event_number(key, last, initial.seq, last)?;
            let writer = KeyWriter::default().with_event(key.user_id(), key.session_id(), initial.seq, "");
            writes.extend(initial.state.get(name).map(|value| KeyWrite { value: Some(value.clone()), writer }));
            break;
        }
    }
    writes.truncate(limit);
    Ok(writes)
}
