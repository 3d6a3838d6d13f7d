//! Failures of commands, how they are reported, and the exit code for each kind.

use std::error::Error as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use scratchbook::error::{ConflictCause, KeyConflict, KeyWriter};
use scratchbook::{Error, ErrorKind, SessionKey};
use serde_json::{Map, Value, json};

use crate::output::{compact, plural, visible};

/// Shown at the end of --help; [`exit_code_of`] is the same table.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
    0  success
    1  demo found a wrong value, import skipped rows, or state violates a schema
    2  invalid argument: on the command line, or an invalid key, id or value
    3  not found
    4  already exists
    5  conflict with another write
    6  failed precondition: not a scratchbook database, or a newer one;
       a key that is missing from the keyring; a confirmation that was not given
    7  out of resources: the disk, a queue or standard output
    8  not authenticated
    9  permission denied, such as by a read-only file
   10  unavailable, or the deadline has passed; try again
   11  not supported by this database
   12  stored data is damaged, or verify found a difference
   13  internal error
   14  too large
  130  interrupted";

/// How many sessions with an ambiguous id are shown. If [`CommandFailure::Ambiguous`] has more candidates, there are
/// further sessions.
pub(crate) const CANDIDATES: usize = 10;

/// The reason why a command ended early.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// The library refused.
    Refused(Error),
    /// Standard output could not be written.
    Output(io::Error),
    /// The demo found this many wrong values.
    WrongValues(usize),
    /// An import skipped this many rows.
    SkippedRows(usize),
    /// This many keys or scopes violate a schema.
    #[cfg_attr(not(feature = "schema"), expect(dead_code, reason = "`schema check` ends with it"))]
    SchemaViolations(usize),
    /// An answer failed with an error of this kind, which has been reported already.
    AlreadyReported(ErrorKind),
    /// Stored state differs in this many places from the state that events and logs give.
    Differences(usize),
    /// Several sessions have this id, or ids that begin with it; some of them are listed.
    Ambiguous { id: String, candidates: Vec<SessionKey> },
    /// Ctrl-C interrupted the command.
    Interrupted,
    /// Ctrl-C ended a command that has no other end.
    Ended,
}

impl CommandFailure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(error) => exit_code_of(error.kind()),
            Self::AlreadyReported(kind) => exit_code_of(*kind),
            // The reader of our output has closed the pipe, which is not a failure.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Ended => 0,
            Self::Output(_) => exit_code_of(ErrorKind::ResourceExhausted),
            Self::WrongValues(_) | Self::SkippedRows(_) | Self::SchemaViolations(_) => 1,
            Self::Ambiguous { .. } => exit_code_of(ErrorKind::InvalidArgument),
            Self::Differences(_) => exit_code_of(ErrorKind::DataCorrupted),
            Self::Interrupted => 130,
        }
    }
}

fn exit_code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidArgument => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::AlreadyExists => 4,
        ErrorKind::Conflict => 5,
        ErrorKind::FailedPrecondition => 6,
        ErrorKind::ResourceExhausted => 7,
        ErrorKind::Unauthenticated => 8,
        ErrorKind::PermissionDenied => 9,
        ErrorKind::Unavailable => 10,
        ErrorKind::Unsupported => 11,
        ErrorKind::DataCorrupted => 12,
        ErrorKind::PayloadTooLarge => 14,
        // `Internal`, and kinds that a later version of the library may add.
        _ => 13,
    }
}

/// Prints a failure and its causes to standard error.
pub(crate) fn report(failure: &CommandFailure, json: bool) {
    let mut causes = Vec::new();
    let (kind, message) = match failure {
        CommandFailure::Refused(error) => {
            let mut cause = error.source();
            while let Some(error) = cause {
                causes.push(error.to_string());
                cause = error.source();
            }
            (error.kind().as_str(), error.to_string())
        }
        CommandFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return,
        CommandFailure::Ended | CommandFailure::AlreadyReported(_) => return,
        CommandFailure::Output(error) => {
            (ErrorKind::ResourceExhausted.as_str(), format!("standard output cannot be written: {error}"))
        }
        CommandFailure::WrongValues(1) => ("different", "1 value is different from what it must be".to_owned()),
        CommandFailure::WrongValues(count) => {
            ("different", format!("{count} values are different from what they must be"))
        }
        CommandFailure::SkippedRows(1) => ("left_out", "1 row was left out; all others are imported".to_owned()),
        CommandFailure::SkippedRows(count) => {
            ("left_out", format!("{count} rows were left out; all others are imported"))
        }
        CommandFailure::SchemaViolations(1) => ("broken", "1 value breaks the schema".to_owned()),
        CommandFailure::SchemaViolations(count) => ("broken", format!("{count} values break the schema")),
        CommandFailure::Differences(count) => {
            let found = plural(*count as u64, "difference");
            (ErrorKind::DataCorrupted.as_str(), format!("{found} between what is stored and what it was made of"))
        }
        CommandFailure::Ambiguous { id, .. } => {
            let message = format!("several sessions have the id '{id}', or one that begins so; name one of them:");
            (ErrorKind::InvalidArgument.as_str(), message)
        }
        CommandFailure::Interrupted => ("interrupted", "interrupted".to_owned()),
    };
    let candidates = match failure {
        CommandFailure::Ambiguous { candidates, .. } => candidates.as_slice(),
        _ => &[],
    };
    if json {
        let mut error = json!({"kind": kind, "message": message, "causes": causes});
        if !candidates.is_empty() {
            error["candidates"] = candidates.iter().map(SessionKey::to_string).collect();
        }
        if let CommandFailure::Refused(refused) = failure
            && !refused.conflicts().is_empty()
        {
            error["conflicts"] = refused.conflicts().iter().map(conflict).collect();
        }
        return print_json(&error);
    }
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let mut err = anstream::stderr();
    let labelled = [("error", message)].into_iter().chain(causes.into_iter().map(|cause| ("  cause", cause)));
    for (label, line) in labelled {
        // If standard error is closed too, the failure cannot be reported.
        let _ = writeln!(err, "{red}{label}:{red:#} {}", visible(&line));
    }
    for candidate in candidates.iter().take(CANDIDATES) {
        let _ = writeln!(err, "  {}", visible(&candidate.to_string()));
    }
    if candidates.len() > CANDIDATES {
        let _ = writeln!(err, "  and more");
    }
}

/// Prints a warning to standard error, or in a server to its log.
pub(crate) fn warn(message: &str, json: bool) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{message}");
    } else if json {
        let _ = writeln!(io::stderr(), "{}", compact(&json!({"warning": {"message": message}})));
    } else {
        let yellow = Style::new().bold().fg_color(Some(AnsiColor::Yellow.into()));
        // If standard error is closed too, the failure cannot be reported.
        let _ = writeln!(anstream::stderr(), "{yellow}warning:{yellow:#} {}", visible(message));
    }
}

/// Returns a conflict as JSON, without absent fields.
fn conflict(conflict: &KeyConflict) -> Value {
    let cause = if conflict.cause == ConflictCause::Guard { "guard" } else { "changed" };
    let mut shown = Map::from_iter([("key".to_owned(), json!(conflict.key)), ("cause".to_owned(), json!(cause))]);
    shown.extend(conflict.read.clone().map(|value| ("read".to_owned(), value)));
    shown.extend(conflict.found.clone().map(|value| ("found".to_owned(), value)));
    if let Some(KeyWriter { author, event_id, seq, session, .. }) = &conflict.writer {
        let mut writer = json!({"author": author});
        if let Some((user, session)) = session {
            writer = json!({"author": author, "userId": user, "sessionId": session, "seq": seq, "eventId": event_id});
        }
        shown.insert("writer".to_owned(), writer);
    }
    shown.into()
}

/// Returns the error for a session that does not exist.
pub(crate) fn no_session(key: &SessionKey) -> Error {
    let message = format!("session not found: {key}; see: scratchbook sessions list --app {}", key.app_name());
    Error::not_found(message)
}

/// Prints an error as JSON to standard error.
pub(crate) fn print_json(error: &Value) {
    let _ = writeln!(io::stderr(), "{}", compact(&json!({"error": error})));
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
