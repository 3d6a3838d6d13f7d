//! Expiry and pruning: expired sessions, old events, and overwritten changes in the log of shared state.

use rusqlite::{Connection, params};

use super::error::Fallible;
use super::past;
use super::removals;
use super::row::{sql_limit, sql_number};
use super::state::scope_and_user;
use super::transaction::Tx;
use super::usage;
use scratchbook_core::error::Error;
use scratchbook_core::json;
use scratchbook_core::session::{RemovalKind, SessionKey, StateOwner};

/// The maximum number of sessions that one commit deletes. Other writes wait for this commit.
const SESSIONS_AT_ONCE: usize = 64;
/// A commit that has deleted at least this many events deletes no further session, because other writes wait for it.
const EVENTS_AT_ONCE: u64 = 2_000;

/// Returns a condition on the rows of a table: the session of the row has not expired. `parameter` is the number of the
/// SQL parameter that contains the present time.
pub(super) fn no_session_expired(table: &str, parameter: usize) -> String {
    format!(
        "NOT EXISTS (
             SELECT 1 FROM sessions WHERE app_name = {table}.app_name AND user_id = {table}.user_id
                 AND id = {table}.session_id AND expire_time <= ?{parameter}
         )"
    )
}

/// Returns whether any session has expired.
pub(super) fn any_expired(connection: &Connection, now: i64) -> Fallible<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions INDEXED BY sessions_by_expiry WHERE expire_time <= ?1)";
    Ok(connection.prepare_cached(sql)?.query_row([now], |row| row.get(0))?)
}

/// Deletes some expired sessions and returns their number.
pub(super) fn delete_expired(tx: &Tx<'_>, now: i64, limit: usize) -> Fallible<usize> {
    let mut statement = tx.prepare(
        "SELECT app_name, user_id, id, seq FROM sessions INDEXED BY sessions_by_expiry
         WHERE expire_time <= ?1 ORDER BY expire_time LIMIT ?2",
    )?;
    let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<([String; 3], i64)> {
        Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get(3)?))
    };
    let expired = statement.query_map(params![now, sql_limit(limit.min(SESSIONS_AT_ONCE))], row)?;
    let expired = expired.collect::<rusqlite::Result<Vec<_>>>()?;
    let (mut deleted, mut events) = (0, 0);
    for ([app, user, session], seq) in &expired {
        removals::delete_by_columns(tx, [app, user, session], RemovalKind::Expired, now)?;
        deleted += 1;
        events += seq.unsigned_abs();
        if events >= EVENTS_AT_ONCE {
            break;
        }
    }
    Ok(deleted)
}

/// Deletes a session if it has expired, so that its id can be used again.
pub(super) fn delete_if_expired(tx: &Tx<'_>, key: &SessionKey, now: i64) -> Fallible<()> {
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let sql = "SELECT 1 FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND id = ?3 AND expire_time <= ?4";
    let expired = tx.find_row(sql, params![app, user, session, now], |_| Ok(()))?;
    expired.map_or(Ok(()), |()| removals::delete_by_columns(tx, [app, user, session], RemovalKind::Expired, now))
}

/// Removes the oldest events of a session, keeps their fold as the session's initial state, and returns their number.
pub(super) fn prune_events(tx: &Tx<'_>, key: &SessionKey, before: u64, limit: usize, now: i64) -> Fallible<u64> {
    let Some(stored) = past::find(tx.connection(), key, now)? else {
        return Ok(0);
    };
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let end = before.saturating_sub(1).min(stored.last);
    let until = end.min(stored.base.saturating_add(limit));
    if until <= stored.base {
        return Ok(0);
    }
    let position = stored.position_at(tx.connection(), until)?;
    let state = stored.folded(tx.connection(), until)?.into_state()?;
    let state = json::to_text(&state, "the state")?;
    let (app, user, session, seq) = (key.app_name(), key.user_id(), key.session_id(), sql_number(until));
    usage::take_off(tx, key, seq, &state)?;
    // If there was no row, the session was created without state and is not a fork, so the fold began with the
    // creation.
    tx.execute(
        "INSERT INTO initial_states (app_name, user_id, session_id, state, seq, position) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET state = excluded.state, seq = excluded.seq",
        params![app, user, session, state, seq, sql_number(stored.position)],
    )?;
    tx.execute(
        "UPDATE sessions SET position = ?4 WHERE app_name = ?1 AND user_id = ?2 AND id = ?3",
        params![app, user, session, sql_number(position)],
    )?;
    for table in ["events", "checkpoints"] {
        let sql = format!("DELETE FROM {table} WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq <= ?4");
        tx.execute_text(&sql, params![app, user, session, seq])?;
    }
    if until == end {
        // The last step recounts the remaining bytes once, because an older program may have appended events
        // without counting them.
        usage::count(tx, key)?;
    }
    removals::of_session(tx, [app, user, session], RemovalKind::Pruned, seq, now)?;
    Ok(until - stored.base)
}

/// Removes changes from the log of shared state that were overwritten before a position, and returns their number.
pub(super) fn prune_state_log(tx: &Tx<'_>, owner: &StateOwner, before: u64, limit: usize) -> Fallible<u64> {
    let (app, (scope, user)) = (owner.app_name(), scope_and_user(owner));
    let end: i64 = tx.query_row("SELECT position FROM feed", [], |row| row.get(0))?;
    // Commits after this point are not pruned.
    let before = sql_number(before).min(end.saturating_add(1));
    let removed = tx.execute(
        "DELETE FROM state_log WHERE (app_name, scope, user_id, position, key) IN (
             SELECT app_name, scope, user_id, position, key FROM state_log AS old
             WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND position < ?4 AND EXISTS (
                 SELECT 1 FROM state_log INDEXED BY state_log_by_key
                 WHERE app_name = ?1 AND scope = ?2 AND user_id = ?3 AND key = old.key
                     AND position > old.position AND position < ?4
             )
             ORDER BY position, key LIMIT ?5
         )",
        params![app, scope.as_str(), user, before, sql_limit(limit)],
    )?;
    // The log is marked as pruned from the first step on, because a partly pruned log is as incomplete as a fully
    // pruned one.
    if limit > 0 && before > 1 {
        tx.execute(
            "INSERT INTO pruned_logs (app_name, scope, user_id, position) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET position = max(position, excluded.position)",
            params![app, scope.as_str(), user, before],
        )?;
    }
    u64::try_from(removed).map_err(|_| Error::internal("more rows than there are numbers").into())
}
