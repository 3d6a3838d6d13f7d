//! Requests to a database and its answers, in addition to the plans of the core.

use scratchbook_core::error::Error;
use scratchbook_core::plan::commit::Prepared;
use scratchbook_core::plan::sql::text::{NewEvent, NewSession};
use scratchbook_core::session::{AppendOptions, LogPositions, Session, SessionKey};

/// An event and the session that it is for.
#[derive(Debug)]
pub struct NewAppend {
    #[doc(hidden)]
    pub key: SessionKey,
    #[doc(hidden)]
    pub event: NewEvent,
}

/// A session to create, and the token by which a retry recognizes that the session was created.
#[derive(Debug)]
pub struct NewCreation {
    #[doc(hidden)]
    pub session: NewSession,
    #[doc(hidden)]
    pub token: String,
}

/// The outcome of a creation.
#[derive(Debug)]
pub enum CreationOutcome {
    /// The session was not created, because its id is not free.
    NotCreated,
    /// The session was created. It comes with its present state if this took no further round trip.
    Created(Option<Box<Session>>),
}

impl CreationOutcome {
    pub(crate) fn new(made: bool) -> Self {
        if made { Self::Created(None) } else { Self::NotCreated }
    }
}

/// An event whose operations, guards or update of the session depend on stored data.
#[derive(Debug)]
pub struct Unresolved {
    #[doc(hidden)]
    pub key: SessionKey,
    #[doc(hidden)]
    pub prepared: Prepared,
    #[doc(hidden)]
    pub options: AppendOptions,
}

/// A fork to create from another session.
#[derive(Debug)]
pub struct NewFork {
    #[doc(hidden)]
    pub source: SessionKey,
    /// The number of the last event that the fork copies; `None` copies all events.
    #[doc(hidden)]
    pub at: Option<u64>,
    #[doc(hidden)]
    pub key: SessionKey,
    /// The time of creation, in microseconds since 1970.
    #[doc(hidden)]
    pub created: i64,
}

/// The outcome of one append of a batch.
#[derive(Debug)]
pub enum AppendRow {
    /// The event is stored.
    Stored {
        /// The event's number.
        seq: i64,
        /// The positions of its commit in the logs.
        logs: LogPositions,
    },
    /// An event with this id was already in the session, and nothing was changed.
    Duplicate {
        /// The number of the stored event.
        seq: i64,
        /// The stored event as JSON.
        text: String,
        /// The hash of the request that stored it.
        hash: Vec<u8>,
        /// The positions of its commit in the logs.
        logs: LogPositions,
    },
    /// The session does not exist.
    NoSession,
    /// The event cannot be stored, because the session already has the maximum number of events. Nothing has to be
    /// rolled back.
    Refused(Error),
    /// The event may take the state of its session, user or app beyond a limit, and is not stored. Whether it really does,
    /// [`append_resolved`](super::ResolvedWrites::append_resolved) finds out, which never answers with this.
    Full,
}
