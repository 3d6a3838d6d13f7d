//! Options for reading a session.

use crate::error::{Error, Result};
use crate::event::check_timestamp;

/// Which part of a session to read; by default all of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GetSessionConfig {
    /// Reads only this many of the last events; 0 reads only the state.
    pub num_recent_events: Option<usize>,
    /// Reads only events from this time on, in seconds since 1970, inclusive; applied before `num_recent_events`.
    pub after_timestamp: Option<f64>,
    /// Reads only events after or before a number, for paging in either direction.
    pub cursor: Option<EventCursor>,
    /// Which keys of the state to read.
    pub state: StateSelection,
    /// About how many bytes of events to read; `None` for no limit.
    pub page_bytes: Option<u64>,
}

/// Where a page of events begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventCursor {
    /// The first events with a number above this one.
    After {
        /// The number of the event before the page; 0 for the beginning.
        seq: u64,
        /// The maximum number of events.
        limit: usize,
    },
    /// The last events with a number below this one.
    Before {
        /// The number of the event after the page.
        seq: u64,
        /// The maximum number of events.
        limit: usize,
    },
}

/// Which keys of the state to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateSelection {
    /// Every key.
    #[default]
    All,
    /// These prefixed keys, if they exist.
    Keys(Vec<String>),
}

impl GetSessionConfig {
    /// Reads only the last `count` events; 0 for none.
    #[must_use]
    pub fn with_num_recent_events(mut self, count: usize) -> Self {
        self.num_recent_events = Some(count);
        self
    }

    /// Reads only events from this time on, in seconds since 1970, inclusive.
    #[must_use]
    pub fn with_after_timestamp(mut self, seconds: f64) -> Self {
        self.after_timestamp = Some(seconds);
        self
    }

    /// Reads only the first `limit` events after a number.
    #[must_use]
    pub fn with_events_after(mut self, seq: u64, limit: usize) -> Self {
        self.cursor = Some(EventCursor::After { seq, limit });
        self
    }

    /// Reads only the last `limit` events before a number.
    #[must_use]
    pub fn with_events_before(mut self, seq: u64, limit: usize) -> Self {
        self.cursor = Some(EventCursor::Before { seq, limit });
        self
    }

    /// Limits the events to about this many bytes, as stored; at least one event is always read. With an "after" cursor
    /// the first events are kept, otherwise the last. [`Session::seq`](crate::session::Session::seq) shows whether
    /// there are more.
    ///
    /// A read with this limit is refused if the state has more than 64 MiB.
    #[must_use]
    pub fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = Some(page_bytes);
        self
    }

    /// Reads no events.
    #[must_use]
    pub fn state_only() -> Self {
        Self::default().with_num_recent_events(0)
    }

    /// Reads no keys of the state.
    #[must_use]
    pub fn without_state(self) -> Self {
        self.with_state_keys(Vec::<String>::new())
    }

    /// Reads only these prefixed keys of the state.
    #[must_use]
    pub fn with_state_keys<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.state = StateSelection::Keys(keys.into_iter().map(Into::into).collect());
        self
    }

    /// Refuses invalid combinations. Every service calls this first.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cursor together with `num_recent_events` or `after_timestamp`, and for an
    /// `after_timestamp` that is not a valid time.
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
