//! Entries of a feed, and cursors.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use scratchbook::session::{FeedCommit, FeedCursor, FeedEntry};
use scratchbook::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{LogChange, StoredEventJson};
use crate::openapi::StateValues;

/// A position in a feed. It consists only of letters, digits, `-` and `_`, so it needs no encoding in headers and
/// queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, example = "c2hvcCAzIGUz")]
pub(crate) struct Cursor(String);

impl Cursor {
    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a text as a cursor of the library.
    pub(crate) fn read(text: &str) -> Result<FeedCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(FeedCursor::new).ok_or_else(|| Error::invalid("the cursor is none; keep cursors as they were given"))
    }
}

impl From<&FeedCursor> for Cursor {
    fn from(cursor: &FeedCursor) -> Self {
        Self(URL_SAFE_NO_PAD.encode(cursor.as_str()))
    }
}

/// A commit in a feed.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[schema(as = FeedEntry)]
#[schema(example = json!({
    "type": "event", "cursor": "c2hvcCAzIGUz", "appName": "demo", "userId": "alice", "sessionId": "s1", "seq": 3,
    "event": {"id": "e3", "author": "agent", "actions": {"stateDelta": {"cart": {"milk": 2}}}, "seq": 3},
}))]
pub(crate) enum FeedEntryJson {
    /// An event, with its changes in its `stateDelta`.
    #[serde(rename_all = "camelCase")]
    Event {
        /// The cursor after this entry.
        cursor: Cursor,
        /// The app.
        app_name: String,
        /// The user.
        user_id: String,
        /// The session it was appended to.
        session_id: String,
        /// The number of the event in the session.
        seq: Option<u64>,
        /// The event.
        event: StoredEventJson,
    },
    /// A session was created with state of its own.
    #[serde(rename_all = "camelCase")]
    Created {
        /// The cursor after this entry.
        cursor: Cursor,
        /// The app.
        app_name: String,
        /// The user.
        user_id: String,
        /// The session.
        session_id: String,
        /// The number of the event at which it was forked from another session. `null` if it is not a fork.
        forked_at: Option<u64>,
        /// The session's initial state.
        #[schema(value_type = StateValues)]
        state: Map<String, Value>,
    },
    /// Keys of a user or an app were written outside of any session, or by the creation of a session.
    #[serde(rename_all = "camelCase")]
    State {
        /// The cursor after this entry.
        cursor: Cursor,
        /// The app.
        app_name: String,
        /// The user whose keys were written. `null` for keys of the app.
        user_id: Option<String>,
        /// The changes. Keys have no prefix.
        changes: Vec<LogChange>,
    },
    /// A session, a user, or events of a session were removed. After this entry, read the keys of the user and the app
    /// again, because the removed events may have written some of them. After `pruned`, also read the session again.
    #[serde(rename_all = "camelCase")]
    Removed {
        /// The cursor after this entry.
        cursor: Cursor,
        /// The app.
        app_name: String,
        /// The user.
        user_id: Option<String>,
        /// The session. `null` if the user was erased.
        session_id: Option<String>,
        /// `deleted` or `expired` if the session was removed, `pruned` if its oldest events were removed, and `erased`
        /// if the user was removed.
        kind: &'static str,
        /// The number of the last event that was removed. For a user, the number of sessions that were removed.
        count: u64,
        /// The time of the removal, in seconds since 1970.
        time: f64,
    },
    /// A kind of commit that this version of the server does not know.
    Other {
        /// The cursor after this entry.
        cursor: Cursor,
    },
}

impl From<FeedEntry> for FeedEntryJson {
    fn from(entry: FeedEntry) -> Self {
        let cursor = Cursor::from(&entry.cursor);
        match entry.commit {
            FeedCommit::Event { session, event } => Self::Event {
                cursor,
                app_name: session.app_name().to_owned(),
                user_id: session.user_id().to_owned(),
                session_id: session.session_id().to_owned(),
                seq: event.seq,
                event: StoredEventJson(event),
            },
            FeedCommit::Created { session, state, forked_at } => Self::Created {
                cursor,
                app_name: session.app_name().to_owned(),
                user_id: session.user_id().to_owned(),
                session_id: session.session_id().to_owned(),
                forked_at,
                state,
            },
            FeedCommit::State { owner, changes } => Self::State {
                cursor,
                app_name: owner.app_name().to_owned(),
                user_id: owner.user_id().map(str::to_owned),
                changes: changes.into_iter().map(LogChange::from).collect(),
            },
            FeedCommit::Removed(removal) => Self::Removed {
                cursor,
                app_name: removal.user.app_name().to_owned(),
                user_id: removal.user.user_id().map(str::to_owned),
                session_id: removal.session.as_ref().map(|session| session.session_id().to_owned()),
                kind: removal.kind.as_str(),
                count: removal.count,
                time: removal.time,
            },
            _ => Self::Other { cursor },
        }
    }
}

impl FeedEntryJson {
    /// The cursor after this entry.
    pub(crate) fn cursor(&self) -> &Cursor {
        match self {
            Self::Event { cursor, .. }
            | Self::Created { cursor, .. }
            | Self::State { cursor, .. }
            | Self::Removed { cursor, .. }
            | Self::Other { cursor } => cursor,
        }
    }
}
