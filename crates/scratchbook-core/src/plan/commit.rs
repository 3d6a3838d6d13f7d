//! Writes, as pure descriptions that every store carries out.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::limits::{Limits, state_bytes};
use super::sent::{self, Completed};
use super::update::PreparedUpdate;
use super::usage::Usage;
use crate::environment::{Deadline, Environment};
use crate::error::{Error, Result};
use crate::event::{Event, check_timestamp};
use crate::json;
use crate::session::{
    CreateSessionConfig, IdScope, Outcome, PutStateOptions, SessionKey, SessionMetadata, SharedKeys, StateCheck,
    StateOwner, check_nameable, check_owner, micros_of_seconds,
};
use crate::state::{Change, MAX_KEY_BYTES, Scope, StateDelta};

/// An event prepared for storage, with everything that is written with it except its number.
///
/// If the delta has operations, the store first has to [resolve](Self::resolve) the event against the values that it
/// finds. If there is an [update](Self::update), the store applies it to the stored session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// The event, with id and timestamp and without `temp:` keys.
    pub event: Event,
    /// The event as JSON; empty while there are operations in it.
    pub text: String,
    /// The hash of the event as it was sent, together with the update if there is one. It identifies a retry.
    pub hash: [u8; 32],
    /// The session's new update time, in microseconds since 1970.
    pub micros: i64,
    /// The changes to stored keys, in the order of locking: by scope (session, user, app), and within a scope by name.
    pub changes: Vec<KeyChange>,
    /// The limits under which the event was prepared. The store checks the event's number and the number of keys per
    /// scope against them.
    pub limits: Limits,
    /// The update of the session that is written with the event.
    pub update: Option<Box<PreparedUpdate>>,
    /// The time by which the caller wants an answer. Loops over many changes end with it.
    pub deadline: Deadline,
}

/// A change to one stored key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyChange {
    /// The scope of the key; never `temp:`.
    pub scope: Scope,
    /// The key without its prefix.
    pub name: String,
    /// The change.
    pub change: Change,
}

impl KeyChange {
    pub(crate) fn new(scope: Scope, name: impl Into<String>, change: Change) -> Self {
        Self { scope, name: name.into(), change }
    }

    /// Returns the value as JSON text; `None` for a removal.
    ///
    /// # Errors
    ///
    /// `Internal` for operations, which a store has to resolve before it writes. Other errors do not occur in practice,
    /// because the value was checked when the change was prepared.
    pub fn text(&self) -> Result<Option<String>> {
        if self.change.operations().is_some() {
            let key = self.scope.key(&self.name);
            return Err(Error::internal(format!("the operations on '{key}' were not resolved; this is a defect")));
        }
        self.change.value().map(|value| json::to_text(value, "a value")).transpose()
    }
}

/// Prepares an event: checks it, sets id and timestamp, and drops `temp:` keys. Not for partial events.
///
/// # Errors
///
/// `InvalidArgument` for invalid ids, keys, values or timestamps; `PayloadTooLarge` if a limit is exceeded.
pub fn prepare_event(mut event: Event, environment: &dyn Environment, limits: &Limits) -> Result<Prepared> {
    sent::check(&mut event)?;
    let operations = take_operations(&mut event);
    let completed = Completed::complete(&mut event, environment)?;
    let mut text = json::to_text(&event, "the event")?;
    event.check_extras(&text)?;
    let hash = with_operations(completed.hasher(&event, &text)?, operations.as_ref())?;
    limits.check_event(&event.id, text.len() as u64, &event.actions.state_delta)?;
    if let Some(delta) = operations {
        event.actions.state_delta = delta;
        text.clear();
    }
    let micros = micros_of_seconds(event.timestamp.unwrap_or_default());
    let changes = key_changes(&event.actions.state_delta);
    Ok(Prepared { event, text, hash, micros, changes, limits: *limits, update: None, deadline: Deadline::current() })
}

impl Prepared {
    /// Returns what the event adds to quotas. If it has operations, this is an estimate, because their results are not
    /// known yet.
    pub(crate) fn usage(&self) -> Usage {
        let text = if self.text.is_empty() { self.text.capacity() } else { self.text.len() };
        Usage::bytes(text as u64)
    }

    /// Excludes the user's and the app's keys from the write. The event still contains them.
    fn leave_shared_keys(&mut self) -> Result<()> {
        if let Some(change) = self.changes.iter().find(|change| change.change.operations().is_some()) {
            let (key, id) = (change.scope.key(&change.name), &self.event.id);
            let message =
                format!("the event {id} has an operation on '{key}'; an event from elsewhere holds values alone");
            return Err(Error::invalid(message));
        }
        self.changes.retain(|change| change.scope == Scope::Session);
        Ok(())
    }
}

/// Returns the delta of an event if it has operations, and removes the operations from the event, because they have no
/// JSON form.
fn take_operations(event: &mut Event) -> Option<StateDelta> {
    if !event.actions.state_delta.has_operations() {
        return None;
    }
    let delta = event.actions.state_delta.clone();
    event.actions.state_delta.retain(|key| delta.get(key).is_some_and(|change| change.operations().is_none()));
    Some(delta)
}

/// Continues the hash of an event as the caller sent it. The hash covers the operations, which the event's text does not
/// contain. It does not cover their results.
fn with_operations(mut hash: Sha256, operations: Option<&StateDelta>) -> Result<[u8; 32]> {
    let operations = operations.into_iter().flat_map(StateDelta::iter);
    for (key, operations) in operations.filter_map(|(key, change)| Some((key, change.operations()?))) {
        // No JSON text contains this byte, so no event without operations has the same hash.
        hash.update([0]);
        hash.update(json::to_text(&(key, operations), "an operation")?);
    }
    Ok(hash.finalize().into())
}

/// Returns the outcome of appending an event whose id is already in its session; `stored_hash` is the hash stored
/// there.
///
/// # Errors
///
/// `AlreadyExists` if the content differs.
pub fn replay(prepared: &Prepared, stored_hash: &[u8]) -> Result<Outcome> {
    replay_of(&prepared.event.id, prepared.hash == stored_hash)
}

pub(crate) fn replay_of(event_id: &str, is_same: bool) -> Result<Outcome> {
    if is_same {
        return Ok(Outcome::Replayed);
    }
    Err(Error::new(
        crate::error::ErrorKind::AlreadyExists,
        format!("the event {event_id} is in the session already, with other content; use a new id"),
    ))
}

/// A session prepared for storage.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedSession {
    /// Its address, with a generated id if none was given.
    pub key: SessionKey,
    /// The sessions among which the id has to be unique.
    pub id_scope: IdScope,
    /// The session's own initial keys, from which its fold starts.
    pub initial: Map<String, Value>,
    /// The changes to the user's and the app's keys, by name.
    pub shared: Vec<KeyChange>,
    /// Its title and labels.
    pub metadata: SessionMetadata,
    /// The creation time, in microseconds since 1970.
    pub created: i64,
    /// The expiry time, in microseconds since 1970.
    pub expires: Option<i64>,
    /// Its initial events, without partial ones; they are accepted together or not at all.
    pub events: Vec<Prepared>,
    /// The limits under which the session was prepared. The store checks the number of keys of the user and the app
    /// against them.
    pub limits: Limits,
    /// The time by which the caller wants an answer. Loops over many events end with it.
    pub deadline: Deadline,
    pub(crate) check: Option<Arc<dyn StateCheck>>,
}

/// Prepares a session for storage.
///
/// # Errors
///
/// `InvalidArgument` for invalid ids, titles, labels, keys, values or timestamps; `AlreadyExists` for two events with
/// the same id and different content; `PayloadTooLarge` and `ResourceExhausted` if a limit is exceeded.
pub fn prepare_session(
    app_name: &str,
    user_id: &str,
    config: CreateSessionConfig,
    environment: &dyn Environment,
    limits: &Limits,
) -> Result<PreparedSession> {
    let key = new_key(app_name, user_id, config.session_id.as_deref(), environment)?;
    let metadata = SessionMetadata::new(config.title, config.labels)?;
    let state = StateDelta::try_from(config.state)?;
    let changes = key_changes(&state);
    limits.check_key_changes(&changes)?;
    let (own, shared) = changes.into_iter().partition(|change| change.scope == Scope::Session);
    let initial = own_values(own);
    let deadline = Deadline::current();
    let mut events = Vec::with_capacity(config.events.len());
    for (step, event) in config.events.into_iter().filter(|event| !event.is_partial()).enumerate() {
        deadline.check_at(step)?;
        events.push(prepare_event(event, environment, limits)?);
    }
    let shared = match config.shared_keys {
        SharedKeys::Written => shared,
        SharedKeys::Left => {
            events.iter_mut().try_for_each(Prepared::leave_shared_keys)?;
            Vec::new()
        }
    };
    limits.check_seq(check_event_ids(&events)?)?;
    let created = config.create_time.unwrap_or_else(|| environment.now());
    check_timestamp(created).map_err(|e| e.context("the time of creation"))?;
    let created = micros_of_seconds(created);
    let expires = config.expiry.map(|expiry| expiry.micros(|| environment.now())).transpose()?;
    let (limits, check, id_scope) = (*limits, config.check, config.id_scope);
    let prepared =
        PreparedSession { key, id_scope, initial, shared, metadata, created, expires, events, limits, deadline, check };
    // The results of operations are not known yet.
    if prepared.events.iter().all(|event| !event.text.is_empty()) {
        prepared.check_own_keys()?;
    }
    Ok(prepared)
}

/// Returns the address of a new session: with the given id, or with a generated id if no id or an empty id is given.
pub(super) fn new_key(
    app_name: &str,
    user_id: &str,
    session_id: Option<&str>,
    environment: &dyn Environment,
) -> Result<SessionKey> {
    let key = match session_id.map(str::trim).filter(|id| !id.is_empty()) {
        Some(id) => SessionKey::new(app_name, user_id, id),
        None => SessionKey::new(app_name, user_id, &environment.new_id()),
    }?;
    key.check_nameable()?;
    Ok(key)
}

fn own_values(changes: Vec<KeyChange>) -> Map<String, Value> {
    let values = changes.into_iter().filter_map(|KeyChange { name, change, .. }| match change {
        Change::Set(value) => Some((name, value)),
        // The initial state is given as JSON, which has no operations.
        Change::Remove | Change::Apply(_) => None,
    });
    values.collect()
}

/// Changes to a user's or an app's state, prepared for storage.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedState {
    /// The changes, by name.
    pub changes: Vec<KeyChange>,
    /// The limits under which the changes were prepared. The store checks the number of the owner's keys against them.
    pub limits: Limits,
    /// The time by which the caller wants an answer. Loops over many changes end with it.
    pub deadline: Deadline,
    pub(crate) check: Option<Arc<dyn StateCheck>>,
}

/// Prepares changes to a user's or an app's state; the names are without prefix.
///
/// # Errors
///
/// `InvalidArgument` for invalid names or values; `PayloadTooLarge` if a limit is exceeded.
pub fn prepare_state(
    owner: &StateOwner,
    delta: StateDelta,
    options: &PutStateOptions,
    limits: &Limits,
) -> Result<PreparedState> {
    delta.check()?;
    let scope = match owner {
        StateOwner::User { .. } => Scope::User,
        StateOwner::App { .. } => Scope::App,
    };
    check_owner(owner.app_name(), owner.user_id().unwrap_or_default())?;
    // What an owner has from before can be removed.
    if delta.iter().any(|(_, change)| *change != Change::Remove) {
        check_nameable("app name", owner.app_name())?;
        check_nameable("user id", owner.user_id().unwrap_or_default())?;
    }
    let mut changes = Vec::with_capacity(delta.len());
    for (name, change) in delta.iter() {
        if name.len() + scope.prefix().len() > MAX_KEY_BYTES {
            return Err(Error::invalid(format!(
                "a name of {} bytes with the prefix '{}' is longer than a key may be, {MAX_KEY_BYTES} bytes",
                name.len(),
                scope.prefix()
            )));
        }
        changes.push(KeyChange { scope, name: name.to_owned(), change: change.clone() });
    }
    changes.sort_by(|a, b| a.name.cmp(&b.name));
    limits.check_key_changes(&changes)?;
    Ok(PreparedState { changes, limits: *limits, deadline: Deadline::current(), check: options.check.clone() })
}

pub(crate) fn key_changes(delta: &StateDelta) -> Vec<KeyChange> {
    let mut changes: Vec<_> = delta
        .iter()
        .map(|(key, change)| {
            let (scope, name) = Scope::split(key);
            KeyChange { scope, name: name.to_owned(), change: change.clone() }
        })
        .filter(|change| change.scope != Scope::Temp)
        .collect();
    changes.sort_by(|a, b| (a.scope, &a.name).cmp(&(b.scope, &b.name)));
    changes
}

/// Refuses conflicting event ids before anything is written; returns the number of distinct events.
fn check_event_ids(events: &[Prepared]) -> Result<u64> {
    let mut seen = HashMap::new();
    for event in events {
        if let Some(hash) = seen.insert(event.event.id.as_str(), event.hash) {
            replay(event, &hash)?;
        }
    }
    Ok(seen.len() as u64)
}

impl PreparedSession {
    /// Returns what the session adds to quotas, as [`Prepared::usage`] does for an event.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let initial = state_bytes(self.initial.iter().map(|(name, value)| (name.as_str(), value)))?;
        let mut ids = HashSet::new();
        let events = self.events.iter().filter(|event| ids.insert(event.event.id.as_str()));
        Ok(Usage::session(initial + events.map(|event| event.usage().bytes).sum::<u64>()))
    }

    /// Refuses a session that would exceed the limit on the keys of its user or its app. This is for a store that knows
    /// the keys of the scope and their number. A store that can roll back may check each write instead.
    ///
    /// # Errors
    ///
    /// `ResourceExhausted` names the key.
    pub fn check_keys(&self, scope: Scope, count: usize, has: impl Fn(&str) -> bool) -> Result<()> {
        check_writes(&self.limits, scope, count, has, &self.shared, &self.events)
    }

    /// Refuses a session that would have too many keys of its own, all of which are known here.
    pub(super) fn check_own_keys(&self) -> Result<()> {
        let count = self.initial.len();
        if let Some((last, _)) = self.initial.iter().next_back() {
            self.limits.check_keys(Scope::Session, last, 0, count as u64)?;
        }
        check_writes(&self.limits, Scope::Session, count, |name| self.initial.contains_key(name), &[], &self.events)
    }
}

/// Checks the writes of a creation one after the other.
fn check_writes(
    limits: &Limits,
    scope: Scope,
    mut count: usize,
    has: impl Fn(&str) -> bool,
    shared: &[KeyChange],
    events: &[Prepared],
) -> Result<()> {
    let of_scope = |change: &&KeyChange| change.scope == scope;
    let mut ids = HashSet::new();
    // Duplicate events are stored once.
    let events = events.iter().filter(|event| ids.insert(event.event.id.as_str()));
    let mut written: HashMap<&str, bool> = HashMap::new();
    for changes in iter::once(shared).chain(events.map(|event| event.changes.as_slice())) {
        limits.check_changes(scope, changes, count, |name| written.get(name).copied().unwrap_or_else(|| has(name)))?;
        for KeyChange { name, change, .. } in changes.iter().filter(of_scope) {
            let is_set = matches!(change, Change::Set(_));
            let was_set = written.insert(name, is_set).unwrap_or_else(|| has(name));
            count = (count + usize::from(is_set)).saturating_sub(usize::from(was_set));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::SystemEnvironment;

    /// If the hash changed, retries of events stored by an older version would fail.
    #[test]
    fn the_hash_of_an_event_stays_what_it_is() {
        let text = r#"{"author":"agent","id":"e1","invocationId":"i","timestamp":1700000000.5,"unknown":1,
            "content":{"role":"model","parts":[{"text":"Hi"}]},
            "actions":{"stateDelta":{"a":1,"user:b":null,"temp:c":2}}}"#;
        let prepared = prepare_event(Event::from_json(text).unwrap(), &SystemEnvironment, &Limits::default()).unwrap();
        let hash: String = prepared.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "1896c4ace208e10113f339473f694cea551e48d7ddb1b919e25fbc087e6b4839", "{}", prepared.text);
    }

    /// The hash of an event with operations covers the request, in a format of its own.
    #[test]
    fn the_hash_of_operations_stays_what_it_is() {
        let delta = StateDelta::new().with("plain", 1).unwrap().with_increment("user:n", 2).unwrap();
        let delta = delta.with_append("list", "x").unwrap().with_merge_patch("map", serde_json::json!({"a": null}));
        let delta = delta.unwrap().with_set_if_absent("s", 0.5).unwrap().with_expect("e", ()).unwrap();
        let delta = delta.with_expect_absent("none").unwrap().with("none", true).unwrap();
        let mut delta = delta.with_increment("gone", -1).unwrap();
        delta.remove("gone").unwrap();
        let event = Event::new("agent").with_id("e1").with_timestamp(1_700_000_000.5).with_state_delta(delta);
        let prepared = prepare_event(event, &SystemEnvironment, &Limits::default()).unwrap();
        let hash: String = prepared.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "1bb10899ec8a495f7a9c6d894a664e11fcc989541ecc4b219971bdc852b8f93e");
        assert_eq!(prepared.text, "", "nothing that could be stored by mistake");
    }
}
