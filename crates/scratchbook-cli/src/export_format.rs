//! The format of an export: JSON Lines, each an object with a `type`.
//!
//! A file begins with `header` and ends with `end`, which has counts. Between them are a line `app` for each app and a line
//! `user` for each user, in byte order, an app before its users. Each is followed by `put` lines, the writes to its state
//! that no event in the file contains. A user's lines continue with the user's sessions, each a line `session` with its
//! `event` lines and `artifact` lines, and then the user's own artifacts.

use std::collections::BTreeMap;

use scratchbook::content::Part;
use scratchbook::{Event, SessionKey, StateDelta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The `format` in the header.
pub(crate) const FORMAT: &str = "scratchbook-export";
/// The version of these lines.
pub(crate) const VERSION: u64 = 1;

/// A line to write.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ExportLine<'a> {
    Header {
        format: &'a str,
        version: u64,
    },
    /// An app and its state, with names without prefix.
    App {
        app_name: &'a str,
        state: &'a Map<String, Value>,
    },
    /// A user and their state, with names without prefix.
    User {
        app_name: &'a str,
        user_id: &'a str,
        state: &'a Map<String, Value>,
    },
    /// A change to the state of the last owner that is in no event of the file: it was made outside of sessions, when a
    /// session was created, or by an event of a session that was deleted.
    Put {
        author: &'a str,
        time: f64,
        state_delta: &'a StateDelta,
    },
    /// A session of the last user, with its initial state.
    Session {
        id: &'a str,
        /// Present if the session has no event, whose time would be the session's.
        #[serde(skip_serializing_if = "Option::is_none")]
        create_time: Option<f64>,
        /// When the session expires, if it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        expire_time: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        labels: &'a BTreeMap<String, String>,
        state: &'a Map<String, Value>,
        /// How many events follow.
        events: u64,
    },
    /// An event of the last session.
    Event {
        seq: u64,
        event: &'a Event,
    },
    /// A version of an artifact of the last session or, if its name begins with `user:`, of the user.
    Artifact {
        filename: &'a str,
        version: u64,
        custom_metadata: &'a Map<String, Value>,
        artifact: &'a Part,
    },
    End(Counts),
}

/// The number of lines of each type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Counts {
    pub(crate) apps: u64,
    pub(crate) users: u64,
    pub(crate) puts: u64,
    pub(crate) sessions: u64,
    pub(crate) events: u64,
    pub(crate) artifacts: u64,
}

impl Counts {
    /// Counts a line.
    pub(crate) fn count(&mut self, kind: &str) {
        *match kind {
            "app" => &mut self.apps,
            "user" => &mut self.users,
            "put" => &mut self.puts,
            "session" => &mut self.sessions,
            "event" => &mut self.events,
            "artifact" => &mut self.artifacts,
            _ => return,
        } += 1;
    }
}

impl ExportLine<'_> {
    /// The line's `type`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Header { .. } => "header",
            Self::App { .. } => "app",
            Self::User { .. } => "user",
            Self::Put { .. } => "put",
            Self::Session { .. } => "session",
            Self::Event { .. } => "event",
            Self::Artifact { .. } => "artifact",
            Self::End(_) => "end",
        }
    }
}

/// Returns a session key for access to a user's artifacts, which every session sees. The session need not exist.
pub(crate) fn any_session(app: &str, user: &str) -> Result<SessionKey, scratchbook::Error> {
    SessionKey::new(app, user, "-")
}
