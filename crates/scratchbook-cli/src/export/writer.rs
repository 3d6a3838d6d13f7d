//! Writes the lines of an export.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use scratchbook::store::export::{Counts, ExportLine, FORMAT, VERSION};
use scratchbook::{Error, ErrorKind};

use crate::failure::CommandFailure;
use crate::progress::Progress;

/// Writes lines and counts them.
pub(super) struct LineWriter {
    to: Destination,
    counts: Counts,
    progress: Progress,
}

enum Destination {
    File(BufWriter<File>, String),
    StandardOutput(BufWriter<io::Stdout>),
}

impl LineWriter {
    /// Creates a file, which must not exist. Only its owner can read it: it has everything as plain text, even if the
    /// database is encrypted.
    pub(super) fn create(path: &Path, progress: Progress) -> Result<Self, CommandFailure> {
        let file = BufWriter::new(create_new(path)?);
        Ok(Self { to: Destination::File(file, path.display().to_string()), counts: Counts::default(), progress })
    }

    pub(super) fn standard_output(progress: Progress) -> Self {
        Self { to: Destination::StandardOutput(BufWriter::new(io::stdout())), counts: Counts::default(), progress }
    }

    pub(super) fn write(&mut self, line: &ExportLine<'_>) -> Result<(), CommandFailure> {
        self.counts.count(line.kind());
        self.progress.advance(usize::from(line.kind() == "event"));
        let written = match &mut self.to {
            Destination::File(to, _) => line.write(to),
            Destination::StandardOutput(to) => line.write(to),
        };
        written.map_err(|e| self.failed(e))
    }

    /// Returns how many lines of each type were written.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn header(&mut self) -> Result<(), CommandFailure> {
        self.write(&ExportLine::Header { format: FORMAT, version: VERSION })
    }

    /// Writes the last line and flushes everything.
    pub(super) fn end(mut self) -> Result<Counts, CommandFailure> {
        self.write(&ExportLine::End(self.counts))?;
        let done = match &mut self.to {
            Destination::File(to, _) => to.flush().and_then(|()| to.get_ref().sync_all()),
            Destination::StandardOutput(to) => to.flush(),
        };
        done.map_err(|e| self.failed(e))?;
        self.progress.finish();
        Ok(self.counts)
    }

    fn failed(&self, error: io::Error) -> CommandFailure {
        match &self.to {
            Destination::File(_, name) => not_written(name, error),
            Destination::StandardOutput(_) => CommandFailure::Output(error),
        }
    }
}

/// Creates a file, which must not exist. Only its owner can read it.
pub(crate) fn create_new(path: &Path) -> Result<File, CommandFailure> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|e| not_written(&path.display().to_string(), e))
}

pub(crate) fn not_written(name: &str, error: io::Error) -> CommandFailure {
    let (kind, message) = match error.kind() {
        io::ErrorKind::AlreadyExists => (ErrorKind::AlreadyExists, format!("{name} exists already; name a new file")),
        io::ErrorKind::NotFound => (ErrorKind::NotFound, format!("the folder of {name} does not exist; make it first")),
        io::ErrorKind::PermissionDenied => (ErrorKind::PermissionDenied, format!("{name} may not be written")),
        io::ErrorKind::StorageFull => (ErrorKind::ResourceExhausted, format!("the disk is full: {name}")),
        _ => (ErrorKind::Unavailable, format!("{name} cannot be written")),
    };
    Error::new(kind, message).with_source(error).into()
}
