//! The values of the rows that one append or one creation writes.

use crate::events::{APP, created_with, event};
use crate::failure::Result;

/// An event as the columns of its row.
pub(super) struct EventRow {
    pub(super) user: String,
    pub(super) session: String,
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) text: String,
    pub(super) value: String,
}

/// The sessions that get the events, and how many events each session has.
pub(super) struct Writers {
    addresses: Vec<(String, String)>,
    events: Vec<i64>,
    made: usize,
}

impl Writers {
    /// Creates writers to these sessions, which already have this many events.
    pub(super) fn new(addresses: Vec<(String, String)>, events: i64) -> Self {
        let events = vec![events; addresses.len()];
        Self { addresses, events, made: 0 }
    }

    /// Returns the next event of each session.
    pub(super) fn next(&mut self) -> Result<Vec<EventRow>> {
        let mut rows = Vec::with_capacity(self.addresses.len());
        for ((user, session), seq) in self.addresses.iter().zip(&mut self.events) {
            (*seq, self.made) = (*seq + 1, self.made + 1);
            let mut event = event(self.made)?;
            event.id = uuid::Uuid::now_v7().to_string();
            event.timestamp = Some(1_700_000_000.0 + self.made as f64);
            rows.push(EventRow {
                user: user.clone(),
                session: session.clone(),
                seq: *seq,
                text: serde_json::to_string(&event)?,
                value: format!("\"step {}\"", self.made),
                id: event.id,
            });
        }
        Ok(rows)
    }
}

/// The sessions that one transaction creates. Each has a user of its own.
pub(super) struct NewSessions {
    pub(super) users: Vec<String>,
    pub(super) ids: Vec<String>,
}

impl NewSessions {
    /// Creates new ids for this many tasks.
    pub(super) fn new(tasks: usize) -> Self {
        let id = |_| uuid::Uuid::now_v7().to_string();
        Self { users: (0..tasks).map(|task| format!("user-{task}")).collect(), ids: (0..tasks).map(id).collect() }
    }
}

/// The state that a session is created with, as the columns of its rows.
pub(super) struct CreatedState {
    pub(super) text: String,
    pub(super) keys: Vec<String>,
    /// The values of the keys, as JSON.
    pub(super) values: Vec<String>,
}

impl CreatedState {
    /// Returns a state with this many keys, but with two at least.
    pub(super) fn new(keys: u64) -> Self {
        let state = created_with(keys);
        let pairs = state.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.to_string()));
        let (keys, values) = pairs.unzip();
        Self { text: state.to_string(), keys, values }
    }
}

/// Returns the app of the rows.
pub(super) const fn app() -> &'static str {
    APP
}

/// A made-up hash of an event.
pub(super) const HASH: [u8; 32] = [7; 32];
