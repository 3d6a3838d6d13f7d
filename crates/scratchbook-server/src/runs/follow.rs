//! Follows the events of an invocation from any event on: first the stored events, then the events of its run.
//!
//! A run knows the number of the last event before its own events, and its log has every whole event since then. So the
//! store is read up to that number, and the log from there on: no event is missed or returned twice.

use std::collections::VecDeque;
use std::sync::Arc;

use scratchbook::{Error, Event, GetSessionConfig, Result, Session, SessionKey, SessionService};

use super::{Run, RunOutcome, RunReader, Runs};
use crate::answers::STREAM_PAGE_BYTES;
use crate::event_search::last_event;

/// How many events are read at a time.
const PAGE: usize = 100;

/// Follows the agents' events of an invocation. As in a run's own stream, the user's messages are left out.
#[derive(Debug)]
pub(crate) struct RunFollower {
    stored: Option<StoredRunEvents>,
    live: Option<RunReader>,
    outcome: Option<RunOutcome>,
}

/// Events of an invocation to be read from the store, page by page.
#[derive(Debug)]
struct StoredRunEvents {
    sessions: Arc<dyn SessionService>,
    key: SessionKey,
    invocation_id: String,
    /// The number of the event before the next page.
    after: u64,
    /// The number of the last event to read.
    to: u64,
    page: VecDeque<Arc<Event>>,
}

impl RunFollower {
    /// Follows a run that was just started, with the reader that [`Runs::start`] returned.
    pub(crate) fn live(reader: RunReader) -> Self {
        Self { stored: None, live: Some(reader), outcome: None }
    }

    /// Follows an invocation, from its beginning or after one of its events.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such session, or no such invocation in it; `InvalidArgument` if the invocation has no
    /// such event.
    pub(crate) async fn resume(
        runs: &Runs,
        sessions: &Arc<dyn SessionService>,
        key: &SessionKey,
        invocation_id: &str,
        after: Option<&str>,
    ) -> Result<Self> {
        let run = runs.find(key, invocation_id);
        let mut stored = StoredRunEvents::new(Arc::clone(sessions), key, invocation_id, run.as_deref());
        let mut live = run.map(|run| run.read());
        let seen = match (after, &live) {
            (None, _) => None,
            (Some(id), live) => match live.as_ref().and_then(|live| live.seq_of(id)) {
                Some(seq) => Some(seq),
                None => Some(stored.seq_of(id).await?),
            },
        };
        if let Some(seq) = seen {
            stored.after = seq;
            live.iter_mut().for_each(|live| live.skip_to(seq));
        }
        let outcome = runs.outcome(key, invocation_id);
        if live.is_none() && seen.is_none() && outcome.is_none() && !stored.fill().await? {
            return Err(Error::not_found(format!("the session {key} has no run '{invocation_id}'")));
        }
        Ok(Self { stored: Some(stored), live, outcome })
    }

    /// Waits for the next event. Returns `None` when there will be no more. Dropping the future loses no event.
    ///
    /// # Errors
    ///
    /// The errors of the store.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Event>>> {
        while let Some(event) = self.next_of_any().await? {
            if event.author != "user" {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    async fn next_of_any(&mut self) -> Result<Option<Arc<Event>>> {
        if let Some(stored) = &mut self.stored {
            if let Some(event) = stored.next().await? {
                return Ok(Some(event));
            }
            self.stored = None;
        }
        let Some(live) = &mut self.live else {
            return Ok(None);
        };
        let event = live.next().await;
        if event.is_none() {
            self.outcome = live.outcome();
        }
        Ok(event)
    }

    /// Returns the outcome of the run, after its last event. It is `None` if this process does not know the outcome:
    /// the run was cut off with its process, continues in another process, or ended too long ago.
    pub(crate) fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
    }
}

impl StoredRunEvents {
    fn new(sessions: Arc<dyn SessionService>, key: &SessionKey, invocation_id: &str, run: Option<&Run>) -> Self {
        let (key, invocation_id) = (key.clone(), invocation_id.to_owned());
        let to = run.map_or(u64::MAX, |run| run.before);
        Self { sessions, key, invocation_id, after: 0, to, page: VecDeque::new() }
    }

    async fn next(&mut self) -> Result<Option<Arc<Event>>> {
        self.fill().await?;
        Ok(self.page.pop_front())
    }

    /// Reads further pages until there is an event to return. Returns false if none is left.
    async fn fill(&mut self) -> Result<bool> {
        while self.page.is_empty() && self.after < self.to {
            let config = GetSessionConfig::default().with_events_after(self.after, PAGE);
            let config = config.with_page_bytes(STREAM_PAGE_BYTES).without_state();
            let session = self.read(&config).await?;
            let last = session.events().last().and_then(|event| event.seq);
            let events = session.events().iter().filter(|event| event.seq.is_some_and(|seq| seq <= self.to));
            self.page.extend(events.filter(|event| event.invocation_id == self.invocation_id).cloned());
            self.after = last.unwrap_or(self.to);
        }
        Ok(!self.page.is_empty())
    }

    async fn read(&self, config: &GetSessionConfig) -> Result<Session> {
        let session = self.sessions.get_session(&self.key, config).await?;
        session.ok_or_else(|| Error::not_found(format!("there is no session {}", self.key)))
    }

    /// Returns the number of an event of the invocation.
    async fn seq_of(&self, event_id: &str) -> Result<u64> {
        let found = last_event(self.sessions.as_ref(), &self.key, |event| event.id == event_id).await?;
        if let Some(event) = found.filter(|event| event.invocation_id == self.invocation_id) {
            return Ok(event.seq.unwrap_or_default());
        }
        // If the session does not exist, this read reports it.
        self.read(&GetSessionConfig::state_only().without_state()).await?;
        let id = &self.invocation_id;
        Err(Error::invalid(format!("the run '{id}' has no event '{event_id}'; name its last one seen")))
    }
}
