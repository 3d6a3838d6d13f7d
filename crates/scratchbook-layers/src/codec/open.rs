//! Decodes what a store returns.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Codec, Coder, Location};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json::bytes_of;
use scratchbook_core::plan::room::too_much;
use scratchbook_core::session::{
    Committed, Events, FeedCommit, FeedEntry, Session, SessionKey, StateBytes, StateChange, StateOwner,
};
use scratchbook_core::state::StateMap;

impl<C: Codec> Coder<C> {
    pub(super) fn open_session(&self, session: Session) -> Result<Session> {
        let key = session.key().clone();
        let state = self.open_state(&key, session.state())?;
        let events = session.events().iter().map(|event| Ok(Arc::new(self.decode_event(&key, event)?.0)));
        let events = events.collect::<Result<Events>>()?;
        let metadata = self.open_metadata(&key, session.metadata())?;
        Ok(session.with_state(state).with_events(events).with_metadata(metadata))
    }

    pub(super) fn open_state(&self, key: &SessionKey, state: &StateMap) -> Result<StateMap> {
        let mut left = StateBytes::MAX;
        let open = |(name, value): (String, &Value)| {
            let value = self.decode_value(value, &Location::value(key.app_name(), key.user_id(), &name))?.into_owned();
            left = left.checked_sub(name.len() as u64 + bytes_of(&value)).ok_or_else(too_much)?;
            Ok((name, value))
        };
        Ok(StateMap::from(state.iter().map(open).collect::<Result<Map<_, _>>>()?))
    }

    /// Decodes a session's own keys.
    pub(super) fn open_own(&self, key: &SessionKey, state: Map<String, Value>) -> Result<Map<String, Value>> {
        open_values(state, |name, value| {
            let location = Location::value(key.app_name(), key.user_id(), name);
            Ok(self.decode_value(value, &location)?.into_owned())
        })
    }

    /// Decodes a user's or an app's keys, by name without prefix.
    pub(super) fn open_owned(&self, owner: &StateOwner, state: Map<String, Value>) -> Result<Map<String, Value>> {
        open_values(state, |name, value| Ok(self.decode_value(value, &Location::owned(owner, name))?.into_owned()))
    }

    pub(super) fn open_changes(&self, owner: &StateOwner, changes: Vec<StateChange>) -> Result<Vec<StateChange>> {
        let open = |mut change: StateChange| {
            let location = Location::owned(owner, &change.name);
            let value = change.value.map(|value| Ok::<_, Error>(self.decode_value(&value, &location)?.into_owned()));
            change.value = value.transpose()?;
            Ok(change)
        };
        changes.into_iter().map(open).collect()
    }

    pub(super) fn open_committed(&self, key: &SessionKey, mut committed: Committed) -> Result<Committed> {
        committed.event = Arc::new(self.decode_event(key, &committed.event)?.0);
        Ok(committed)
    }

    pub(super) fn open_entry(&self, mut entry: FeedEntry) -> Result<FeedEntry> {
        entry.commit = match entry.commit {
            FeedCommit::Event { session, event } => {
                let event = Arc::new(self.decode_event(&session, &event)?.0);
                FeedCommit::Event { session, event }
            }
            FeedCommit::Created { session, state, forked_at } => {
                let state = self.open_own(&session, state)?;
                FeedCommit::Created { session, state, forked_at }
            }
            FeedCommit::State { owner, changes } => {
                let changes = self.open_changes(&owner, changes)?;
                FeedCommit::State { owner, changes }
            }
            FeedCommit::Removed(removal) => FeedCommit::Removed(removal),
            _ => return Err(Error::internal("a commit of a kind that this layer does not know")),
        };
        Ok(entry)
    }

    /// Decodes the values of an error's conflicts, after a write to a session of a user or to the state of the user
    /// or the app.
    pub(super) fn open_error(&self, app: &str, user: &str, error: Error) -> Error {
        let opened = error.map_conflicts(|conflict| {
            let location = Location::value(app, user, &conflict.key);
            for value in [&mut conflict.read, &mut conflict.found].into_iter().flatten() {
                *value = self.decode_value(value, &location)?.into_owned();
            }
            Ok(())
        });
        opened.unwrap_or_else(|unreadable| unreadable)
    }
}

fn open_values(state: Map<String, Value>, open: impl Fn(&str, &Value) -> Result<Value>) -> Result<Map<String, Value>> {
    let mut left = StateBytes::MAX;
    let opened = state.into_iter().map(|(name, value)| {
        let value = open(&name, &value)?;
        left = left.checked_sub(name.len() as u64 + bytes_of(&value)).ok_or_else(too_much)?;
        Ok((name, value))
    });
    opened.collect()
}
