//! Appends events. A plain event takes one call. For an event with operations, the stored values are read first and
//! guarded in the append.
//!
//! The store cannot compute with encoded values, but it can compare them. So an operation is replaced by two things: a
//! guard that the stored value has not changed since it was read, and the encoded result of the operation.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::check::OpenedCheck;
use super::event::SentEvent;
use super::{Codec, Coded, Location};
use scratchbook_core::error::{ConflictCause, Error, ErrorKind, KeyConflict, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::Prepared;
use scratchbook_core::plan::resolve::Found;
use scratchbook_core::plan::update::prepare_append;
use scratchbook_core::session::{
    AppendOptions, Committed, GetSessionConfig, Outcome, SessionKey, SessionService, StateCheck, no_session,
    retry_pauses,
};
use scratchbook_core::state::{Change, Operation, Scope, StateDelta};

/// Values as they are stored, by prefixed key.
pub(super) type StoredValues = HashMap<String, Option<Value>>;

/// How many rounds of retries a write with operations gets: about 100 tries in all.
const ROUNDS: usize = 5;

/// The outcome of one try.
pub(super) enum AppendAttempt<T> {
    Answered(Result<T>),
    /// Another writer changed a value first.
    Outdated(Error),
}

impl<S: SessionService, C: Codec> Coded<S, C> {
    pub(super) async fn append_coded(
        &self,
        key: &SessionKey,
        event: Event,
        mut options: AppendOptions,
    ) -> Result<Committed> {
        if event.is_partial() {
            // The call only checks whether the store is open. The store does not need the event.
            let piece = Event { partial: Some(true), ..Event::default() };
            self.service.append(key, piece, AppendOptions::default()).await?;
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let (has_time, has_id) = (event.timestamp.is_some(), !event.id.is_empty());
        let prepared = prepare_append(event, &options, self.environment.as_ref(), &self.limits)?;
        options.update = options.update.map(|update| self.coded_update(key, update)).transpose()?;
        options.check = self.opened_check(key.app_name(), key.user_id(), options.check);
        let has_operations = prepared.text.is_empty();
        let stores_hash = has_operations || prepared.update.is_some();
        let sent = SentEvent { hash: prepared.hash, has_time, stores_hash };
        let appended = match has_operations {
            false => {
                let coded = self.coder.encode_event(key, prepared.event.clone(), sent)?;
                self.service.append(key, coded, options).await.map_err(|error| self.opened_error(key, error))
            }
            true => self.append_operations(key, &prepared, sent, options).await,
        };
        match appended {
            Ok(committed) => self.coder.open_committed(key, committed),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && has_id => {
                self.replayed(key, &prepared, has_time, error).await
            }
            Err(error) => Err(error),
        }
    }

    fn opened_error(&self, key: &SessionKey, error: Error) -> Error {
        self.coder.open_error(key.app_name(), key.user_id(), error)
    }

    async fn append_operations(
        &self,
        key: &SessionKey,
        prepared: &Prepared,
        sent: SentEvent,
        options: AppendOptions,
    ) -> Result<Committed> {
        let delta = &prepared.event.actions.state_delta;
        let names = keys_with_operations(delta);
        let _permits = self.permits.acquire(names.iter().map(|name| permit_key(key, name))).await;
        let mut outdated = None;
        for pause in std::iter::repeat_with(retry_pauses).take(ROUNDS).flatten() {
            if outdated.is_some() {
                tokio::time::sleep(pause).await;
            }
            match self.try_operations(key, prepared, &names, sent, &options).await? {
                AppendAttempt::Answered(answer) => return answer,
                AppendAttempt::Outdated(error) => outdated = Some(error),
            }
        }
        Err(outdated.unwrap_or_else(|| no_session(key)))
    }

    async fn try_operations(
        &self,
        key: &SessionKey,
        prepared: &Prepared,
        names: &[String],
        sent: SentEvent,
        options: &AppendOptions,
    ) -> Result<AppendAttempt<Committed>> {
        let config = GetSessionConfig::state_only().with_state_keys(names);
        let session = self.service.get_session(key, &config).await?.ok_or_else(|| no_session(key))?;
        let stored: StoredValues =
            names.iter().map(|name| (name.clone(), session.state().get(name).cloned())).collect();
        let mut found = Found::new(session.seq());
        for (name, value) in &stored {
            let location = Location::value(key.app_name(), key.user_id(), name);
            let value = value.as_ref().map(|value| self.coder.decode_value(value, &location)).transpose()?;
            let (scope, name) = Scope::split(name);
            found.insert(scope, name, value.map(std::borrow::Cow::into_owned), 0);
        }
        // The store runs the check in its commit.
        let mut unchecked = options.clone();
        unchecked.check = None;
        unchecked.update = None;
        let resolved = match prepared.resolve(&unchecked, &found) {
            Ok(resolved) => resolved,
            Err(refusal) => return Ok(self.refused(key, prepared, unchecked, refusal.into_error([]), &stored).await),
        };
        let mut coded = self.coder.encode_event(key, resolved.event, sent)?;
        let given = &prepared.event.actions.state_delta;
        coded.actions.state_delta = guarded(given.iter().map(|(name, _)| name), &coded.actions.state_delta, &stored)?;
        Ok(match self.service.append(key, coded, options.clone()).await {
            Err(error) if is_outdated(&error, &stored) => AppendAttempt::Outdated(self.opened_error(key, error)),
            answer => AppendAttempt::Answered(answer.map_err(|error| self.opened_error(key, error))),
        })
    }

    /// Returns the answer for an event that was refused because of the values that were read. A write that is always
    /// refused asks the store who wrote these values, whether optimistic locking refuses the event as well, and whether
    /// the event is stored already.
    async fn refused(
        &self,
        key: &SessionKey,
        prepared: &Prepared,
        options: AppendOptions,
        error: Error,
        stored: &StoredValues,
    ) -> AppendAttempt<Committed> {
        let Event { id, author, invocation_id, actions, .. } = &prepared.event;
        let probe = match always_refused(actions.state_delta.iter().map(|(key, _)| key)) {
            Ok(probe) => Event::new(author).with_id(id).with_invocation_id(invocation_id).with_state_delta(probe),
            Err(error) => return AppendAttempt::Answered(Err(error)),
        };
        match self.service.append(key, probe, options).await {
            Err(reported) if reported.kind() == ErrorKind::Conflict => {
                let outdated = shows_other_value(&reported, stored);
                let reported = self.opened_error(key, reported);
                if outdated {
                    AppendAttempt::Outdated(reported)
                } else {
                    AppendAttempt::Answered(Err(with_writers(error, &reported)))
                }
            }
            answer => AppendAttempt::Answered(answer),
        }
    }

    /// Wraps the caller's check so that the store can run it.
    pub(super) fn opened_check(
        &self,
        app: &str,
        user: &str,
        check: Option<Arc<dyn StateCheck>>,
    ) -> Option<Arc<dyn StateCheck>> {
        let (coder, app, user) = (Arc::clone(&self.coder), app.to_owned(), user.to_owned());
        check.map(|check| Arc::new(OpenedCheck { coder, app, user, check }) as Arc<dyn StateCheck>)
    }
}

/// Returns what a permit covers: a key of a session, of a user or of an app.
fn permit_key<'a>(session: &'a SessionKey, key: &'a str) -> [&'a str; 4] {
    let (app, user, id) = (session.app_name(), session.user_id(), session.session_id());
    match Scope::split(key).0 {
        Scope::App => [app, "", "", key],
        Scope::User => [app, user, "", key],
        Scope::Session | Scope::Temp => [app, user, id, key],
    }
}

/// Returns the keys of a delta that have operations.
pub(super) fn keys_with_operations(delta: &StateDelta) -> Vec<String> {
    let operated = delta.iter().filter(|(_, change)| change.operations().is_some());
    operated.map(|(key, _)| key.to_owned()).collect()
}

/// Returns the changes with guards: each key that was read must still have the value that was read.
pub(super) fn guarded<'a>(
    keys: impl Iterator<Item = &'a str>,
    changes: &StateDelta,
    stored: &StoredValues,
) -> Result<StateDelta> {
    let mut guarded = StateDelta::new();
    for key in keys {
        let known = changes.get(key);
        let Some(read) = stored.get(key) else {
            known.cloned().into_iter().try_for_each(|change| guarded.insert(key.to_owned(), change))?;
            continue;
        };
        let mut operations = vec![match read {
            Some(value) => Operation::Expect(value.clone()),
            None => Operation::ExpectAbsent,
        }];
        operations.extend(known.map(|change| match change {
            Change::Set(value) => Operation::Set(value.clone()),
            Change::Remove | Change::Apply(_) => Operation::Remove,
        }));
        guarded.insert(key.to_owned(), Change::Apply(operations))?;
    }
    Ok(guarded)
}

/// Returns a delta that every store refuses: each key would have to be both absent and present. The refusal names the
/// writer of each key.
pub(super) fn always_refused<'a>(keys: impl Iterator<Item = &'a str>) -> Result<StateDelta> {
    let mut delta = StateDelta::new();
    for key in keys {
        let never = vec![Operation::ExpectAbsent, Operation::Expect(Value::Null)];
        delta.insert(key.to_owned(), Change::Apply(never))?;
    }
    Ok(delta)
}

/// Returns whether one of our guards refused a write, because a key has changed since it was read.
pub(super) fn is_outdated(error: &Error, stored: &StoredValues) -> bool {
    let ours = |conflict: &KeyConflict| conflict.cause == ConflictCause::Guard && stored.contains_key(&conflict.key);
    error.kind() == ErrorKind::Conflict && error.conflicts().iter().any(ours)
}

/// Returns whether the value in a refusal differs from the value that was read.
pub(super) fn shows_other_value(reported: &Error, stored: &StoredValues) -> bool {
    reported.conflicts().iter().any(|found| stored.get(&found.key).is_some_and(|stored| *stored != found.found))
}

/// Completes the error for the values that were read. Adds what the store's refusal reports: the writers of the keys
/// whose guards failed, and the keys that optimistic locking refuses.
pub(super) fn with_writers(error: Error, reported: &Error) -> Error {
    let merged = reported.conflicts().iter().filter_map(|reported| match reported.cause {
        ConflictCause::Changed => Some(reported.clone()),
        ConflictCause::Guard => {
            let mut ours = error.conflicts().iter().find(|conflict| conflict.key == reported.key)?.clone();
            ours.writer.clone_from(&reported.writer);
            Some(ours)
        }
    });
    let merged: Vec<_> = merged.collect();
    if merged.is_empty() { error } else { Error::conflict(merged) }
}
