//! Measures how much is stored. SQLite knows the length of a text without reading it: `octet_length` looks at the
//! row's header.

use rusqlite::{Connection, params};

use super::error::Fallible;
use super::row::{named, number, sql_number};
use super::transaction::Tx;
use scratchbook_core::plan::usage::Usage;
use scratchbook_core::session::{SessionKey, StateOwner};

/// Returns the usage of an owner; an app includes all of its users.
pub(super) fn of_owner(connection: &Connection, owner: &StateOwner) -> Fallible<Usage> {
    let (app, user) = (owner.app_name(), owner.user_id());
    let of_user = if user.is_some() { "AND user_id = ?2" } else { "AND ?2 IS NULL" };
    let sessions = format!("SELECT count(*), coalesce(sum(bytes), 0) FROM sessions WHERE app_name = ?1 {of_user}");
    let artifacts = format!(
        "SELECT count(*), coalesce(sum(octet_length(artifact) + octet_length(custom_metadata)), 0) FROM artifacts
         WHERE app_name = ?1 {of_user}"
    );
    let place = || format!("the size of what {app} stores");
    let read = |sql: &str| {
        let mut statement = connection.prepare_cached(sql)?;
        named(statement.query_row(params![app, user], |row| Ok((number(row, 0)?, number(row, 1)?))), place)
    };
    let ((sessions, of_sessions), (artifacts, of_artifacts)) = (read(&sessions)?, read(&artifacts)?);
    Ok(Usage { bytes: of_sessions.saturating_add(of_artifacts), sessions, artifacts })
}

/// Returns the usage that a fork of a session would add. A session that does not exist is detected later.
pub(super) fn of_fork(connection: &Connection, key: &SessionKey, at: Option<u64>) -> Fallible<Usage> {
    let place = || format!("the size of the session {key}");
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let row = params![app, user, session, sql_number(at.unwrap_or(u64::MAX))];
    let events = connection.prepare_cached(&format!("SELECT {STORED}"))?.query_row(row, |row| number(row, 0));
    let artifacts = "SELECT count(*), coalesce(sum(octet_length(artifact) + octet_length(custom_metadata)), 0)
        FROM artifacts WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3";
    let artifacts = connection
        .prepare_cached(artifacts)?
        .query_row([app, user, session], |row| Ok((number(row, 0)?, number(row, 1)?)));
    let (artifacts, bytes) = named(artifacts, place)?;
    Ok(Usage { bytes: named(events, place)?.saturating_add(bytes), sessions: 1, artifacts })
}

/// The stored bytes of a session up to an event. The migration that first counted them uses the same expression.
const STORED: &str = "(
        SELECT coalesce(sum(octet_length(event)), 0) FROM events
        WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq <= ?4
    ) + coalesce((
        SELECT octet_length(state) FROM initial_states
        WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND state <> '{}'
    ), 0)";

/// Recounts the stored bytes of a session.
pub(super) fn count(tx: &Tx<'_>, key: &SessionKey) -> Fallible<()> {
    let sql = format!("UPDATE sessions SET bytes = {STORED} WHERE app_name = ?1 AND user_id = ?2 AND id = ?3");
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    tx.execute_text(&sql, params![app, user, session, i64::MAX])?;
    Ok(())
}

/// Subtracts the size of the events up to `until` before they are pruned, and adds the size of the state with which the
/// fold begins afterwards.
pub(super) fn take_off(tx: &Tx<'_>, key: &SessionKey, until: i64, state: &str) -> Fallible<()> {
    let begins = if state == "{}" { 0 } else { sql_number(state.len() as u64) };
    let sql = format!(
        "UPDATE sessions SET bytes = max(0, bytes - ({STORED}) + ?5) WHERE app_name = ?1 AND user_id = ?2 AND id = ?3"
    );
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    tx.execute_text(&sql, params![app, user, session, until, begins])?;
    Ok(())
}
