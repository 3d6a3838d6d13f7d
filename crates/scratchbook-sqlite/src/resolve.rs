//! Writes that depend on stored data: they read it first, in the transaction that writes.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Row, params_from_iter};

use super::error::Fallible;
use super::events::{self, AppendResult};
use super::growth::KeysAddress;
use super::locate;
use super::past;
use super::row::{decode, named, number};
use super::sessions::{self, SmallState};
use super::state;
use super::transaction::Tx;
use scratchbook_core::error::{Error, KeyWriter};
use scratchbook_core::plan::commit::{Prepared, PreparedSession, PreparedState};
use scratchbook_core::plan::resolve::{Found, Refusal, WrittenKey};
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::session::{AppendOptions, Committed, ConflictMode, Outcome, SessionKey, StateOwner};
use scratchbook_core::state::Scope;
use scratchbook_core::store::taken;

/// Appends an event with operations, guards, optimistic locking or an update of its session.
pub(super) fn append(
    tx: &Tx<'_>,
    key: &SessionKey,
    prepared: &Prepared,
    options: &AppendOptions,
    now: i64,
) -> Fallible<Committed> {
    let last = sessions::last_seq(tx, key, now)?;
    if let Some(stored) = events::event_with_hash(tx.connection(), key, &prepared.event.id)? {
        return events::replayed(prepared, stored);
    }
    let owner = KeysOwner::of(key);
    let mut found = Found::new(last.unsigned_abs());
    if options.conflict != ConflictMode::Merge
        && let Some(created) = sessions::create_time(tx, key)?
    {
        found = found.with_create_time(created);
    }
    let reads = prepared.reads(options).map(|change| (change.scope, change.name.as_str()));
    owner.read(tx, &mut found, reads, prepared.reads_scopes(options))?;
    let resolved = match prepared.resolve(options, &found) {
        Ok(resolved) => resolved,
        Err(refusal) => return Err(owner.refused(tx, refusal)?.into()),
    };
    let new = NewEvent::new(resolved)?;
    match events::append(tx, key, &new, now)? {
        AppendResult::Stored { seq, position } => {
            if let Some(update) = &new.prepared.update {
                sessions::update(tx, key, update, now)?;
            }
            let mut event = new.prepared.event;
            event.seq = Some(seq);
            Ok(events::committed(Arc::new(event), Outcome::Stored, position))
        }
        AppendResult::Replayed(committed) => Ok(committed),
    }
}

/// Creates a session whose events contain operations.
pub(super) fn create(tx: &Tx<'_>, prepared: &PreparedSession, now: i64) -> Fallible<Option<SmallState>> {
    let key = &prepared.key;
    locate::check_new(tx, key, prepared.id_scope, now)?;
    if sessions::find_last_seq(tx, key, now)?.is_some() {
        return Err(taken(key).into());
    }
    let owner = KeysOwner::of(key);
    let mut found = Found::new(0);
    owner.read(tx, &mut found, prepared.reads().into_iter(), prepared.reads_scopes())?;
    match prepared.clone().resolve(found) {
        Ok(resolved) => sessions::create(tx, &NewSession::new(resolved)?, now),
        Err(refusal) => Err(owner.refused(tx, refusal)?.into()),
    }
}

/// Changes a user's or an app's keys with operations.
pub(super) fn put_state(
    tx: &Tx<'_>,
    of: &StateOwner,
    prepared: &PreparedState,
    author: &str,
    time: f64,
) -> Fallible<u64> {
    let owner = KeysOwner { address: of.into(), session: None };
    let mut found = Found::new(0);
    let reads = prepared.reads().map(|change| (change.scope, change.name.as_str()));
    owner.read(tx, &mut found, reads, prepared.reads_scopes())?;
    match prepared.resolve(&found) {
        Ok(resolved) => state::put_state(tx, of, &TextChange::all(&resolved)?, &prepared.limits, author, time),
        Err(refusal) => Err(owner.refused(tx, refusal)?.into()),
    }
}

/// The owner of the keys.
struct KeysOwner<'a> {
    address: KeysAddress<'a>,
    session: Option<&'a SessionKey>,
}

impl<'a> KeysOwner<'a> {
    fn of(key: &'a SessionKey) -> Self {
        Self { address: key.into(), session: Some(key) }
    }

    /// Reads the named keys, and all keys of some scopes.
    fn read<'k>(
        &self,
        tx: &Tx<'_>,
        found: &mut Found,
        keys: impl Iterator<Item = (Scope, &'k str)>,
        mut scopes: impl Iterator<Item = Scope>,
    ) -> Fallible<()> {
        for (scope, name) in keys {
            self.find(tx, found, scope, name)?;
        }
        scopes.try_for_each(|scope| self.find_all(tx, found, scope))
    }

    /// Reads a key: its value, and the place of its last write.
    fn find(&self, tx: &Tx<'_>, found: &mut Found, scope: Scope, name: &str) -> Fallible<()> {
        let place = || format!("the value of key '{}' of {}/{}", scope.key(name), self.address.app, self.address.user);
        let read = |row: &Row<'_>| -> Fallible<_> {
            let text = row.get_ref(0)?;
            let value = if text == ValueRef::Null { None } else { Some(decode(text, place)?) };
            Ok((value, named(number(row, 1), place)?))
        };
        let mut statement = tx.prepare(match scope {
            Scope::Session => {
                "SELECT value, seq FROM session_states
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND key = ?4"
            }
            Scope::User => "SELECT value, position FROM user_states WHERE app_name = ?1 AND user_id = ?2 AND key = ?3",
            _ => "SELECT value, position FROM app_states WHERE app_name = ?1 AND key = ?2",
        })?;
        let mut rows = statement.query(params_from_iter(self.address.columns(scope).chain([name])))?;
        if let Some(row) = rows.next()? {
            let (value, written) = read(row)?;
            found.insert(scope, name, value, written);
        }
        Ok(())
    }

    /// Reads all keys of a scope that have a value.
    fn find_all(&self, tx: &Tx<'_>, found: &mut Found, scope: Scope) -> Fallible<()> {
        let place = || format!("the {}'s state of {}/{}", scope.as_str(), self.address.app, self.address.user);
        let mut statement = tx.prepare(match scope {
            Scope::Session => {
                "SELECT key, value, seq FROM session_states
                 WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND value IS NOT NULL"
            }
            Scope::User => {
                "SELECT key, value, position FROM user_states
                 WHERE app_name = ?1 AND user_id = ?2 AND value IS NOT NULL"
            }
            _ => "SELECT key, value, position FROM app_states WHERE app_name = ?1 AND value IS NOT NULL",
        })?;
        let mut rows = statement.query(params_from_iter(self.address.columns(scope)))?;
        while let Some(row) = rows.next()? {
            let name: String = named(row.get(0), place)?;
            let value = decode(row.get_ref(1)?, || format!("the value of key '{}' in {}", scope.key(&name), place()))?;
            found.insert(scope, &name, Some(value), named(number(row, 2), place)?);
        }
        Ok(())
    }

    /// Returns the error for a refusal, with the writers of the conflicting keys.
    fn refused(&self, tx: &Tx<'_>, refusal: Refusal) -> Fallible<Error> {
        let writers = refusal.keys().map(|written| self.writer(tx, written)).collect::<Fallible<Vec<_>>>()?;
        Ok(refusal.into_error(writers))
    }

    fn writer(&self, tx: &Tx<'_>, written: &WrittenKey) -> Fallible<Option<KeyWriter>> {
        match (self.session, written.scope) {
            (Some(key), _) => past::writer(tx.connection(), key, written),
            (None, Scope::User) => past::writer_of_shared(
                tx.connection(),
                &StateOwner::user(self.address.app, self.address.user)?,
                written,
            ),
            (None, _) => past::writer_of_shared(tx.connection(), &StateOwner::app(self.address.app)?, written),
        }
    }
}
