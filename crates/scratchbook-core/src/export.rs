//! The format of an export: JSON Lines, each an object with a `type`.
//!
//! `scratchbook export` writes this format and `scratchbook import --from jsonl` reads it.
//!
//! A file begins with `header` and ends with `end`, which has counts. Between them, each app has a line `app` and each
//! user has a line `user`, in byte order, an app before its users. After each of these lines come `put` lines: the
//! writes to the state of that app or user that no event in the file contains. A user's lines continue with the user's
//! sessions, each a line `session` with its `event` lines and `artifact` lines, and then the user's own artifacts.
//!
//! ```
//! use scratchbook_core::export::{Counts, ExportLine, FORMAT, VERSION};
//!
//! let mut header = Vec::new();
//! ExportLine::Header { format: FORMAT, version: VERSION }.write(&mut header)?;
//! assert_eq!(header, b"{\"type\":\"header\",\"format\":\"scratchbook-export\",\"version\":1}\n");
//! let mut counts = Counts::default();
//! counts.count("event");
//! assert_eq!(counts.events, 1);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::content::Part;
use crate::event::Event;
use crate::json::escape_line_ends;
use crate::state::StateDelta;

/// The `format` in the header.
pub const FORMAT: &str = "scratchbook-export";
/// The version of these lines.
pub const VERSION: u64 = 1;

/// A line to write.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ExportLine<'a> {
    /// The first line.
    Header {
        /// [`FORMAT`].
        format: &'a str,
        /// [`VERSION`].
        version: u64,
    },
    /// An app and its state, with names without prefix.
    App {
        /// The app's name.
        app_name: &'a str,
        /// Its keys.
        state: &'a Map<String, Value>,
    },
    /// A user and their state, with names without prefix.
    User {
        /// The app's name.
        app_name: &'a str,
        /// The user's id.
        user_id: &'a str,
        /// The user's keys.
        state: &'a Map<String, Value>,
    },
    /// A change to the state of the last app or user that is not part of an event in the file. It was made outside of
    /// sessions, by the creation of a session, or by an event of a deleted session.
    Put {
        /// Who made the change.
        author: &'a str,
        /// When, in seconds since 1970.
        time: f64,
        /// The change.
        state_delta: &'a StateDelta,
    },
    /// A session of the last user, with its initial state.
    Session {
        /// The session's id.
        id: &'a str,
        /// When the session was created, in seconds since 1970. Only given for a session without events.
        #[serde(skip_serializing_if = "Option::is_none")]
        create_time: Option<f64>,
        /// When the session expires, in seconds since 1970, if it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        expire_time: Option<f64>,
        /// The title, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        /// The labels, by name.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        labels: &'a BTreeMap<String, String>,
        /// The session's own keys before its first event.
        state: &'a Map<String, Value>,
        /// The number of events that follow.
        events: u64,
    },
    /// An event of the last session.
    Event {
        /// Its number, from 1.
        seq: u64,
        /// The event, as ADK writes it.
        event: &'a Event,
    },
    /// A version of an artifact of the last session or, if its name begins with `user:`, of the user.
    Artifact {
        /// The artifact's name.
        filename: &'a str,
        /// The version, from 0.
        version: u64,
        /// The custom metadata of the version.
        custom_metadata: &'a Map<String, Value>,
        /// The content.
        artifact: &'a Part,
    },
    /// The last line: how many lines of each type came before.
    End(Counts),
}

impl ExportLine<'_> {
    /// Writes the line and a line break.
    ///
    /// # Errors
    ///
    /// The writer fails.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&escape_line_ends(&serde_json::to_vec(self)?))?;
        to.write_all(b"\n")
    }
}

/// The number of lines of each type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counts {
    /// Apps.
    pub apps: u64,
    /// Users.
    pub users: u64,
    /// Writes outside of events.
    pub puts: u64,
    /// Sessions.
    pub sessions: u64,
    /// Events.
    pub events: u64,
    /// Versions of artifacts.
    pub artifacts: u64,
}

impl Counts {
    /// Counts a line by its type, as [`ExportLine::kind`] gives it.
    pub fn count(&mut self, kind: &str) {
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
    /// Returns the line's `type`.
    pub fn kind(&self) -> &'static str {
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
