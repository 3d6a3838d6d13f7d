//! Recognizes retries of events whose encoded form has changed.
//!
//! Usually the store itself recognizes a retry, because the same event has the same encoded form. The form differs if
//! the key or the encoder has changed, if a fork copied the event from another session, if the event was sent without a
//! time and the encoding binds the time, if the event's operations now have another result, or if the event came with
//! an update of its session that was encrypted. In these cases the hash that is stored with the event is compared.

use std::sync::Arc;

use super::{Codec, Coded};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{Prepared, prepare_event};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::session::{
    ChangeQuery, Committed, GetSessionConfig, LogPositions, Outcome, SessionKey, SessionService, StateOwner,
};
use scratchbook_core::state::Scope;

const PAGE: usize = 100;
/// How many events are read first, because most retries concern one of the last events.
const FIRST_PAGE: usize = 10;

impl<S: SessionService, C: Codec> Coded<S, C> {
    /// Returns the answer to an event whose id is in the session already: the stored event, or the store's error if
    /// another event was sent. The search begins at the end of the session.
    pub(super) async fn replayed(
        &self,
        key: &SessionKey,
        prepared: &Prepared,
        has_time: bool,
        refused: Error,
    ) -> Result<Committed> {
        let Some(stored) = self.find_event(key, &prepared.event.id).await? else {
            return Err(refused);
        };
        let (event, hash) = self.coder.decode_event(key, &stored)?;
        let hash = match hash {
            Some(hash) => hash,
            None => self.hash_of(&event, has_time)?,
        };
        if hash != prepared.hash {
            return Err(refused);
        }
        let logs = self.logs_of(key, &event).await?;
        Ok(Committed::new(Arc::new(event), Outcome::Replayed).with_log_positions(logs))
    }

    async fn find_event(&self, key: &SessionKey, id: &str) -> Result<Option<Arc<Event>>> {
        let (mut before, mut page) = (i64::MAX as u64, FIRST_PAGE);
        loop {
            let config = GetSessionConfig::default().with_events_before(before, page).without_state();
            let Some(session) = self.service.get_session(key, &config).await? else {
                return Ok(None);
            };
            if let Some(found) = session.events().iter().find(|event| event.id == id) {
                return Ok(Some(Arc::clone(found)));
            }
            match session.events().get(0).and_then(|event| event.seq) {
                Some(first) if first > 1 => (before, page) = (first, PAGE),
                _ => return Ok(None),
            }
        }
    }

    /// Returns the hash of an event that is stored as it was sent, without operations and without an update of its
    /// session.
    fn hash_of(&self, event: &Event, has_time: bool) -> Result<[u8; 32]> {
        let mut sent = event.clone();
        sent.timestamp = sent.timestamp.filter(|_| has_time);
        Ok(prepare_event(sent, self.environment.as_ref(), &Limits::unlimited())?.hash)
    }

    /// Returns the positions of an event's commit in the logs of the user's and the app's state.
    async fn logs_of(&self, key: &SessionKey, event: &Event) -> Result<LogPositions> {
        let user = self.log_position(key, event, &key.user(), Scope::User).await?;
        let app = self.log_position(key, event, &key.app(), Scope::App).await?;
        Ok(LogPositions::new(user, app))
    }

    async fn log_position(&self, key: &SessionKey, event: &Event, owner: &StateOwner, scope: Scope) -> Result<u64> {
        let mut names = event.actions.state_delta.iter().map(|(key, _)| Scope::split(key));
        let Some((_, name)) = names.find(|(of, _)| *of == scope) else {
            return Ok(0);
        };
        let mut before = u64::MAX;
        loop {
            let changes = self.service.list_state_changes(owner, &ChangeQuery::of_key(name, before), PAGE).await?;
            let is_it = |origin: &(SessionKey, u64)| origin.0 == *key && Some(origin.1) == event.seq;
            if let Some(found) = changes.iter().find(|change| change.origin.as_ref().is_some_and(is_it)) {
                return Ok(found.position);
            }
            match changes.last() {
                Some(last) => before = last.position,
                // The change was pruned, or a fork copied the event. The position is unknown.
                None => return Ok(0),
            }
        }
    }
}
