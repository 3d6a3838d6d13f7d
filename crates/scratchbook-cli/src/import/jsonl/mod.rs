//! Imports files written by `scratchbook export`, whose format is in `scratchbook::store::export`.
//!
//! A file is read twice: first to check it, then to import it. Piped input is copied to a temporary file.

mod check;
mod record;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};

use async_trait::async_trait;
use scratchbook::artifact::all_versions;
use scratchbook::content::Part;
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::session::{ChangeQuery, Expiry, StateChange, StateOwner};
use scratchbook::store::export::Counts;
use scratchbook::store::without_password;
use scratchbook::{CreateSessionConfig, Error, ErrorKind, Event, SessionKey};
use serde_json::{Map, Value};

use super::owner_state::{OwnerState, SourceChanges};
use super::report::{ImportReport, RefusedRow};
use super::session::{SessionWriter, same_value};
use super::source::{MAX_TEXT, PAGE};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::owners::any_session;
use check::{Checker, Contents, cut, hash_of_event, hash_of_put};
use record::{Artifact, ImportLine};

/// The beginning of a SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A file that was checked.
pub(super) struct CheckedFile {
    file: File,
    contents: Contents,
}

/// Opens a file, or standard input for `-`, and checks it.
pub(super) fn open(source: &str) -> Result<CheckedFile, CommandFailure> {
    let mut file = if source == "-" { standard_input()? } else { File::open(source).map_err(|e| unread(source, e))? };
    refuse_database(source, &file)?;
    let contents = check(&file).map_err(|e| e.context(source))?;
    file.rewind().map_err(|e| unread(source, e))?;
    Ok(CheckedFile { file, contents })
}

/// Checks all lines.
fn check(from: impl Read) -> Result<Contents, Error> {
    let mut checker = Checker::default();
    let mut lines = RecordReader::new(from);
    while let Some(record) = lines.next().map_err(|e| of_other_kind(e, lines.number))? {
        checker.line(&record).map_err(|e| e.context(format!("line {}", lines.number)))?;
    }
    checker.end(lines.number)
}

/// Checks the lines of a file, and returns how many there are of each type.
pub(super) fn count_lines(bytes: &[u8]) -> Result<Counts, Error> {
    Ok(check(bytes)?.counts)
}

/// Refuses a database, and says how to import one.
fn refuse_database(source: &str, mut file: &File) -> Result<(), Error> {
    let mut beginning = Vec::new();
    file.by_ref().take(SQLITE.len() as u64).read_to_end(&mut beginning).map_err(|e| unread(source, e))?;
    file.rewind().map_err(|e| unread(source, e))?;
    if beginning != SQLITE {
        return Ok(());
    }
    let message = format!(
        "{source} is a SQLite database; import one of google-adk's with --from adk-sqlite or adk-database, and one of \
         scratchbook's from the file that `scratchbook export` makes of it"
    );
    Err(Error::invalid(message))
}

/// Adds a hint to an error in the first line: the file is probably of another kind.
fn of_other_kind(error: Error, line: usize) -> Error {
    if line > 1 || error.kind() != ErrorKind::InvalidArgument {
        return error;
    }
    let message = format!("{error}; it is not a file that `scratchbook export` has written");
    Error::new(error.kind(), message)
}

fn standard_input() -> Result<File, CommandFailure> {
    let mut file = tempfile::tempfile().map_err(|e| unread("a temporary file for standard input", e))?;
    io::copy(&mut io::stdin().lock(), &mut file).map_err(|e| unread("standard input", e))?;
    file.rewind().map_err(|e| unread("a temporary file for standard input", e))?;
    Ok(file)
}

fn unread(source: &str, error: io::Error) -> Error {
    // The name may be a database URI with a password.
    let source = without_password(source);
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound => {
            (ErrorKind::NotFound, format!("there is no file {source}; name one, or - for a pipe"))
        }
        io::ErrorKind::PermissionDenied => (ErrorKind::PermissionDenied, format!("{source} may not be read")),
        io::ErrorKind::StorageFull => (ErrorKind::ResourceExhausted, format!("the disk is full: {source}")),
        io::ErrorKind::IsADirectory => (ErrorKind::InvalidArgument, format!("{source} is a folder; name a file")),
        _ => (ErrorKind::Unavailable, format!("{source} cannot be read")),
    };
    Error::new(kind, message).with_source(error)
}

/// Reads the lines of a file one by one.
struct RecordReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    number: usize,
}

impl<R: Read> RecordReader<R> {
    fn new(from: R) -> Self {
        Self { reader: BufReader::new(from), line: Vec::new(), number: 0 }
    }

    fn next(&mut self) -> Result<Option<ImportLine>, Error> {
        self.line.clear();
        let line = self.reader.by_ref().take(MAX_TEXT + 1).read_until(b'\n', &mut self.line);
        line.map_err(|e| unread(&format!("line {}", self.number + 1), e))?;
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.len() as u64 > MAX_TEXT {
            let message = format!("line {} must have at most {MAX_TEXT} bytes (64 MiB), and has more", self.number + 1);
            return Err(Error::new(ErrorKind::PayloadTooLarge, message));
        }
        let whole = self.line.ends_with(b"\n");
        self.number += 1;
        let text = std::str::from_utf8(&self.line).map_err(|_| Error::invalid("it is not UTF-8"));
        let record = text.and_then(|text| ImportLine::read(text.trim_end_matches(['\n', '\r'])));
        match record {
            Ok(record) => Ok(Some(record)),
            // The line is the last one, and truncated.
            Err(_) if !whole && self.number > 1 => Err(cut(self.number - 1)),
            Err(why) => Err(why.context(format!("line {}", self.number))),
        }
    }
}

/// Imports a checked file.
pub(super) async fn import(
    source: CheckedFile,
    database: &OpenDatabase,
    report: &mut ImportReport,
) -> Result<(), CommandFailure> {
    let CheckedFile { file, contents } = source;
    report.progress.of(contents.counts.events);
    let mut import = JsonlImport {
        database,
        report,
        contents: &contents,
        app: None,
        user: None,
        session: None,
        artifacts: None,
        is_left_out: false,
    };
    let mut lines = RecordReader::new(&file);
    while let Some(record) = lines.next()? {
        import.record(record).await?;
    }
    import.end_user().await?;
    import.end_app().await
}

struct JsonlImport<'a> {
    database: &'a OpenDatabase,
    report: &'a mut ImportReport,
    contents: &'a Contents,
    app: Option<OwnerInProgress>,
    user: Option<OwnerInProgress>,
    session: Option<SessionInProgress<'a>>,
    /// The current artifact, and how many of its versions existed before the import.
    artifacts: Option<(String, u64)>,
    /// Whether the current session and its artifacts are skipped, because it has expired or a different one exists.
    is_left_out: bool,
}

/// The app or user whose lines are being read.
struct OwnerInProgress {
    owner: StateOwner,
    shared: OwnerState,
    /// Hashes of the puts that are in the log already.
    there: HashSet<u64>,
}

/// The session whose events are being read.
struct SessionInProgress<'a> {
    key: SessionKey,
    /// `None` if the session was refused.
    writer: Option<SessionWriter<'a>>,
    page: Vec<Event>,
    missing: u64,
}

impl<'a> JsonlImport<'a> {
    async fn record(&mut self, record: ImportLine) -> Result<(), CommandFailure> {
        match record {
            ImportLine::Owner(owner, state) if owner.user_id().is_none() => {
                self.end_user().await?;
                self.end_app().await?;
                self.app = Some(self.begin(owner, Some(state)).await?);
            }
            ImportLine::Owner(owner, state) => {
                self.end_user().await?;
                if self.app.is_none() {
                    // The file contains only a user, so the app's keys stay as they are.
                    let app = StateOwner::app(owner.app_name())?;
                    self.app = Some(self.begin(app, None).await?);
                }
                self.user = Some(self.begin(owner, Some(state)).await?);
            }
            ImportLine::Put(delta, options) => {
                let Some(OwnerInProgress { owner, there, .. }) = self.user.as_ref().or(self.app.as_ref()) else {
                    return Ok(());
                };
                let time = options.time.unwrap_or_default();
                let known = |name: &str, value| there.contains(&hash_of_put(owner, name, value, &options.author, time));
                if !delta.iter().all(|(name, change)| known(name, change.value())) {
                    self.report.keys += delta.len() as u64;
                    self.database.sessions.put_state(owner, delta, options).await?;
                }
            }
            ImportLine::Session { id, config, events } => {
                let Some(user) = &self.user else { return Ok(()) };
                let key = SessionKey::new(user.owner.app_name(), user.owner.user_id().unwrap_or_default(), &id)?;
                let writer = match has_expired(&config) {
                    true => {
                        self.report.expired += 1;
                        None
                    }
                    false => self.begin_session(&key, *config).await?,
                };
                self.artifacts = None;
                self.is_left_out = writer.is_none();
                self.session = Some(SessionInProgress { key, writer, page: Vec::new(), missing: events });
                if events == 0 {
                    self.end_session().await?;
                }
            }
            ImportLine::Event(_, event) => {
                if let Some(session) = &mut self.session {
                    session.page.push(*event);
                    session.missing -= 1;
                    if session.missing == 0 {
                        self.end_session().await?;
                    } else if session.page.len() == PAGE {
                        self.write_page().await?;
                    }
                }
            }
            ImportLine::Artifact(artifact) => self.artifact(*artifact).await?,
            ImportLine::Header | ImportLine::End(_) => {}
        }
        Ok(())
    }

    async fn begin(
        &mut self,
        owner: StateOwner,
        state: Option<Map<String, Value>>,
    ) -> Result<OwnerInProgress, CommandFailure> {
        let known = InFile(self.contents, &owner);
        let shared = OwnerState::begin(self.database, owner.clone(), state, &known, self.report).await?;
        let (mut there, mut after) = (HashSet::new(), 0);
        loop {
            let page = self.database.sessions.list_state_changes(&owner, &ChangeQuery::After(after), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.position;
            let puts = page.iter().filter(|change| change.origin.is_none());
            there.extend(puts.map(|c| hash_of_put(&owner, &c.name, c.value.as_ref(), &c.author, c.time)));
        }
        Ok(OwnerInProgress { owner, shared, there })
    }

    async fn end_user(&mut self) -> Result<(), CommandFailure> {
        (self.session, self.artifacts, self.is_left_out) = (None, None, false);
        match self.user.take() {
            Some(user) => user.shared.settle(self.database, self.report).await,
            None => Ok(()),
        }
    }

    async fn end_app(&mut self) -> Result<(), CommandFailure> {
        match self.app.take() {
            Some(app) => app.shared.settle(self.database, self.report).await,
            None => Ok(()),
        }
    }

    /// Writes the events that were read. If the session is refused, its further events are skipped.
    async fn write_page(&mut self) -> Result<(), CommandFailure> {
        let Some(SessionInProgress { key, writer, page, .. }) = &mut self.session else { return Ok(()) };
        let events = std::mem::take(page);
        self.report.progress.advance(events.len());
        let Some(writing) = writer else { return Ok(()) };
        match writing.events(events).await {
            Err(CommandFailure::Refused(why)) if why.kind() == ErrorKind::AlreadyExists => {
                self.report.refuse(RefusedRow::new(format!("session {key}"), why));
                *writer = None;
                self.is_left_out = true;
                Ok(())
            }
            done => done,
        }
    }

    /// Creates the session's writer; `None` if a session with another initial state exists.
    async fn begin_session(
        &mut self,
        key: &SessionKey,
        config: CreateSessionConfig,
    ) -> Result<Option<SessionWriter<'a>>, CommandFailure> {
        let state = config.state.clone();
        let writer = SessionWriter::new(self.database, key, config).await?;
        match writer.compare_beginning(&state).await {
            Ok(()) => Ok(Some(writer)),
            Err(CommandFailure::Refused(why)) if why.kind() == ErrorKind::AlreadyExists => {
                self.report.refuse(RefusedRow::new(format!("session {key}"), why));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn end_session(&mut self) -> Result<(), CommandFailure> {
        self.write_page().await?;
        if let Some(writer) = self.session.as_mut().and_then(|session| session.writer.take()) {
            match writer.finish(None).await {
                Ok(written) => self.report.session(written),
                Err(CommandFailure::Refused(why)) if why.kind() == ErrorKind::AlreadyExists => {
                    let key = self.session.as_ref().map(|session| session.key.to_string()).unwrap_or_default();
                    self.report.refuse(RefusedRow::new(format!("session {key}"), why));
                    self.is_left_out = true;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    async fn artifact(&mut self, artifact: Artifact) -> Result<(), CommandFailure> {
        let Artifact { filename, version, custom_metadata, part } = artifact;
        if self.is_left_out && !filename.starts_with("user:") {
            return Ok(());
        }
        let Some(user) = &self.user else { return Ok(()) };
        let key = match &self.session {
            Some(session) if !filename.starts_with("user:") => session.key.clone(),
            _ => any_session(user.owner.app_name(), user.owner.user_id().unwrap_or_default())?,
        };
        let artifacts = &self.database.artifacts;
        let there = match &self.artifacts {
            Some((name, there)) if *name == filename => *there,
            _ => all_versions(artifacts.as_ref(), &key, &filename).await?.len() as u64,
        };
        self.artifacts = Some((filename.clone(), there));
        let row = || format!("artifact {filename}, version {version}, of {key}");
        if version < there {
            let found = artifacts.load_artifact(&key, &filename, Some(version)).await?;
            if !found.is_some_and(|found| same_part(&found, &part)) {
                let message = "another artifact is there under this name and version; delete it there first";
                self.report.refuse(RefusedRow::new(row(), Error::new(ErrorKind::AlreadyExists, message)));
                // Later versions do not become versions of the other artifact.
                self.artifacts = Some((filename, u64::MAX));
            }
            return Ok(());
        }
        let saved = artifacts.save_artifact(&key, &filename, part, custom_metadata).await?;
        self.report.artifacts += 1;
        if saved != version {
            let message = format!("it was saved as version {saved}: somebody else saved one at the same time");
            self.report.refuse(RefusedRow::new(row(), Error::new(ErrorKind::Conflict, message)));
        }
        Ok(())
    }
}

/// Returns whether a session has expired. Such a session cannot be read or written.
fn has_expired(config: &CreateSessionConfig) -> bool {
    matches!(config.expiry, Some(Expiry::At(seconds)) if seconds <= SystemEnvironment.now())
}

fn same_part(a: &Part, b: &Part) -> bool {
    match (serde_json::to_value(a), serde_json::to_value(b)) {
        (Ok(a), Ok(b)) => same_value(&a, &b),
        _ => false,
    }
}

/// Finds changes to an owner's state in a checked file.
struct InFile<'a>(&'a Contents, &'a StateOwner);

#[async_trait]
impl SourceChanges for InFile<'_> {
    async fn has_event(&self, session: &SessionKey, id: &str) -> Result<bool, CommandFailure> {
        Ok(self.0.changes.contains(&hash_of_event(session, id)))
    }

    fn has_put(&self, change: &StateChange) -> bool {
        let StateChange { name, value, author, time, .. } = change;
        self.0.changes.contains(&hash_of_put(self.1, name, value.as_ref(), author, *time))
    }
}
