//! The log of shared state: every change to the keys of users and apps.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::Fallible;
use super::row::{decode, lossy, named, number, sql_limit, sql_number, text_length};
use super::state::scope_and_user;
use super::transaction::Tx;
use scratchbook_core::plan::room::Room;
use scratchbook_core::plan::sql::rows::stored_key;
use scratchbook_core::plan::sql::text::TextChange;
use scratchbook_core::session::{PAGE_BYTES, SessionKey, StateChange, StateOwner};
use scratchbook_core::state::Scope;

/// The columns of a change, as [`change`] reads them.
pub(super) const CHANGE: &str = "position, key, version, value, session_user, session_id, seq, event_id, author, time";

/// The origin of a change to a user's or an app's key.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    pub(super) position: i64,
    pub(super) session: Option<(&'a SessionKey, i64)>,
    pub(super) event_id: &'a str,
    pub(super) author: &'a str,
    pub(super) time: f64,
}

pub(super) fn append(
    tx: &Tx<'_>,
    app: &str,
    user: Option<&str>,
    change: &TextChange,
    version: i64,
    origin: &Origin<'_>,
) -> Fallible<()> {
    let scope = if user.is_some() { Scope::User } else { Scope::App };
    let (session, seq) = origin.session.unzip();
    tx.execute(
        "INSERT INTO state_log (app_name, scope, user_id, position, key, version, value, session_user, session_id, seq,
             event_id, author, time)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            app,
            scope.as_str(),
            user.unwrap_or_default(),
            origin.position,
            change.name,
            version,
            change.value,
            session.map(SessionKey::user_id),
            session.map(SessionKey::session_id),
            seq,
            origin.event_id,
            origin.author,
            origin.time,
        ],
    )?;
    Ok(())
}

/// Returns the changes to a user's or an app's state after a position.
pub(super) fn changes(
    connection: &Connection,
    owner: &StateOwner,
    after: u64,
    limit: usize,
) -> Fallible<Vec<StateChange>> {
    let (scope, user) = scope_and_user(owner);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {CHANGE} FROM state_log
         WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND position > ?4 ORDER BY position, key"
    ))?;
    let mut rows = statement.query(params![owner.app_name(), scope.as_str(), user, sql_number(after)])?;
    let (mut changes, mut bytes): (Vec<StateChange>, u64) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let length = text_length(row, 3);
        let change = change(row, owner)?;
        let is_full = changes.len() >= limit || !changes.is_empty() && bytes + length > PAGE_BYTES;
        // A page ends between two commits, never within one.
        if is_full && changes.last().is_none_or(|last| last.position != change.position) {
            break;
        }
        bytes += length;
        changes.push(change);
    }
    Ok(changes)
}

/// Returns the changes to one key before a position, the latest first.
pub(super) fn key_changes(
    connection: &Connection,
    owner: &StateOwner,
    name: &str,
    before: u64,
    limit: usize,
) -> Fallible<Vec<StateChange>> {
    let (scope, user) = scope_and_user(owner);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {CHANGE} FROM state_log INDEXED BY state_log_by_key
         WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND key = ?4 AND position < ?5
         ORDER BY position DESC LIMIT ?6"
    ))?;
    let app = owner.app_name();
    let mut rows = statement.query(params![app, scope.as_str(), user, name, sql_number(before), sql_limit(limit)])?;
    let (mut changes, mut room) = (Vec::new(), Room::new(PAGE_BYTES));
    while let Some(row) = rows.next()? {
        if !room.takes(text_length(row, 3)) {
            break;
        }
        changes.push(change(row, owner)?);
    }
    Ok(changes)
}

/// Returns the position up to which the log of a user's or an app's state was pruned.
pub(super) fn pruned(connection: &Connection, owner: &StateOwner) -> Fallible<u64> {
    let (scope, user) = scope_and_user(owner);
    let sql = "SELECT position FROM pruned_logs WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([owner.app_name(), scope.as_str(), user], |row| number(row, 0)).optional();
    Ok(named(found, || format!("how far the log of {owner:?} was pruned"))?.unwrap_or_default())
}

/// Reads a change from the first columns of a row, which are [`CHANGE`].
pub(super) fn change(row: &Row<'_>, owner: &StateOwner) -> Fallible<StateChange> {
    let (app, (scope, user)) = (owner.app_name(), scope_and_user(owner));
    let place = || {
        let (name, position) = (lossy(row, 1), row.get::<_, i64>(0).unwrap_or_default());
        format!("the log of {}key '{name}' of {app}/{user} at position {position}", scope.prefix())
    };
    let value = match row.get_ref(3)? {
        ValueRef::Null => None,
        value => Some(decode(value, place)?),
    };
    let session = (named(row.get::<_, Option<String>>(4), place)?, named(row.get::<_, Option<String>>(5), place)?);
    let origin = match session {
        (Some(user), Some(session)) => Some((stored_key(app, &user, &session)?, named(number(row, 6), place)?)),
        _ => None,
    };
    Ok(StateChange {
        position: named(number(row, 0), place)?,
        name: named(row.get(1), place)?,
        version: named(number(row, 2), place)?,
        value,
        origin,
        event_id: named(row.get(7), place)?,
        author: named(row.get(8), place)?,
        time: named(row.get(9), place)?,
    })
}
