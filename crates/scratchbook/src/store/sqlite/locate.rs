//! Sessions by their ids alone.

use rusqlite::{Connection, params};

use super::error::Fallible;
use super::read::named;
use super::transaction::Tx;
use crate::session::{IdScope, SessionKey};
use crate::store::locate::{LocateQuery, taken_within};

/// Whose session has an id. Two users are enough to tell that there are several.
pub(super) fn find(connection: &Connection, query: &LocateQuery, now: i64) -> Fallible<Option<SessionKey>> {
    let mut statement = connection.prepare_cached(
        "SELECT user_id FROM sessions INDEXED BY sessions_by_id
         WHERE app_name = ?1 AND id = ?2 AND (expire_time IS NULL OR expire_time > ?3) LIMIT 2",
    )?;
    let mut rows = statement.query(params![query.app_name, query.session_id, now])?;
    let mut users: Vec<String> = Vec::new();
    while let Some(row) = rows.next()? {
        let place = || format!("the user of a session {} of {}", query.session_id, query.app_name);
        users.push(named(row.get(0), place)?);
    }
    Ok(query.pick(users)?)
}

/// Refuses a session whose id has to be a new one in its app and is not. There is one writer, so that it stays so until
/// the commit.
pub(super) fn check_new(tx: &Tx<'_>, key: &SessionKey, scope: IdScope, now: i64) -> Fallible<()> {
    if scope == IdScope::User {
        return Ok(());
    }
    let sql = "SELECT 1 FROM sessions INDEXED BY sessions_by_id
        WHERE app_name = ?1 AND id = ?2 AND (expire_time IS NULL OR expire_time > ?3) LIMIT 1";
    match tx.find_row(sql, params![key.app_name(), key.session_id(), now], |_| Ok(()))? {
        Some(()) => Err(taken_within(scope, key).into()),
        None => Ok(()),
    }
}
