//! The lines of an export: JSON, one object a line, each with a `type`.
//!
//! `header`; for each app a line `app`, and for each of its users a line `user`, each followed by its `put` lines: what
//! was written by no event in the file. A user's line is also followed by its sessions: a line `session`, its `event`
//! lines and its `artifact` lines; then the user's own artifacts. At the end stands `end`, with counts. Owners stand in
//! byte order, an app before its users.

use std::collections::BTreeMap;

use scratchbook::{Event, Part, SessionKey, StateDelta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the header says of whose file it is.
pub(crate) const FORMAT: &str = "scratchbook-export";
/// The version of these lines.
pub(crate) const VERSION: u64 = 1;

/// A line to be written.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Line<'a> {
    Header {
        format: &'a str,
        version: u64,
    },
    /// An app and its state; names without prefix.
    App {
        app_name: &'a str,
        state: &'a Map<String, Value>,
    },
    /// A user and its state.
    User {
        app_name: &'a str,
        user_id: &'a str,
        state: &'a Map<String, Value>,
    },
    /// One change to the state of the owner whose line came last, by no event in the file: outside of any session, at
    /// the creation of one, or by an event of one that was deleted.
    Put {
        author: &'a str,
        time: f64,
        state_delta: &'a StateDelta,
    },
    /// A session of the user whose line came last, with the state it was made with.
    Session {
        id: &'a str,
        /// Where there is no event whose time would be the session's.
        #[serde(skip_serializing_if = "Option::is_none")]
        create_time: Option<f64>,
        /// When it expires, if it does.
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
    /// An event of the session whose line came last.
    Event {
        seq: u64,
        event: &'a Event,
    },
    /// A version of an artifact: of the session whose line came last, or, with `user:` before its name, of the user.
    Artifact {
        filename: &'a str,
        version: u64,
        custom_metadata: &'a Map<String, Value>,
        artifact: &'a Part,
    },
    End(Counts),
}

/// How many lines of each kind there are.
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

impl Line<'_> {
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

/// By which the artifacts of a user are asked for: they are seen from every session, one that is not there too.
pub(crate) fn any_session(app: &str, user: &str) -> Result<SessionKey, scratchbook::Error> {
    SessionKey::new(app, user, "-")
}
