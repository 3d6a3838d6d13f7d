//! Writes that depend on stored values: operations, guards, checks, and optimistic locking.
//!
//! A store locks and reads the keys named here, resolves the write against the values it finds, and then writes it like
//! any other, all in one commit. If the write is refused, the store looks up the writers of the conflicting keys.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::commit::{KeyChange, Prepared, PreparedSession, PreparedState};
use crate::environment::{Deadline, STEPS};
use crate::error::{ConflictCause, Error, ErrorKind, KeyConflict, KeyWriter, Result};
use crate::json;
use crate::session::{AppendOptions, CheckedWrite, ConflictMode, StateCheck, micros_of_seconds};
use crate::state::{Change, Refused, Resolution, Scope, StateDelta};

/// The values that a store has found in its commit: the session's number and creation time, and the keys to be read.
#[derive(Debug, Default)]
pub struct Found {
    seq: u64,
    /// The creation time, in microseconds since 1970.
    created: Option<i64>,
    /// The keys found, by name with prefix.
    keys: HashMap<String, FoundKey>,
}

#[derive(Debug, Default)]
struct FoundKey {
    value: Option<Value>,
    place: u64,
}

impl Found {
    /// Creates the values for a session whose last event has this number: 0 if it has no events, and for state outside
    /// of any session.
    #[must_use]
    pub fn new(seq: u64) -> Self {
        Self { seq, created: None, keys: HashMap::new() }
    }

    /// Sets the session's creation time, in microseconds since 1970; a store reads it if [`AppendOptions::conflict`] is
    /// not `Merge`.
    #[must_use]
    pub fn with_create_time(mut self, micros: i64) -> Self {
        self.created = Some(micros);
        self
    }

    /// Adds a key: its value, `None` if it is absent or was removed, and the place of its last write or removal. The
    /// place is the number of an event of the session, or a position in the user's or the app's log. A key that was
    /// never written may be left out.
    pub fn insert(&mut self, scope: Scope, name: &str, value: Option<Value>, place: u64) {
        self.keys.insert(scope.key(name).into_owned(), FoundKey { value, place });
    }

    /// Returns the existing keys of a scope, by name.
    fn values(&self, scope: Scope) -> BTreeMap<&str, &Value> {
        let present = self.keys.iter().filter_map(|(key, found)| Some((Scope::split(key), found.value.as_ref()?)));
        present.filter(|((of, _), _)| *of == scope).map(|((_, name), value)| (name, value)).collect()
    }

    fn write(&mut self, change: &KeyChange) {
        self.insert(change.scope, &change.name, change.change.value().cloned(), 0);
    }
}

impl Prepared {
    /// Whether the write needs no stored values. The following methods are for all other writes.
    #[must_use]
    pub fn is_plain(&self, options: &AppendOptions) -> bool {
        options.conflict == ConflictMode::Merge
            && !self.text.is_empty()
            && self.update.is_none()
            && self.reads_scopes(options).next().is_none()
    }

    /// Returns about how many bytes the event has, without its operations, whose results are not known.
    pub fn bytes(&self) -> usize {
        // Clearing a text keeps its capacity.
        self.text.capacity()
    }

    /// Returns the keys that a store locks and reads before it resolves the event, in the order of locking.
    pub fn reads<'a>(&'a self, options: &'a AppendOptions) -> impl Iterator<Item = &'a KeyChange> {
        self.changes.iter().filter(|change| match options.conflict {
            ConflictMode::Merge => change.change.operations().is_some(),
            ConflictMode::ByKey => true,
            // The session's keys are read so that the error can name those that have changed.
            ConflictMode::BySession => change.scope == Scope::Session || change.change.operations().is_some(),
        })
    }

    /// Returns the scopes whose existing keys a store reads completely, under its locks, in addition to the keys of
    /// [`reads`](Self::reads). The scopes are in the order session, user, app.
    pub fn reads_scopes(&self, options: &AppendOptions) -> impl Iterator<Item = Scope> {
        needed(options.check.as_ref(), &self.changes).into_iter().flatten()
    }

    /// Applies the event's operations to the values found; the result is written like any other event.
    ///
    /// The store first checks whether the event's id is already in the session: a retry is answered with the stored
    /// event.
    ///
    /// # Errors
    ///
    /// The error that refuses the write; nothing may be written then.
    pub fn resolve(&self, options: &AppendOptions, found: &Found) -> Result<Self, Refusal> {
        let moved = has_moved(options, found);
        let late = |change: &KeyChange, key: &str, found: &FoundKey| match options.conflict {
            ConflictMode::ByKey => found.place > options.seen.place(key),
            ConflictMode::BySession => {
                moved.is_some() && change.scope == Scope::Session && found.place > options.seen.place(key)
            }
            ConflictMode::Merge => false,
        };
        let changes = resolve_changes(&self.changes, found, self.deadline, late);
        let changes = match (moved, changes) {
            (None, changes) => changes?,
            (Some(moved), Ok(_)) => return Err(Refusal { moved: Some(moved), ..Refusal::default() }),
            (Some(moved), Err(refusal)) => return Err(Refusal { moved: Some(moved), ..refusal }),
        };
        check(options.check.as_ref(), &changes, found)?;
        if !self.text.is_empty() {
            return Ok(self.clone());
        }
        let mut event = self.event.clone();
        event.actions.state_delta = resolved_delta(&self.event.actions.state_delta, &changes)?;
        let text = json::to_text(&event, "the event")?;
        self.limits.check_event(&event.id, text.len() as u64, &event.actions.state_delta)?;
        Ok(Self { event, text, changes, update: self.update.clone(), ..*self })
    }
}

impl PreparedSession {
    /// Whether the write needs no stored values. The following methods are for all other writes.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let own = self.initial.keys().any(|name| self.needs_scope(Scope::Session, name));
        !own && self.events.iter().all(|event| !event.text.is_empty())
            && !self.changes().any(|change| self.needs_scope(change.scope, &change.name))
    }

    fn needs_scope(&self, scope: Scope, name: &str) -> bool {
        self.check.as_ref().is_some_and(|check| check.needs_scope(scope, name))
    }

    fn changes(&self) -> impl Iterator<Item = &KeyChange> {
        self.shared.iter().chain(self.events.iter().flat_map(|event| &event.changes))
    }

    pub fn bytes(&self) -> usize {
        self.events.iter().map(Prepared::bytes).sum()
    }

    /// Returns the keys of the user and the app that a store locks and reads before it resolves the session: scopes and
    /// names without prefix, in the order of locking.
    #[must_use]
    pub fn reads(&self) -> BTreeSet<(Scope, &str)> {
        let changes = self.events.iter().flat_map(|event| &event.changes);
        let shared = changes.filter(|change| change.scope != Scope::Session && change.change.operations().is_some());
        shared.map(|change| (change.scope, change.name.as_str())).collect()
    }

    /// Returns the scopes whose existing keys a store reads completely, in addition to the keys of
    /// [`reads`](Self::reads). The user's scope comes before the app's.
    pub fn reads_scopes(&self) -> impl Iterator<Item = Scope> {
        let shared = [Scope::User, Scope::App].into_iter();
        shared.filter(|scope| self.changes().any(|c| c.scope == *scope && self.needs_scope(c.scope, &c.name)))
    }

    /// Applies the operations of the session's events, one event after the other; the result is written like any other
    /// session.
    ///
    /// # Errors
    ///
    /// The error that refuses the write; nothing may be written then.
    pub fn resolve(mut self, mut found: Found) -> Result<Self, Refusal> {
        let given = self.initial.iter();
        let given = given.map(|(name, value)| KeyChange::new(Scope::Session, name, Change::Set(value.clone())));
        let given: Vec<_> = given.chain(self.shared.iter().cloned()).collect();
        check(self.check.as_ref(), &given, &found)?;
        let options = AppendOptions { check: self.check.clone(), ..AppendOptions::default() };
        // The creation's own writes have no place, so no writer is looked up for them.
        self.initial.iter().for_each(|(name, value)| found.insert(Scope::Session, name, Some(value.clone()), 0));
        self.shared.iter().for_each(|change| found.write(change));
        let mut ids = HashSet::new();
        let mut events = Vec::with_capacity(self.events.len());
        for (step, event) in self.events.into_iter().enumerate() {
            self.deadline.check_at(step)?;
            // Duplicate events are stored once.
            if !ids.insert(event.event.id.clone()) {
                continue;
            }
            let event = match event.text.is_empty() || options.check.is_some() {
                true => event.resolve(&options, &found)?,
                false => event,
            };
            event.changes.iter().for_each(|change| found.write(change));
            events.push(event);
        }
        self.events = events;
        self.check_own_keys()?;
        Ok(self)
    }
}

impl PreparedState {
    /// Whether the write needs no stored values. The following methods are for all other writes.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.reads().next().is_none() && self.reads_scopes().next().is_none()
    }

    /// Returns the keys that a store locks and reads before it resolves the changes.
    pub fn reads(&self) -> impl Iterator<Item = &KeyChange> {
        self.changes.iter().filter(|change| change.change.operations().is_some())
    }

    /// Returns the owner's scope, if a store has to read its existing keys completely, in addition to the keys of
    /// [`reads`](Self::reads).
    pub fn reads_scopes(&self) -> impl Iterator<Item = Scope> {
        needed(self.check.as_ref(), &self.changes).into_iter().flatten()
    }

    /// Applies the operations to the values found.
    ///
    /// # Errors
    ///
    /// The error that refuses the write; nothing may be written then.
    pub fn resolve(&self, found: &Found) -> Result<Vec<KeyChange>, Refusal> {
        let changes = resolve_changes(&self.changes, found, self.deadline, |_, _, _| false)?;
        check(self.check.as_ref(), &changes, found)?;
        self.limits.check_key_changes(&changes)?;
        Ok(changes)
    }
}

/// Returns the scopes whose keys a check needs completely for these changes; `None` if there is no check.
fn needed(check: Option<&Arc<dyn StateCheck>>, changes: &[KeyChange]) -> Option<impl Iterator<Item = Scope>> {
    let check = check?;
    let needs = move |scope: Scope| changes.iter().any(|c| c.scope == scope && check.needs_scope(scope, &c.name));
    Some([Scope::Session, Scope::User, Scope::App].into_iter().filter(move |scope| needs(*scope)))
}

/// Runs a check on the results of a write.
fn check(check: Option<&Arc<dyn StateCheck>>, changes: &[KeyChange], found: &Found) -> Result<()> {
    let Some(asked) = check.filter(|_| !changes.is_empty()) else {
        return Ok(());
    };
    let known = changes.iter().map(|change| (change.scope, change.name.as_str(), change.change.value()));
    let scopes = needed(check, changes).into_iter().flatten();
    asked.check(&scopes.fold(CheckedWrite::new(known), |write, scope| write.with_scope(scope, found.values(scope))))
}

fn resolve_changes(
    changes: &[KeyChange],
    found: &Found,
    deadline: Deadline,
    late: impl Fn(&KeyChange, &str, &FoundKey) -> bool,
) -> Result<Vec<KeyChange>, Refusal> {
    let mut resolved = Vec::with_capacity(changes.len());
    let mut refusal = Refusal::default();
    let absent = FoundKey::default();
    for (step, change) in changes.iter().enumerate() {
        deadline.check_at(step)?;
        let key = change.scope.key(&change.name);
        let stored = found.keys.get(key.as_ref()).unwrap_or(&absent);
        let mut refuse = |conflict| {
            let written = WrittenKey { scope: change.scope, name: change.name.clone(), place: stored.place };
            refusal.keys.push((written, conflict));
        };
        if late(change, &key, stored) {
            refuse(KeyConflict::new(key, ConflictCause::Changed, stored.value.clone()));
            continue;
        }
        let known = match &change.change {
            Change::Apply(operations) => {
                let mut resolution = Resolution::new(stored.value.as_ref().map(Cow::Borrowed));
                let mut applied = Ok(());
                for some in operations.chunks(STEPS) {
                    deadline.check()?;
                    applied = applied.and_then(|()| resolution.apply(&key, some));
                }
                applied.map(|()| resolution.into_change())
            }
            known => Ok(Some(known.clone())),
        };
        match known {
            Ok(known) => resolved.extend(known.map(|known| KeyChange { change: known, ..change.clone() })),
            Err(Refused::Guard(conflict)) => refuse(*conflict),
            Err(Refused::Impossible(error)) => refusal.impossible = refusal.impossible.or(Some(error)),
        }
    }
    if refusal.keys.is_empty() && refusal.impossible.is_none() { Ok(resolved) } else { Err(refusal) }
}

/// Returns the delta with the results of its operations, with its keys in the order of `delta`.
fn resolved_delta(delta: &StateDelta, changes: &[KeyChange]) -> Result<StateDelta> {
    let mut resolved = StateDelta::new();
    for (key, _) in delta.iter() {
        let (scope, name) = Scope::split(key);
        let place = changes.binary_search_by(|change| (change.scope, change.name.as_str()).cmp(&(scope, name)));
        if let Ok(place) = place {
            resolved.insert(key.to_owned(), changes[place].change.clone())?;
        }
    }
    Ok(resolved)
}

/// Returns a message if the session is not as the writer has seen it. If it was created at another time, or has fewer
/// events, it was deleted and created again.
fn has_moved(options: &AppendOptions, found: &Found) -> Option<String> {
    let read = options.seen.create_time().map(micros_of_seconds);
    if options.conflict != ConflictMode::Merge && read.zip(found.created).is_some_and(|(read, now)| read != now) {
        return Some("the session was deleted and made anew since it was read".to_owned());
    }
    let (seen, now) = (options.seen.seq(), found.seq);
    let moved = match options.conflict {
        ConflictMode::Merge => false,
        ConflictMode::ByKey => now < seen,
        ConflictMode::BySession => now != seen,
    };
    moved.then(|| format!("the session's last event has the number {now}, and had {seen} when it was read"))
}

/// A refused write, before the writers of the conflicting keys are looked up.
#[derive(Debug, Default)]
pub struct Refusal {
    moved: Option<String>,
    keys: Vec<(WrittenKey, KeyConflict)>,
    impossible: Option<Error>,
}

/// A key and the place of its last write.
#[derive(Debug)]
pub struct WrittenKey {
    /// The scope of the key.
    pub scope: Scope,
    /// The key without its prefix.
    pub name: String,
    /// The place that the store has found: the number of an event of the session, 0 for its creation; or a position in
    /// the log of the user's or the app's state, 0 for a key that was never written.
    pub place: u64,
}

impl Refusal {
    /// Returns the conflicting keys.
    pub fn keys(&self) -> impl Iterator<Item = &WrittenKey> {
        self.keys.iter().map(|(written, _)| written)
    }

    /// Builds the error from the writers of [`keys`](Self::keys), in the same order.
    #[must_use]
    pub fn into_error(self, writers: impl IntoIterator<Item = Option<KeyWriter>>) -> Error {
        let mut writers = writers.into_iter();
        let complete = |(_, conflict)| KeyConflict { writer: writers.next().flatten(), ..conflict };
        let conflicts: Vec<_> = self.keys.into_iter().map(complete).collect();
        match (self.moved, self.impossible) {
            (Some(moved), _) if conflicts.is_empty() => {
                Error::new(ErrorKind::Conflict, format!("{moved}; read it again, then try again"))
            }
            (Some(moved), _) => Error::conflict(conflicts).context(moved),
            (None, Some(error)) if conflicts.is_empty() => error,
            (None, _) => Error::conflict(conflicts),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { impossible: Some(error), ..Self::default() }
    }
}
