//! Which part of a session is read.

use crate::error::{Error, Result};
use crate::event::check_timestamp;

/// Which part of a session is read. By default everything.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GetSessionConfig {
    /// Only the last so many events; 0 for none, which reads the state alone.
    pub num_recent_events: Option<usize>,
    /// Only events from this time on, in seconds, inclusive; then the last so many of them.
    pub after_timestamp: Option<f64>,
    /// Only events on one side of a number, for paging either way.
    pub cursor: Option<EventCursor>,
    /// Which keys of the state.
    pub state: StateSelection,
    /// After about how many bytes the events end; `None` for any number of bytes.
    pub page_bytes: Option<u64>,
}

/// From where events are read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventCursor {
    /// The first so many events with a number above this one.
    After {
        /// The number of the event before the page; 0 for the beginning.
        seq: u64,
        /// How many events at most.
        limit: usize,
    },
    /// The last so many events with a number below this one.
    Before {
        /// The number of the event after the page.
        seq: u64,
        /// How many events at most.
        limit: usize,
    },
}

/// Which keys of the state are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateSelection {
    /// Every key.
    #[default]
    All,
    /// These prefixed keys, where they are there.
    Keys(Vec<String>),
}

impl GetSessionConfig {
    /// Only the last so many events; 0 for none.
    #[must_use]
    pub fn with_num_recent_events(mut self, count: usize) -> Self {
        self.num_recent_events = Some(count);
        self
    }

    /// Only events from this time on, in seconds, inclusive.
    #[must_use]
    pub fn with_after_timestamp(mut self, seconds: f64) -> Self {
        self.after_timestamp = Some(seconds);
        self
    }

    /// The first `limit` events after a number.
    #[must_use]
    pub fn with_events_after(mut self, seq: u64, limit: usize) -> Self {
        self.cursor = Some(EventCursor::After { seq, limit });
        self
    }

    /// The last `limit` events before a number.
    #[must_use]
    pub fn with_events_before(mut self, seq: u64, limit: usize) -> Self {
        self.cursor = Some(EventCursor::Before { seq, limit });
        self
    }

    /// The events end after about this many bytes, as the store keeps them; one event is always there. After a cursor these are the
    /// first events, otherwise the last. [`Session::seq`](crate::session::Session::seq) tells whether there are more.
    ///
    /// A state of more than 64 MiB is refused then.
    #[must_use]
    pub fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = Some(page_bytes);
        self
    }

    /// No events.
    #[must_use]
    pub fn state_only() -> Self {
        Self::default().with_num_recent_events(0)
    }

    /// No key of the state.
    #[must_use]
    pub fn without_state(self) -> Self {
        self.with_state_keys(Vec::<String>::new())
    }

    /// Only these keys of the state, prefixed.
    #[must_use]
    pub fn with_state_keys<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.state = StateSelection::Keys(keys.into_iter().map(Into::into).collect());
        self
    }

    /// Refuses combinations that mean nothing. Every service calls this first.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor together with `num_recent_events` or `after_timestamp`, and for an
    /// `after_timestamp` that is no time in seconds.
    pub fn check(&self) -> Result<()> {
        if let Some(seconds) = self.after_timestamp {
            check_timestamp(seconds).map_err(|e| e.context("after_timestamp"))?;
        }
        if self.cursor.is_some() && (self.num_recent_events.is_some() || self.after_timestamp.is_some()) {
            return Err(Error::invalid("a cursor goes alone: leave out num_recent_events and after_timestamp"));
        }
        Ok(())
    }
}
