//! Deletes sessions and users, and keeps the records of removals that the feed shows.

use rusqlite::{Connection, params};

use super::error::Fallible;
use super::row::{named, number, sql_limit};
use super::transaction::Tx;
use scratchbook_core::plan::sql::rows::removal;
use scratchbook_core::session::{FeedCommit, RemovalKind, SessionKey, StateOwner, seconds_of_micros};

/// Deletes a session and everything that belongs to it.
pub(super) fn delete(tx: &Tx<'_>, key: &SessionKey, now: i64) -> Fallible<()> {
    delete_by_columns(tx, [key.app_name(), key.user_id(), key.session_id()], RemovalKind::Deleted, now)
}

/// Does the same as [`delete`] for the columns of a key, which are not checked.
pub(super) fn delete_by_columns(tx: &Tx<'_>, address: [&str; 3], kind: RemovalKind, now: i64) -> Fallible<()> {
    let gone = "DELETE FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND id = ?3 RETURNING seq";
    let Some(last) = tx.find_row(gone, address, |row| row.get(0))? else {
        return Ok(());
    };
    for table in ["initial_states", "session_states", "events", "checkpoints", "artifacts"] {
        let sql = format!("DELETE FROM {table} WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3");
        tx.execute_text(&sql, address)?;
    }
    of_session(tx, address, kind, last, now)
}

/// Deletes a user from an app, and the user's name from the log of the app's state.
pub(super) fn delete_user(tx: &Tx<'_>, app_name: &str, user_id: &str, now: i64) -> Fallible<()> {
    let sessions = tx.execute("DELETE FROM sessions WHERE app_name = ?1 AND user_id = ?2", [app_name, user_id])?;
    let mut gone = sessions;
    gone += tx.execute(
        "DELETE FROM removals WHERE app_name = ?1 AND user_id = ?2 AND session_id <> ''",
        [app_name, user_id],
    )?;
    for table in ["initial_states", "session_states", "user_states", "events", "checkpoints", "artifacts"] {
        let sql = format!("DELETE FROM {table} WHERE app_name = ?1 AND user_id = ?2");
        gone += tx.execute_text(&sql, [app_name, user_id])?;
    }
    if gone > 0 {
        of_user(tx, app_name, user_id, sql_limit(sessions), now)?;
    }
    for table in ["state_log", "pruned_logs"] {
        let sql = format!("DELETE FROM {table} WHERE app_name = ?1 AND scope = 'user' AND user_id = ?2");
        tx.execute_text(&sql, [app_name, user_id])?;
    }
    tx.execute(
        "UPDATE state_log SET session_user = NULL, session_id = NULL, seq = NULL
         WHERE app_name = ?1 AND scope = 'app' AND session_user = ?2",
        [app_name, user_id],
    )?;
    tx.execute(
        "UPDATE state_log SET author = '' WHERE app_name = ?1 AND scope = 'app' AND author = ?2",
        [app_name, user_id],
    )?;
    Ok(())
}

/// Records that a session was removed, or that its events up to a number were removed. A record of a pruning replaces
/// only an earlier record of a pruning; any other record replaces all earlier records of the session.
pub(super) fn of_session(tx: &Tx<'_>, address: [&str; 3], kind: RemovalKind, last: i64, now: i64) -> Fallible<()> {
    let [app, user, session] = address;
    let replaced = if kind == RemovalKind::Pruned { "AND kind = 'pruned'" } else { "" };
    let sql = format!("DELETE FROM removals WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 {replaced}");
    tx.execute_text(&sql, address)?;
    insert(tx, [app, user, session], kind, last, now)
}

/// Records that a user was removed. Replaces all records about the user's sessions.
pub(super) fn of_user(tx: &Tx<'_>, app: &str, user: &str, sessions: i64, now: i64) -> Fallible<()> {
    tx.execute("DELETE FROM removals WHERE app_name = ?1 AND user_id = ?2", [app, user])?;
    insert(tx, [app, user, ""], RemovalKind::Erased, sessions, now)
}

fn insert(tx: &Tx<'_>, [app, user, session]: [&str; 3], kind: RemovalKind, count: i64, now: i64) -> Fallible<()> {
    let position = tx.next_position()?;
    tx.execute(
        "INSERT INTO removals (position, app_name, user_id, session_id, kind, count, time)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![position, app, user, session, kind.as_str(), count, now],
    )?;
    Ok(())
}

/// Returns the position up to which an app's records of removals have been deleted.
pub(super) fn deleted_until(connection: &Connection, app: &str) -> Fallible<u64> {
    let sql = "SELECT coalesce(max(position), 0) FROM removal_ends WHERE app_name = ?1";
    let found = connection.prepare_cached(sql)?.query_row([app], |row| number(row, 0));
    named(found, || format!("the end of the removals of {app}"))
}

/// Returns whether there are records of removed sessions and users from before a time.
pub(super) fn any_before(connection: &Connection, before: i64) -> Fallible<bool> {
    let sql = "SELECT EXISTS (
            SELECT 1 FROM removals INDEXED BY removals_by_time WHERE kind <> 'pruned' AND time < ?1
        )";
    Ok(connection.prepare_cached(sql)?.query_row([before], |row| row.get(0))?)
}

/// Deletes records of removals older than a time, at most `limit`, and returns their number.
pub(super) fn delete_before(tx: &Tx<'_>, before: i64, limit: usize) -> Fallible<usize> {
    let old = "SELECT position FROM removals INDEXED BY removals_by_time
        WHERE kind <> 'pruned' AND time < ?1 ORDER BY time, position LIMIT ?2";
    tx.execute_text(
        &format!(
            "INSERT INTO removal_ends (app_name, position)
             SELECT app_name, max(position) FROM removals WHERE position IN ({old}) GROUP BY app_name
             ON CONFLICT DO UPDATE SET position = max(position, excluded.position)"
        ),
        params![before, sql_limit(limit)],
    )?;
    tx.execute_text(&format!("DELETE FROM removals WHERE position IN ({old})"), params![before, sql_limit(limit)])
}

/// Returns the removals of an owner from a position on, at most `limit`.
pub(super) fn read(
    connection: &Connection,
    owner: &StateOwner,
    from: i64,
    limit: usize,
) -> Fallible<Vec<(u64, FeedCommit)>> {
    let (app, user) = (owner.app_name(), owner.user_id());
    let (index, of_user) = match user {
        Some(_) => ("removals_of_user", "AND user_id = ?3"),
        None => ("removals_of_app", "AND ?3 IS NULL"),
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT position, user_id, session_id, kind, count, time FROM removals INDEXED BY {index}
         WHERE app_name = ?1 AND position >= ?2 {of_user} ORDER BY position LIMIT ?4"
    ))?;
    let mut rows = statement.query(params![app, from, user, sql_limit(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let place = || format!("a removal in the feed of {app}");
        let position = named(number(row, 0), place)?;
        let names: [String; 3] = [named(row.get(1), place)?, named(row.get(2), place)?, named(row.get(3), place)?];
        let (count, time) = (named(number(row, 4), place)?, seconds_of_micros(named(row.get(5), place)?));
        found.push((position, FeedCommit::Removed(removal(app, names.each_ref().map(String::as_str), count, time)?)));
    }
    Ok(found)
}
