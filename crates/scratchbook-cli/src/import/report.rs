//! The report of an import: written, existing and refused items.

use scratchbook::Error;
use serde_json::{Value, json};

use crate::failure::CommandFailure;
use crate::output::{BAD, Format, Output, plural, styled, visible};
use crate::progress::Progress;

/// The maximum length of a row's name in messages, in characters.
const MAX_SHOWN: usize = 200;

/// A row of the source that was not imported, and why.
#[derive(Debug)]
pub(super) struct RefusedRow {
    /// The row, such as `session shop/alice/s1`, `event e1 of shop/alice/s1`.
    pub(super) row: String,
    pub(super) why: Error,
}

impl RefusedRow {
    pub(super) fn new(row: impl Into<String>, why: Error) -> Self {
        let mut row = row.into();
        // An id may be refused because of its length.
        if let Some((end, _)) = row.char_indices().nth(MAX_SHOWN) {
            row.truncate(end);
            row.push_str("...");
        }
        Self { row, why }
    }
}

/// The outcome of importing a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionOutcome {
    /// The session was created.
    Created,
    /// A part of the session existed, and the rest was added.
    Completed,
    /// The whole session existed already.
    Nothing,
}

/// The counts of an import, and every row that was refused.
#[derive(Debug)]
pub(super) struct ImportReport {
    pub(super) progress: Progress,
    created: u64,
    completed: u64,
    unchanged: u64,
    /// Sessions that were skipped because they have expired.
    pub(super) expired: u64,
    events: u64,
    pub(super) artifacts: u64,
    pub(super) keys: u64,
    refused: Vec<RefusedRow>,
}

impl ImportReport {
    pub(super) fn new(progress: Progress) -> Self {
        let (created, completed, unchanged, expired) = (0, 0, 0, 0);
        let (events, artifacts, keys) = (0, 0, 0);
        Self { progress, created, completed, unchanged, expired, events, artifacts, keys, refused: Vec::new() }
    }

    /// Counts a session and its written events.
    pub(super) fn session(&mut self, (written, events): (SessionOutcome, u64)) {
        self.events += events;
        match written {
            SessionOutcome::Created => self.created += 1,
            SessionOutcome::Completed => self.completed += 1,
            SessionOutcome::Nothing => self.unchanged += 1,
        }
    }

    pub(super) fn refuse(&mut self, refusal: RefusedRow) {
        self.refused.push(refusal);
    }

    /// Prints the report. Fails if rows were refused.
    pub(super) fn print(self, out: &mut Output) -> Result<(), CommandFailure> {
        self.progress.finish();
        match out.format() {
            Format::Json => out.json(&self.as_json())?,
            Format::Text => self.print_text(out)?,
        }
        match self.refused.len() {
            0 => Ok(()),
            count => Err(CommandFailure::SkippedRows(count)),
        }
    }

    pub(super) fn as_json(&self) -> Value {
        let refused = self.refused.iter().map(
            |RefusedRow { row, why }| json!({"row": row, "kind": why.kind().as_str(), "message": why.to_string()}),
        );
        json!({
            "sessions": {"created": self.created, "completed": self.completed, "unchanged": self.unchanged,
                "expired": self.expired},
            "events": self.events,
            "keys": self.keys,
            "artifacts": self.artifacts,
            "refused": refused.collect::<Vec<_>>(),
        })
    }

    fn print_text(&self, out: &mut Output) -> Result<(), CommandFailure> {
        for RefusedRow { row, why } in &self.refused {
            let row = visible(row).into_owned();
            out.line(format_args!("{} {row}: {}", styled(BAD, "left out"), visible(&why.to_string())))?;
        }
        let (created, events) = (plural(self.created, "session"), plural(self.events, "event"));
        out.line(format_args!("imported {created}, {events}, {}, {}", self.keys_text(), self.artifacts_text()))?;
        if self.completed > 0 {
            out.line(format_args!("completed {}", plural(self.completed, "session")))?;
        }
        if self.unchanged > 0 {
            out.line(format_args!("{} were there already", plural(self.unchanged, "session")))?;
        }
        if self.expired > 0 {
            out.line(format_args!("left out {} since the export", plural(self.expired, "session") + " that expired"))?;
        }
        Ok(())
    }

    fn keys_text(&self) -> String {
        plural(self.keys, "user and app key")
    }

    fn artifacts_text(&self) -> String {
        plural(self.artifacts, "version") + " of artifacts"
    }
}
