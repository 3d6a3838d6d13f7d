//! Checks every line of a file, and the order of the lines, before anything is written. A truncated or wrongly edited
//! file therefore changes nothing.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::store::export::Counts;
use scratchbook::{Error, ErrorKind, Event, Scope, SessionKey, StateDelta};

use super::record::ImportLine;

/// The contents of a checked file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) counts: Counts,
    /// Hashes of the events that change user or app state, and of the changes that were made to such state outside of
    /// events.
    pub(super) changes: HashSet<u64>,
}

/// Checks a file line by line.
#[derive(Debug, Default)]
pub(super) struct Checker {
    contents: Contents,
    begun: bool,
    ended: bool,
    owner: Option<StateOwner>,
    /// The current session, the number of its missing events, and the number of all its events.
    session: Option<(SessionKey, u64, u64)>,
    /// The last artifact and its version.
    artifact: Option<(String, u64)>,
}

impl Checker {
    /// Checks the next line.
    pub(super) fn line(&mut self, record: &ImportLine) -> Result<(), Error> {
        if self.ended {
            return Err(Error::invalid("there is a line after the end"));
        }
        if self.begun == matches!(record, ImportLine::Header) {
            let message = "it is no export of scratchbook's: it does not begin with one line of the type 'header'";
            return Err(Error::invalid(message));
        }
        if let Some((key, missing, of)) = &self.session
            && *missing > 0
            && !matches!(record, ImportLine::Event(..))
        {
            return Err(Error::invalid(format!(
                "{missing} of the {of} events of the session {key} are missing before it"
            )));
        }
        match record {
            ImportLine::Header => self.begun = true,
            ImportLine::Owner(owner, _) => self.owner(owner)?,
            ImportLine::Put(delta, options) => self.put(delta, options)?,
            ImportLine::Session { id, events, .. } => {
                let user = self.user()?;
                let key = SessionKey::new(user.app_name(), user.user_id().unwrap_or_default(), id)?;
                self.session = Some((key, *events, *events));
                self.artifact = None;
            }
            ImportLine::Event(seq, event) => self.event(*seq, event)?,
            ImportLine::Artifact(artifact) => self.artifact(&artifact.filename, artifact.version)?,
            ImportLine::End(counts) => {
                if *counts != self.contents.counts {
                    let found = self.contents.counts;
                    return Err(Error::invalid(format!(
                        "the end counts {counts:?}, but there are {found:?}; lines are missing"
                    )));
                }
                self.ended = true;
            }
        }
        if let Some(owner) = &self.owner {
            record.check(owner)?;
        }
        self.contents.counts.count(record.kind());
        Ok(())
    }

    /// Checks the end of the file after this many lines.
    pub(super) fn end(self, lines: usize) -> Result<Contents, Error> {
        if !self.begun {
            return Err(Error::invalid("it is empty; name a file that scratchbook export has made"));
        }
        if !self.ended {
            return Err(cut(lines));
        }
        Ok(self.contents)
    }

    fn owner(&mut self, owner: &StateOwner) -> Result<(), Error> {
        if self.owner.as_ref().is_some_and(|last| last >= owner) {
            return Err(Error::invalid(
                "each app and user stands in a file once, in alphabetical order, and this one is not after the one before it",
            ));
        }
        (self.owner, self.session, self.artifact) = (Some(owner.clone()), None, None);
        Ok(())
    }

    fn user(&self) -> Result<&StateOwner, Error> {
        let user = self.owner.as_ref().filter(|owner| owner.user_id().is_some());
        user.ok_or_else(|| Error::invalid("no line of the type 'user' stands before it"))
    }

    fn put(&mut self, delta: &StateDelta, options: &PutStateOptions) -> Result<(), Error> {
        let Some(owner) = self.owner.as_ref().filter(|_| self.session.is_none() && self.artifact.is_none()) else {
            return Err(Error::invalid("it does not stand under the line of an app or a user"));
        };
        self.contents.changes.extend(hashes_of_put(owner, delta, options));
        Ok(())
    }

    fn event(&mut self, seq: u64, event: &Event) -> Result<(), Error> {
        let Some((key, missing, of)) = &mut self.session else {
            return Err(Error::invalid("no line of the type 'session' stands before it"));
        };
        let expected = *of - *missing + 1;
        if *missing == 0 || seq != expected {
            return Err(Error::invalid(format!(
                "it has the number {seq}; number {expected} of {of} would be next in {key}"
            )));
        }
        *missing -= 1;
        if event.actions.state_delta.iter().any(|(name, _)| matches!(Scope::split(name).0, Scope::User | Scope::App)) {
            self.contents.changes.insert(hash_of_event(key, &event.id));
        }
        Ok(())
    }

    fn artifact(&mut self, filename: &str, version: u64) -> Result<(), Error> {
        self.user()?;
        if self.session.is_none() && !filename.starts_with("user:") {
            return Err(Error::invalid(format!("the artifact '{filename}' stands under no session")));
        }
        let last = self.artifact.as_ref().filter(|(name, _)| name == filename);
        let expected = last.map_or(0, |(_, version)| version + 1);
        if version != expected {
            return Err(Error::invalid(format!(
                "the artifact '{filename}' has version {version}; {expected} would be next"
            )));
        }
        self.artifact = Some((filename.to_owned(), version));
        Ok(())
    }
}

/// Returns the error for a truncated file.
pub(super) fn cut(lines: usize) -> Error {
    let message = format!(
        "the file was cut: it ends after line {lines}, without its end; export it again, or bring over the whole of it"
    );
    Error::new(ErrorKind::DataCorrupted, message)
}

pub(super) fn hash_of_event(session: &SessionKey, id: &str) -> u64 {
    hash(&("event", session, id))
}

/// Returns the hashes of a put, one for each key, because each change in the log has one key.
fn hashes_of_put(owner: &StateOwner, delta: &StateDelta, options: &PutStateOptions) -> Vec<u64> {
    let time = options.time.unwrap_or_default();
    delta.iter().map(|(name, change)| hash_of_put(owner, name, change.value(), &options.author, time)).collect()
}

pub(super) fn hash_of_put(
    owner: &StateOwner,
    name: &str,
    value: Option<&serde_json::Value>,
    author: &str,
    time: f64,
) -> u64 {
    hash(&("put", owner, name, value.map(ToString::to_string), author, time.to_bits()))
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
