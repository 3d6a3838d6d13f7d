//! Reads the data for a view of a session from the store, at most one page.

use std::sync::Arc;

use scratchbook::session::{StateDiff, no_session};
use scratchbook::{ErrorKind, Event, GetSessionConfig, Result, Session, SessionKey, SessionService, StateMap};

use super::super::SessionScope;
use super::super::address::PageView;
use super::super::page::sentence;
use crate::access::{Caller, Right};

/// How many events are read for a page.
const EVENTS: usize = 60;
/// How many of these events may come after the chosen one.
const LATER: u64 = 12;

/// About how many bytes of events are read for a page.
const BYTES: u64 = 1 << 20;

/// Reads a session for a caller that may see it.
pub(super) struct SessionReader<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) caller: &'a Caller,
    pub(super) sessions: &'a dyn SessionService,
    /// The time, in seconds since 1970.
    pub(super) now: f64,
    /// Whether this server hosts an agent that the caller may talk to.
    pub(super) can_talk: bool,
}

/// The state at an event, and how it differs from an earlier state.
pub(super) struct ShownState {
    /// The state, or the reason why it is not known.
    pub(super) state: Result<StateMap, String>,
    /// What has changed since [`base`](Self::base).
    pub(super) diff: StateDiff,
    /// The event with whose state it is compared.
    pub(super) base: Option<u64>,
    /// The event at which the state is shown.
    pub(super) at: u64,
    /// The event itself, if its own changes are to be distinguished from the changes of others.
    pub(super) event: Option<Arc<Event>>,
}

impl<'a> SessionReader<'a> {
    pub(super) fn new(scope: &'a SessionScope) -> Self {
        let parts = &scope.app_state;
        Self {
            key: &scope.key,
            caller: &scope.caller,
            sessions: parts.store.sessions.as_ref(),
            now: parts.environment.now(),
            can_talk: scope.caller.may(Right::Write) && parts.apps.get(scope.key.app_name()).is_some(),
        }
    }

    async fn get(&self, config: GetSessionConfig) -> Result<Session> {
        let session = self.sessions.get_session(self.key, &config.with_page_bytes(BYTES)).await?;
        session.ok_or_else(|| no_session(self.key))
    }

    /// Reads the session without events and state.
    ///
    /// # Errors
    ///
    /// `NotFound` if the session does not exist; the errors of the store.
    pub(super) async fn head(&self) -> Result<Session> {
        self.get(GetSessionConfig::state_only().without_state()).await
    }

    /// Reads the session without state, and a page of events: around the chosen event, before a given event, or the
    /// last ones.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub(super) async fn opening(&self, view: &PageView) -> Result<(Session, Vec<Arc<Event>>)> {
        let before = match (view.before, view.at) {
            (Some(before), _) => Some(before),
            (None, Some(at)) => Some(at.saturating_add(LATER + 1)),
            (None, None) => None,
        };
        let page = |before: Option<u64>| {
            let config = GetSessionConfig::default().without_state();
            match before {
                Some(before) => config.with_events_before(before, EVENTS),
                None => config.with_num_recent_events(EVENTS),
            }
        };
        let session = self.get(page(before)).await?;
        let events: Vec<_> = session.events().iter().cloned().collect();
        // If the events after the chosen one would fill the page, another page is read that ends with the chosen one.
        let chosen = view.at.filter(|at| *at > 0 && view.before.is_none());
        let is_missing = |at: u64| events.first().and_then(|event| event.seq).is_some_and(|first| first > at);
        match chosen.filter(|at| is_missing(*at)) {
            Some(at) => {
                let session = self.get(page(Some(at.saturating_add(1)))).await?;
                let events = session.events().iter().cloned().collect();
                Ok((session, events))
            }
            None => Ok((session, events)),
        }
    }

    /// Returns the state at the chosen event, or the current state, with the changes.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head). It is no error if the state is no longer known.
    pub(super) async fn moment(&self, head: &Session, view: &PageView) -> Result<ShownState> {
        let last = head.known_seq();
        let at = view.at.or(last).unwrap_or_default();
        let state = match view.at {
            Some(at) => known(self.sessions.get_state_at(self.key, at).await)?,
            None => Ok(self.now().await?),
        };
        let base = view.with.or(at.checked_sub(1)).filter(|base| *base != at && last.is_some());
        let before = match base {
            Some(base) if state.is_ok() => known(self.sessions.get_state_at(self.key, base).await)?.ok(),
            _ => None,
        };
        let diff = match (&before, &state) {
            (Some(before), Ok(state)) => StateDiff::of(before, state),
            _ => StateDiff::default(),
        };
        let event = if view.with.is_none() && at > 0 && before.is_some() { self.event(at).await? } else { None };
        Ok(ShownState { state, diff, base: before.and(base), at, event })
    }

    /// Reads the merged state as it is now.
    async fn now(&self) -> Result<StateMap> {
        Ok(self.get(GetSessionConfig::state_only()).await?.state().clone())
    }

    /// Reads an event by its number.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub(super) async fn event(&self, seq: u64) -> Result<Option<Arc<Event>>> {
        let Some(before) = seq.checked_sub(1) else { return Ok(None) };
        let session = self.get(GetSessionConfig::default().without_state().with_events_after(before, 1)).await?;
        Ok(session.events().last().filter(|event| event.seq == Some(seq)).cloned())
    }

    /// Reads a page of events before a given event, for a search.
    ///
    /// # Errors
    ///
    /// As [`head`](Self::head).
    pub(super) async fn events_before(&self, before: u64, limit: usize, bytes: u64) -> Result<Vec<Arc<Event>>> {
        let config = GetSessionConfig::default().without_state().with_events_before(before, limit);
        let session = self.sessions.get_session(self.key, &config.with_page_bytes(bytes)).await?;
        Ok(session.ok_or_else(|| no_session(self.key))?.events().iter().cloned().collect())
    }
}

/// Returns something of the past, or the reason why it is not known: it was pruned, there is no such event, or the store keeps no
/// past states.
pub(super) fn known<T>(found: Result<T>) -> Result<Result<T, String>> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(error) => match error.kind() {
            ErrorKind::FailedPrecondition | ErrorKind::Unsupported | ErrorKind::NotFound => {
                Ok(Err(sentence(error.public_message())))
            }
            _ => Err(error),
        },
    }
}
