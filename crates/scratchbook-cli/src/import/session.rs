//! A session goes into the store whole, in one commit, unless it is very long. One that is there already
//! is compared event by event, and what is missing at its end is added.

use std::sync::Arc;

use scratchbook::plan::prepare_event;
use scratchbook::{
    AppendOptions, CreateSessionConfig, Error, ErrorKind, Event, GetSessionConfig, Limits, Scope, SessionKey,
    StateDelta, SystemEnvironment,
};
use serde_json::{Map, Value, json};

use super::report::Written;
use super::source::{IMPORTER, PAGE};
use crate::database::Database;
use crate::failure::Failure;

/// How many events a session may have that is written in one commit.
pub(super) const WHOLE: usize = 10_000;

/// Writes one session, page by page.
pub(super) struct SessionWriter<'a> {
    database: &'a Database,
    key: SessionKey,
    /// How the session is made, until it is there.
    config: Option<CreateSessionConfig>,
    /// The events of the session that is there, of which this is the next page.
    there: Vec<Arc<Event>>,
    /// The number of the last event in `there`, or of the last that was written.
    seq: u64,
    written: Written,
    /// How many of the source's events were written.
    count: u64,
}

impl<'a> SessionWriter<'a> {
    /// Looks whether the session is there.
    pub(super) async fn new(
        database: &'a Database,
        key: &SessionKey,
        config: CreateSessionConfig,
    ) -> Result<Self, Failure> {
        let mut writer = Self {
            database,
            key: key.clone(),
            config: None,
            there: Vec::new(),
            seq: 0,
            written: Written::Nothing,
            count: 0,
        };
        match writer.read().await? {
            Some(()) => {}
            None => {
                writer.written = Written::Created;
                writer.config = Some(config.with_session_id(key.session_id()));
            }
        }
        Ok(writer)
    }

    /// A session that is there has to have begun with this state; where its first events were pruned, nobody knows.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` where it began with another.
    pub(super) async fn compare_beginning(&self, state: &Value) -> Result<(), Failure> {
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

    /// Whether nothing of it was there.
    pub(super) fn is_new(&self) -> bool {
        self.written == Written::Created
    }

    /// Takes the next events of the source: those that are there have to be the same, the others are written.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` where another event is there in the place of one of these.
    pub(super) async fn events(&mut self, events: Vec<Event>) -> Result<(), Failure> {
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

    /// Makes the session with the events that were gathered for it.
    async fn create(&mut self) -> Result<(), Failure> {
        if let Some(config) = self.config.take() {
            let count = config.events.iter().filter(|event| !is_correction(event)).count() as u64;
            let (app, user) = (self.key.app_name(), self.key.user_id());
            self.seq = self.database.sessions.create_session(app, user, config).await?.seq();
            self.count = count;
        }
        Ok(())
    }

    /// Whether the event is there already, as the next one. What an earlier import added of its own is passed over.
    async fn compare(&mut self, event: &Event) -> Result<bool, Failure> {
        loop {
            if self.there.is_empty() && self.written == Written::Nothing {
                self.read().await?;
            }
            let Some(next) = self.there.pop() else { return Ok(false) };
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

    /// Reads the next events that are there, the first of them last.
    async fn read(&mut self) -> Result<Option<()>, Failure> {
        let config = GetSessionConfig::default().without_state().with_events_after(self.seq, PAGE);
        let Some(session) = self.database.sessions.get_session(&self.key, &config).await? else { return Ok(None) };
        self.there = session.events().iter().rev().cloned().collect();
        self.seq = self.there.first().and_then(|last| last.seq).unwrap_or(self.seq);
        Ok(Some(()))
    }

    async fn append(&mut self, event: Event) -> Result<(), Failure> {
        let committed = self.database.sessions.append(&self.key, event, AppendOptions::default()).await?;
        self.seq = committed.event.seq.unwrap_or(self.seq);
        self.count += u64::from(!is_correction(&committed.event));
        // From here on nothing more is there: what follows is written without looking.
        if self.written == Written::Nothing {
            self.written = Written::Completed;
        }
        Ok(())
    }

    /// Ends the session: where it has no event more than the source, its own keys are made what they are there. Gives
    /// also how many of the source's events were written.
    pub(super) async fn finish(mut self, state: Option<(&Map<String, Value>, f64)>) -> Result<(Written, u64), Failure> {
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

    /// Whether somebody went on with the session after it was imported.
    async fn has_moved_on(&mut self) -> Result<bool, Failure> {
        if self.there.is_empty() && self.written == Written::Nothing {
            self.read().await?;
        }
        Ok(self.there.iter().any(|event| !is_correction(event)))
    }
}

/// The event that makes a state what it is in the source, where it is another.
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

/// The changes that lead from one state to another.
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

/// Whether two values are one, bit for bit: `-0.0` is not `0.0`, nor `1.0` `1`.
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

/// Whether an event is one that an import has added of its own.
fn is_correction(event: &Event) -> bool {
    event.author == IMPORTER && event.id.starts_with(IMPORTER)
}

/// Whether a stored event is the one that would be stored.
fn same(stored: &Event, event: &Event) -> Result<bool, Error> {
    let mut prepared = prepare_event(event.clone(), &SystemEnvironment, &Limits::unlimited())?.event;
    prepared.seq = stored.seq;
    let text = |event: &Event| serde_json::to_value(event).map_err(|e| Error::new(ErrorKind::Internal, e.to_string()));
    Ok(same_value(&text(stored)?, &text(&prepared)?))
}
