//! Reads apps, users, sessions, events and artifacts page by page, and writes them as lines.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use scratchbook::artifact::{all_versions, describe_version};
use scratchbook::session::{ChangeQuery, ListSessionsConfig, StateChange, StateOwner};
use scratchbook::store::export::{Counts, ExportLine};
use scratchbook::{Error, ErrorKind, GetSessionConfig, Session, SessionKey, StateDelta};
use serde_json::{Map, Value};

use super::writer::LineWriter;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::owners::any_session;
use crate::walk::Selection;

/// The page size for owners, changes, sessions and events.
const PAGE: usize = 500;

/// The maximum number of cached sequence ranges.
const MAX_CACHED: usize = 10_000;

/// The sequence numbers of the events that sessions have.
type SeqRanges = HashMap<SessionKey, Option<RangeInclusive<u64>>>;

pub(super) struct Exporter<'a> {
    database: &'a OpenDatabase,
    lines: &'a mut LineWriter,
}

impl<'a> Exporter<'a> {
    pub(super) fn new(database: &'a OpenDatabase, lines: &'a mut LineWriter) -> Self {
        Self { database, lines }
    }

    pub(super) async fn all(mut self, selection: &Selection) -> Result<(), CommandFailure> {
        self.lines.header()?;
        let is_empty = match selection {
            // The command cannot select a single session.
            Selection::Everything | Selection::Session(_) => {
                self.owners(None, |_| true).await?;
                false
            }
            Selection::App(app) => {
                let state = self.database.sessions.get_state(app).await?;
                self.owner(app, &state).await?;
                let users = self.owners(Some(app.clone()), |owner| owner.app_name() == app.app_name()).await?;
                users == 0 && state.is_empty() && self.lines.counts().puts == 0
            }
            Selection::User(user) => {
                let state = self.database.sessions.get_state(user).await?;
                self.owner(user, &state).await?;
                self.user(user.app_name(), user.user_id().unwrap_or_default()).await?;
                let Counts { puts, sessions, artifacts, .. } = self.lines.counts();
                puts + sessions + artifacts == 0 && state.is_empty()
            }
        };
        if is_empty { Err(selection.not_found().into()) } else { Ok(()) }
    }

    /// Writes the owners after the owner `after`, up to the first that is not wanted. Returns how many were written.
    async fn owners(
        &mut self,
        mut after: Option<StateOwner>,
        wanted: impl Fn(&StateOwner) -> bool,
    ) -> Result<u64, CommandFailure> {
        let mut count = 0;
        loop {
            let page = self.database.sessions.list_owners(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(count) };
            after = Some(last.clone());
            for owner in page {
                if !wanted(&owner) {
                    return Ok(count);
                }
                let state = self.database.sessions.get_state(&owner).await?;
                self.owner(&owner, &state).await?;
                if let Some(user_id) = owner.user_id() {
                    self.user(owner.app_name(), user_id).await?;
                }
                count += 1;
            }
        }
    }

    /// Writes an owner's line, and the writes to the owner's state that are not in an exported event.
    async fn owner(&mut self, owner: &StateOwner, state: &Map<String, Value>) -> Result<(), CommandFailure> {
        let app_name = owner.app_name();
        self.lines.write(&match owner.user_id() {
            Some(user_id) => ExportLine::User { app_name, user_id, state },
            None => ExportLine::App { app_name, state },
        })?;
        let (mut after, mut known) = (0, SeqRanges::new());
        loop {
            let page = self.database.sessions.list_state_changes(owner, &ChangeQuery::After(after), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.position;
            // A page contains complete commits.
            for commit in page.chunk_by(|a, b| a.position == b.position) {
                if !self.is_of_event(&commit[0], &mut known).await? {
                    self.put(commit)?;
                }
            }
        }
    }

    /// Returns whether a change is in an existing event. `known` caches which events sessions have.
    async fn is_of_event(&self, change: &StateChange, known: &mut SeqRanges) -> Result<bool, CommandFailure> {
        let Some((session, seq)) = change.origin.as_ref().filter(|(_, seq)| *seq > 0) else { return Ok(false) };
        if !known.contains_key(session) {
            if known.len() >= MAX_CACHED {
                known.clear();
            }
            // The first event shows how many were pruned.
            let config = GetSessionConfig::default().without_state().with_events_after(0, 1);
            let found = self.database.sessions.get_session(session, &config).await?;
            let first = found.as_ref().and_then(|session| session.events().get(0)?.seq);
            let there = first.zip(found.as_ref()).map(|(first, session)| first..=session.seq());
            known.insert(session.clone(), there);
        }
        Ok(known.get(session).is_some_and(|there| there.as_ref().is_some_and(|there| there.contains(seq))))
    }

    fn put(&mut self, commit: &[StateChange]) -> Result<(), CommandFailure> {
        let mut delta = StateDelta::new();
        for change in commit {
            match &change.value {
                Some(value) => delta.set(change.name.clone(), value)?,
                None => delta.remove(change.name.clone())?,
            }
        }
        let StateChange { author, time, .. } = &commit[0];
        self.lines.write(&ExportLine::Put { author, time: *time, state_delta: &delta })
    }

    /// Writes a user's sessions and artifacts.
    async fn user(&mut self, app: &str, user: &str) -> Result<(), CommandFailure> {
        // Sessions are listed least recently updated first, so the last write to the user's state also comes last in
        // the export.
        let mut config = ListSessionsConfig::default().with_user_id(user).with_page_size(PAGE);
        loop {
            let page = self.database.sessions.list_sessions(app, &config).await?;
            for session in &page.sessions {
                self.session(session).await?;
            }
            config.page_token = page.next_page_token;
            if config.page_token.is_none() {
                break;
            }
        }
        self.artifacts(&any_session(app, user)?, |name| name.starts_with("user:")).await
    }

    async fn session(&mut self, session: &Session) -> Result<(), CommandFailure> {
        let key = session.key();
        let Some(initial) = self.database.sessions.get_initial_state(key).await? else {
            // The session was deleted since it was listed.
            return Ok(());
        };
        // If events were pruned, the state after them is exported as the initial state, and the remaining events are
        // numbered from 1.
        let (pruned, state, last) = (initial.seq, &initial.state, session.seq());
        let create_time = (pruned == last).then(|| session.last_update_time());
        let events = last.saturating_sub(pruned);
        let (id, expire_time) = (key.session_id(), session.expire_time());
        let (title, labels) = (session.title(), session.labels());
        self.lines.write(&ExportLine::Session { id, create_time, expire_time, title, labels, state, events })?;
        let mut seq = pruned;
        while seq < last {
            let limit = usize::try_from(last - seq).map_or(PAGE, |rest| rest.min(PAGE));
            let config = GetSessionConfig::default().without_state().with_events_after(seq, limit);
            let page = self.database.sessions.get_session(key, &config).await?;
            let page = page.map(|session| session.events().clone()).unwrap_or_default();
            if page.is_empty() {
                let message = format!("the session {key} was deleted while it was exported; export again");
                return Err(Error::new(ErrorKind::Conflict, message).into());
            }
            for event in page.iter() {
                let number = event.seq.unwrap_or_default();
                if number != seq + 1 {
                    let message = format!("the session {key} was pruned while it was exported; export again");
                    return Err(Error::new(ErrorKind::Conflict, message).into());
                }
                seq = number;
                self.lines.write(&ExportLine::Event { seq: seq - pruned, event })?;
            }
        }
        self.artifacts(key, |name| !name.starts_with("user:")).await
    }

    async fn artifacts(&mut self, key: &SessionKey, wanted: impl Fn(&str) -> bool) -> Result<(), CommandFailure> {
        let artifacts = &self.database.artifacts;
        for filename in artifacts.list_artifacts(key).await?.into_iter().filter(|name| wanted(name)) {
            for found in all_versions(artifacts.as_ref(), key, &filename).await? {
                let version = found.version;
                let Some(found) = describe_version(artifacts.as_ref(), key, &filename, Some(version)).await? else {
                    continue;
                };
                if let Some(artifact) = artifacts.load_artifact(key, &filename, Some(version)).await? {
                    let (filename, custom_metadata) = (&filename, &found.custom_metadata);
                    self.lines.write(&ExportLine::Artifact {
                        filename,
                        version,
                        custom_metadata,
                        artifact: &artifact,
                    })?;
                }
            }
        }
        Ok(())
    }
}
