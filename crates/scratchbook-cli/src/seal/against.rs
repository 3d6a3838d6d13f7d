//! `scratchbook verify --against FILE...`: whether what was sealed is still stored as it was.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use scratchbook::session::{ChangeQuery, EventHash, GetSessionConfig, SessionService, StateOwner};
use scratchbook::{Error, ErrorKind, SessionKey};
use serde_json::json;

use super::file::{Line, SealReader, hex};
use super::{is_of, name_of, value_hash};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{BAD, BOLD, Format, GOOD, Output, plural, styled, visible};
use crate::progress::Progress;

/// How many events of a session, and versions of a key, are read at a time.
const EVENTS: usize = 500;
const VERSIONS: usize = 16;

pub(crate) async fn against(
    database: &OpenDatabase,
    files: &[PathBuf],
    out: &mut Output,
) -> Result<(), CommandFailure> {
    let name = name_of(database).await?;
    let mut hashes = HashSet::new();
    let mut continued = Vec::new();
    for file in files {
        let (head, hash) = SealReader::check(file)?;
        is_of(&head, &name, file)?;
        hashes.insert(hash);
        continued.extend(head.previous.map(|previous| (file, previous)));
    }
    continued.retain(|(_, previous)| !hashes.contains(previous));
    let progress = Progress::counting("verifying", out.format());
    let mut check = SealCheck::new(database);
    let mut difference = None;
    'files: for file in files {
        let mut seal = SealReader::open(file)?;
        loop {
            let found = match seal.next()? {
                Line::Sha256(_) => break,
                Line::Event(app, user, session, seq, id, hash) => {
                    check.event(SessionKey::new(&app, &user, &session)?, seq, &id, &hash).await?
                }
                Line::State(app, Some(user), Some(session), name, version, hash) => {
                    check.own_key(&SessionKey::new(&app, &user, &session)?, &name, version, &hash).await?
                }
                Line::State(app, user, _, name, version, hash) => {
                    let owner = user.map_or_else(|| StateOwner::app(&app), |user| StateOwner::user(&app, &user))?;
                    check.shared_key(&owner, &name, version, &hash).await?
                }
            };
            if found.is_some() {
                difference = found;
                break 'files;
            }
            progress.show(plural(check.same, "line"));
        }
    }
    progress.finish();
    let SealCheck { same, gone, deleted, .. } = check;
    let missing: Vec<_> = continued.iter().map(|(file, hash)| (file.display().to_string(), hash)).collect();
    if out.format() == Format::Json {
        let missing: Vec<_> = missing.iter().map(|(file, hash)| json!({"before": file, "sha256": hash})).collect();
        out.json(&json!({
            "same": same, "gone": gone, "deletedSessions": deleted, "missingSeals": missing, "difference": difference,
        }))?;
    } else {
        for (file, hash) in missing {
            let label = styled(BOLD, "missing");
            out.line(format_args!("{label}  the seal {hash}, which {} continues", visible(&file)))?;
        }
        for session in &deleted {
            out.line(format_args!("{}  {}", styled(BOLD, "deleted"), visible(session)))?;
        }
        let gone = plural(gone, "line");
        out.line(format_args!(
            "compared {}; {gone} of what was pruned, deleted or written over",
            plural(same, "line")
        ))?;
        match &difference {
            Some(what) => out.line(format_args!("{}  {}", styled(BAD, "differs"), visible(what)))?,
            None => out.line(styled(GOOD, "no differences: what was sealed is stored as it was"))?,
        }
    }
    difference.map_or(Ok(()), |_| Err(CommandFailure::Differences(1)))
}

/// Compares the lines of seals with what is stored.
struct SealCheck<'a> {
    database: &'a OpenDatabase,
    /// The lines that fit, and those of what is not stored any more.
    same: u64,
    gone: u64,
    deleted: BTreeSet<String>,
    /// The session of the last line, and some of its events, which follow each other.
    session: Option<SessionKey>,
    base: u64,
    events: BTreeMap<u64, EventHash>,
}

impl<'a> SealCheck<'a> {
    fn new(database: &'a OpenDatabase) -> Self {
        let (deleted, events) = (BTreeSet::new(), BTreeMap::new());
        Self { database, same: 0, gone: 0, deleted, session: None, base: 0, events }
    }

    /// Returns the difference of an event, if there is one.
    async fn event(&mut self, key: SessionKey, seq: u64, id: &str, hash: &str) -> Result<Option<String>, Error> {
        if self.session.as_ref() != Some(&key) || !self.events.contains_key(&seq) {
            let Some(page) = self.database.sessions.list_event_hashes(&key, seq.saturating_sub(1), EVENTS).await?
            else {
                self.gone += 1;
                self.deleted.insert(key.to_string());
                return Ok(None);
            };
            self.base = page.base;
            self.events = page.events.into_iter().map(|event| (event.seq, event)).collect();
            self.session = Some(key.clone());
        }
        let Some(stored) = self.events.get(&seq) else {
            if seq <= self.base {
                self.gone += 1;
                return Ok(None);
            }
            return Ok(Some(format!("the event {seq} of {key}, {id}, is missing")));
        };
        if stored.id != id {
            let found = &stored.id;
            return Ok(Some(format!(
                "the event {seq} of {key} is {found}, and {id} was sealed: another one has its place, \
                                    or the session was deleted and created again"
            )));
        }
        if hex(&stored.text) != hash {
            return Ok(Some(format!("the event {seq} of {key}, {id}, is not the one that was sealed: it was changed")));
        }
        self.same += 1;
        Ok(None)
    }

    /// Returns the difference of a session's key as the event `version` wrote it.
    async fn own_key(
        &mut self,
        key: &SessionKey,
        name: &str,
        version: u64,
        hash: &str,
    ) -> Result<Option<String>, Error> {
        let Some(initial) = self.database.sessions.get_initial_state(key).await? else {
            self.gone += 1;
            self.deleted.insert(key.to_string());
            return Ok(None);
        };
        let found = if version > initial.seq {
            let event = GetSessionConfig::default().without_state().with_events_after(version - 1, 1);
            let session = self.database.sessions.get_session(key, &event).await?;
            let event = session.as_ref().and_then(|session| session.events().get(0)).filter(|e| e.seq == Some(version));
            let Some(event) = event else {
                return Ok(Some(format!("the event {version} of {key}, which wrote the key '{name}', is missing")));
            };
            event.actions.state_delta.get(name).and_then(|change| change.value()).map(value_hash)
        } else if version == initial.seq {
            // A later event may have removed the key, but not from this state.
            initial.state.get(name).map(value_hash)
        } else {
            // Pruning has folded later writes over this one, unless it was the last.
            let writers = self.database.sessions.blame(key).await;
            let is_last = match writers {
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                found => found?.get(name).is_some_and(|writer| writer.seq == version),
            };
            if !is_last {
                self.gone += 1;
                return Ok(None);
            }
            initial.state.get(name).map(value_hash)
        };
        self.compared(format!("the key '{name}' of {key}, as the event {version} wrote it,"), found, hash)
    }

    /// Returns the difference of a version of a user's or an app's key.
    async fn shared_key(
        &mut self,
        owner: &StateOwner,
        name: &str,
        version: u64,
        hash: &str,
    ) -> Result<Option<String>, Error> {
        let of = match owner.user_id() {
            Some(user) => format!("user {}/{user}", owner.app_name()),
            None => format!("app {}", owner.app_name()),
        };
        let mut before = u64::MAX;
        let mut is_first = true;
        loop {
            let query = ChangeQuery::of_key(name, before);
            let changes = self.database.sessions.list_state_changes(owner, &query, VERSIONS).await?;
            if let Some(change) = changes.iter().find(|change| change.version == version) {
                let found = change.value.as_ref().map(value_hash);
                return self.compared(format!("the version {version} of the key '{name}' of the {of}"), found, hash);
            }
            let Some(oldest) = changes.last() else {
                // The user was erased, or older writes were pruned.
                self.gone += 1;
                return Ok(None);
            };
            if is_first && changes.first().is_some_and(|newest| newest.version < version) {
                return Ok(Some(format!(
                    "the version {version} of the key '{name}' of the {of} is missing: its \
                                        log was changed, or the user was erased and created again"
                )));
            }
            is_first = false;
            before = oldest.position;
        }
    }

    fn compared(&mut self, what: String, found: Option<String>, hash: &str) -> Result<Option<String>, Error> {
        match found {
            Some(found) if found == hash => {
                self.same += 1;
                Ok(None)
            }
            Some(_) => Ok(Some(format!("{what} is not the value that was sealed"))),
            None => Ok(Some(format!("{what} is missing"))),
        }
    }
}
