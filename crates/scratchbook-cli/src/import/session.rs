//! Writes a session. A new session is written in one commit, unless it is very long. An existing session is compared
//! event by event, and the missing events at its end are added.

use std::sync::Arc;

use scratchbook::environment::SystemEnvironment;
use scratchbook::plan::prepare_event;
use scratchbook::store::Limits;
use scratchbook::{
    AppendOptions, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, Scope, SessionKey, StateDelta,
};
use serde_json::{Map, Value, json};

use super::report::SessionOutcome;
use super::source::{IMPORTER, PAGE};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;

/// The maximum number of events of a session that is written in one commit.
pub(super) const WHOLE: usize = 10_000;

/// Writes one session, page by page.
pub(super) struct SessionWriter<'a> {
    database: &'a OpenDatabase,
    key: SessionKey,
    /// The session to create, until it is created.
    config: Option<CreateSessionConfig>,
    /// The next page of the existing session's events, in reverse.
    existing: Vec<Arc<Event>>,
    /// The number of the last event in `existing`, or of the last written one.
    seq: u64,
    written: SessionOutcome,
    /// How many of the source's events were written.
    count: u64,
}

impl<'a> SessionWriter<'a> {
    /// Checks whether the session exists.
    pub(super) async fn new(
        database: &'a OpenDatabase,
        key: &SessionKey,
        config: CreateSessionConfig,
    ) -> Result<Self, CommandFailure> {
        let mut writer = Self {
            database,
            key: key.clone(),
            config: None,
            existing: Vec::new(),
            seq: 0,
            written: SessionOutcome::Nothing,
            count: 0,
        };
        match writer.read().await? {
            Some(()) => {}
            None => {
                writer.written = SessionOutcome::Created;
                writer.config = Some(config.with_session_id(key.session_id()));
            }
        }
        Ok(writer)
    }

    /// Checks that an existing session has this initial state, unless its first events were pruned.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the session has another initial state.
    pub(super) async fn compare_beginning(&self, state: &Value) -> Result<(), CommandFailure> {
        if self.is_new() {
            return Ok(());
        }
        let initial = self.database.sessions.get_initial_state(&self.key).await?;
        let Some(initial) = initial.filter(|initial| initial.seq == 0) else { return Ok(()) };
        let given = state.as_object().into_iter().flatten().filter(|(key, _)| Scope::split(key).0 == Scope::Session);
        let given: Map<String, Value> = given.map(|(key, value)| (key.clone(), value.clone())).collect();
        if same_value(&Value::Object(initial.state), &Value::Object(given)) {
            return Ok(());
        }
        let message = "the session is in the database already, and was made with another state there; import into another \
                       database, or delete the session there first";
        Err(Error::new(ErrorKind::AlreadyExists, message).into())
    }

    /// Returns whether the session did not exist.
    pub(super) fn is_new(&self) -> bool {
        self.written == SessionOutcome::Created
    }

    /// Writes the next events of the source, except those that exist already.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the database has a different event in the place of one of them.
    pub(super) async fn events(&mut self, events: Vec<Event>) -> Result<(), CommandFailure> {
        if let Some(config) = &mut self.config {
            config.events.extend(events);
            return if config.events.len() < WHOLE { Ok(()) } else { self.create().await };
        }
        for event in events {
            if !self.compare(&event).await? {
                self.append(event).await?;
            }
        }
        Ok(())
    }

    /// Creates the session with its collected events.
    async fn create(&mut self) -> Result<(), CommandFailure> {
        if let Some(config) = self.config.take() {
            let count = config.events.iter().filter(|event| !is_correction(event)).count() as u64;
            let (app, user) = (self.key.app_name(), self.key.user_id());
            self.seq = self.database.sessions.create_session(app, user, config).await?.seq();
            self.count = count;
        }
        Ok(())
    }

    /// Returns whether the event is the next one of the existing session. Corrections of an earlier import are skipped.
    async fn compare(&mut self, event: &Event) -> Result<bool, CommandFailure> {
        loop {
            if self.existing.is_empty() && self.written == SessionOutcome::Nothing {
                self.read().await?;
            }
            let Some(next) = self.existing.pop() else { return Ok(false) };
            if same(&next, event)? {
                return Ok(true);
            }
            if !is_correction(&next) {
                let (seq, there, id) = (next.seq.unwrap_or_default(), &next.id, &event.id);
                let what =
                    if *there == *id { "has other content there".to_owned() } else { format!("is '{there}' there") };
                let message = format!(
                    "the session is in the database already, and its event number {seq}, '{id}', {what}; import into \
                     another database, or delete the session there first"
                );
                return Err(Error::new(ErrorKind::AlreadyExists, message).into());
            }
        }
    }

    /// Reads the next page of existing events.
    async fn read(&mut self) -> Result<Option<()>, CommandFailure> {
        let config = GetSessionConfig::default().without_state().with_events_after(self.seq, PAGE);
        let Some(session) = self.database.sessions.get_session(&self.key, &config).await? else { return Ok(None) };
        self.existing = session.events().iter().rev().cloned().collect();
        self.seq = self.existing.first().and_then(|last| last.seq).unwrap_or(self.seq);
        Ok(Some(()))
    }

    async fn append(&mut self, event: Event) -> Result<(), CommandFailure> {
        let committed = self.database.sessions.append(&self.key, event, AppendOptions::default()).await?;
        self.seq = committed.event.seq.unwrap_or(self.seq);
        self.count += u64::from(!is_correction(&committed.event));
        // The existing session has no further events, so the following events are written without comparison.
        if self.written == SessionOutcome::Nothing {
            self.written = SessionOutcome::Completed;
        }
        Ok(())
    }

    /// Completes the session. If the session has no further events after those of the source, its own keys are
    /// corrected to the source's values. Returns the outcome and how many of the source's events were written.
    pub(super) async fn finish(
        mut self,
        state: Option<(&Map<String, Value>, f64)>,
    ) -> Result<(SessionOutcome, u64), CommandFailure> {
        self.create().await?;
        if let Some((state, time)) = state
            && !self.has_moved_on().await?
            && let Some(session) =
                self.database.sessions.get_session(&self.key, &GetSessionConfig::state_only()).await?
            && let Some(event) = correction(&session.state().scope_as(Scope::Session)?, state, session.seq(), time)?
        {
            self.append(event).await?;
        }
        Ok((self.written, self.count))
    }

    /// Returns whether the session has events that were added after an earlier import.
    async fn has_moved_on(&mut self) -> Result<bool, CommandFailure> {
        if self.existing.is_empty() && self.written == SessionOutcome::Nothing {
            self.read().await?;
        }
        Ok(self.existing.iter().any(|event| !is_correction(event)))
    }
}

/// Returns the event that corrects a state to the source's, if they differ.
pub(super) fn correction(
    is: &Map<String, Value>,
    ought: &Map<String, Value>,
    seq: u64,
    time: f64,
) -> Result<Option<Event>, Error> {
    let delta = difference(is, ought)?;
    if delta.is_empty() {
        return Ok(None);
    }
    let mut event = Event::new(IMPORTER)
        .with_id(format!("{IMPORTER}-state-{}", seq + 1))
        .with_timestamp(time)
        .with_state_delta(delta);
    let why = "the state that the source had, where its events lead to another";
    event.custom_metadata = json!({ IMPORTER: why }).as_object().cloned().map(Box::new);
    Ok(Some(event))
}

/// Returns the delta from one state to another.
pub(super) fn difference(from: &Map<String, Value>, to: &Map<String, Value>) -> Result<StateDelta, Error> {
    let mut delta = StateDelta::new();
    for (key, value) in to {
        if !from.get(key).is_some_and(|old| same_value(old, value)) {
            delta.set(key, value)?;
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        delta.remove(key)?;
    }
    Ok(delta)
}

/// Returns whether two values are exactly equal: `-0.0` differs from `0.0`, and `1.0` from `1`.
pub(super) fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.to_string() == b.to_string(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_value(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Returns whether an event is a correction that an import added.
fn is_correction(event: &Event) -> bool {
    event.author == IMPORTER && event.id.starts_with(IMPORTER)
}

/// Returns whether a stored event equals the form in which the source's event would be stored.
fn same(stored: &Event, event: &Event) -> Result<bool, Error> {
    let mut prepared = prepare_event(event.clone(), &SystemEnvironment, &Limits::unlimited())?.event;
    prepared.seq = stored.seq;
    let text = |event: &Event| serde_json::to_value(event).map_err(|e| Error::internal(e.to_string()));
    Ok(same_value(&text(stored)?, &text(&prepared)?))
}
