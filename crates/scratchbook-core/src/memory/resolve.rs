//! Resolves writes that depend on stored values. The caller holds the app's lock.

use super::app::{AppData, MemorySession};
use super::owned::OwnedState;
use crate::error::{Error, KeyWriter, Result};
use crate::plan::commit::{KeyChange, Prepared, PreparedSession, PreparedState};
use crate::plan::resolve::{Found, Refusal, WrittenKey};
use crate::session::{AppendOptions, SessionKey, StateOwner, event_writer, no_session};
use crate::state::Scope;

impl AppData {
    /// Applies an event's operations, or refuses the event.
    pub(super) fn resolve(&self, key: &SessionKey, prepared: &Prepared, options: &AppendOptions) -> Result<Prepared> {
        let (_, stored) = self.session(key).ok_or_else(|| no_session(key))?;
        let mut found = Found::new(stored.last()).with_create_time(stored.made);
        for KeyChange { scope, name, .. } in prepared.reads(options) {
            match scope {
                Scope::Session => stored.find(&mut found, name),
                _ => self.find(&mut found, key.user_id(), *scope, name),
            }
        }
        for scope in prepared.reads_scopes(options) {
            match scope {
                Scope::Session => stored.state.keys().for_each(|name| stored.find(&mut found, name)),
                _ => self.find_all(&mut found, key.user_id(), scope),
            }
        }
        let resolved = prepared.resolve(options, &found);
        resolved.map_err(|refusal| self.refused(refusal, key.user_id(), Some((key, stored))))
    }

    /// Applies the operations of a new session's events, or refuses the session.
    pub(super) fn resolve_session(&self, prepared: PreparedSession) -> Result<PreparedSession> {
        let key = prepared.key.clone();
        let mut found = Found::new(0);
        prepared.reads().into_iter().for_each(|(scope, name)| self.find(&mut found, key.user_id(), scope, name));
        prepared.reads_scopes().for_each(|scope| self.find_all(&mut found, key.user_id(), scope));
        prepared.resolve(found).map_err(|refusal| self.refused(refusal, key.user_id(), None))
    }

    /// Applies the operations of changes to a user's or an app's state, or refuses them.
    pub(super) fn resolve_state(&self, owner: &StateOwner, prepared: &PreparedState) -> Result<Vec<KeyChange>> {
        let user_id = owner.user_id().unwrap_or_default();
        let mut found = Found::new(0);
        prepared.reads().for_each(|change| self.find(&mut found, user_id, change.scope, &change.name));
        prepared.reads_scopes().for_each(|scope| self.find_all(&mut found, user_id, scope));
        prepared.resolve(&found).map_err(|refusal| self.refused(refusal, user_id, None))
    }

    fn find(&self, found: &mut Found, user_id: &str, scope: Scope, name: &str) {
        if let Some(state) = self.owned_by(user_id, scope) {
            let value = state.values.get(name).map(|value| value.as_ref().clone());
            found.insert(scope, name, value, state.written_at(name));
        }
    }

    fn find_all(&self, found: &mut Found, user_id: &str, scope: Scope) {
        let values = self.owned_by(user_id, scope).into_iter().flat_map(|state| state.values.keys());
        values.for_each(|name| self.find(found, user_id, scope, name));
    }

    fn owned_by(&self, user_id: &str, scope: Scope) -> Option<&OwnedState> {
        match scope {
            Scope::User => self.users.get(user_id).map(|user| &user.state),
            _ => Some(&self.state),
        }
    }

    fn refused(&self, refusal: Refusal, user_id: &str, session: Option<(&SessionKey, &MemorySession)>) -> Error {
        let writer = |written: &WrittenKey| match written.scope {
            Scope::Session => session.and_then(|(key, stored)| stored.writer(key, written.place)),
            scope => self.owned_by(user_id, scope)?.writer(written),
        };
        let writers: Vec<_> = refusal.keys().map(writer).collect();
        refusal.into_error(writers)
    }
}

impl MemorySession {
    fn find(&self, found: &mut Found, name: &str) {
        let value = self.state.get(name).map(|value| value.as_ref().clone());
        found.insert(Scope::Session, name, value, self.written.get(name).copied().unwrap_or_default());
    }

    /// Returns the writer of a key, which is the event with this number. If the event was pruned, only the number is
    /// known.
    pub(super) fn writer(&self, key: &SessionKey, seq: u64) -> Option<KeyWriter> {
        self.event(seq).map(|event| event_writer(key, event))
    }
}

impl OwnedState {
    pub(super) fn writer(&self, written: &WrittenKey) -> Option<KeyWriter> {
        // A commit logs its changes by name, and may have changed ten thousand keys.
        let wanted = (written.place, written.name.as_str());
        let at = self.log.partition_point(|change| (change.position, &*change.name) < wanted);
        let found = self.log.get(at).filter(|change| (change.position, &*change.name) == wanted);
        found.map(|change| change.change().writer())
    }
}
