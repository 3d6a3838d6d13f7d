//! What a write writes, as statements. Each runs inside a transaction that its caller commits.

use std::sync::Arc;

use rusqlite::params;

use super::error::Fallible;
use super::growth::Growth;
use super::locate;
use super::read::{self, StoredEvent, sql_limit, sql_number};
use super::removal;
use super::retention;
use super::transaction::Tx;
use scratchbook_core::error::Error;
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{Prepared, replay};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::plan::sql::text::{NewEvent, NewSession, TextChange};
use scratchbook_core::session::{
    Committed, LogPositions, Outcome, RemovalKind, SessionKey, StateOwner, no_session, seconds_of_micros,
};
use scratchbook_core::state::Scope;
use scratchbook_core::store::taken;

/// What an append did.
#[derive(Debug)]
pub(super) enum Appended {
    /// The event has this number and this feed position now.
    Stored { seq: u64, position: u64 },
    /// It was there already, like this.
    Replayed(Committed),
}

/// An event as it is stored, as an answer.
pub(super) fn committed(event: Event, outcome: Outcome, position: u64) -> Committed {
    Committed::new(Arc::new(event), outcome).with_log_positions(LogPositions::of_feed(position))
}

/// What an event whose id is there already is answered with.
pub(super) fn replayed(sent: &Prepared, stored: StoredEvent) -> Fallible<Committed> {
    let outcome = replay(sent, &stored.hash)?;
    Ok(committed(stored.event, outcome, stored.position))
}

/// Who made a change to a user's or an app's key.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    pub(super) position: i64,
    pub(super) session: Option<(&'a SessionKey, i64)>,
    pub(super) event_id: &'a str,
    pub(super) author: &'a str,
    pub(super) time: f64,
}

/// Writes what is there already, and finds room for more without taking it.
pub(super) fn nothing(tx: &Tx<'_>) -> Fallible<()> {
    let mut room = Ok(0);
    let undone = tx.savepoint(|| {
        room = tx.execute(
            "INSERT INTO app_states (app_name, key, value, version) VALUES ('', '', hex(zeroblob(16384)), 0)
             ON CONFLICT DO UPDATE SET value = excluded.value",
            [],
        );
        Err(Error::internal("undone").into())
    });
    debug_assert!(undone.is_err(), "a savepoint keeps what failed");
    room?;
    tx.execute("UPDATE feed SET position = position", []).map(drop)
}

/// Appends an event to a session that must be there, and not have expired by now, in microseconds.
pub(super) fn append(tx: &Tx<'_>, key: &SessionKey, new: &NewEvent, now: i64) -> Fallible<Appended> {
    let Prepared { event, text, hash, micros, limits, .. } = &new.prepared;
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let seq = last_seq(tx, key, now)? + 1;
    let position = tx.next_position()?;
    let time = event.timestamp.unwrap_or_default();
    let inserted = tx.execute(
        "INSERT INTO events (position, app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp,
             event)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (app_name, user_id, session_id, id) DO NOTHING",
        params![position, app, user, session, seq, event.id, hash, event.invocation_id, event.author, time, text],
    )?;
    if inserted == 0 {
        let stored = read::event_with_hash(tx.connection(), key, &event.id)?;
        let stored =
            stored.ok_or_else(|| Error::corrupted(format!("{key}: the event {} is in an index alone", event.id)))?;
        return Ok(Appended::Replayed(replayed(&new.prepared, stored)?));
    }
    limits.check_seq(seq.unsigned_abs())?;
    tx.execute(
        "UPDATE sessions SET seq = ?4, update_time = ?5, bytes = bytes + ?6
         WHERE app_name = ?1 AND user_id = ?2 AND id = ?3",
        params![app, user, session, seq, micros, bytes_of(text)],
    )?;
    let origin = Origin { position, session: Some((key, seq)), event_id: &event.id, author: &event.author, time };
    let mut growth = Growth::default();
    for change in &new.changes {
        let was_there = match change.scope {
            Scope::Session => write_own(tx, key, seq, change)?,
            Scope::User => write_user(tx, app, user, change, &origin)?,
            Scope::App | Scope::Temp => write_app(tx, app, change, &origin)?,
        };
        growth.add(change, was_there);
    }
    growth.check(tx, key.into(), limits)?;
    Ok(Appended::Stored { seq: seq.unsigned_abs(), position: position.unsigned_abs() })
}

/// What a text adds to the bytes of its session.
fn bytes_of(text: &str) -> i64 {
    sql_number(text.len() as u64)
}

/// The number of the last event of a session that must be there.
pub(super) fn last_seq(tx: &Tx<'_>, key: &SessionKey, now: i64) -> Fallible<i64> {
    let seq = find_last_seq(tx, key, now)?.ok_or_else(|| no_session(key))?;
    if seq < 0 {
        return Err(Error::corrupted(format!("the session {key} has the number {seq}: the row is damaged")).into());
    }
    Ok(seq)
}

/// The number of a session's last event, where there is such a session.
pub(super) fn find_last_seq(tx: &Tx<'_>, key: &SessionKey, now: i64) -> Fallible<Option<i64>> {
    let sql = "SELECT seq FROM sessions
        WHERE app_name = ?1 AND user_id = ?2 AND id = ?3 AND (expire_time IS NULL OR expire_time > ?4)";
    let address = params![key.app_name(), key.user_id(), key.session_id(), now];
    tx.find_row(sql, address, |row| row.get(0))
}

/// When a session was made, in microseconds.
pub(super) fn create_time(tx: &Tx<'_>, key: &SessionKey) -> Fallible<Option<i64>> {
    let sql = "SELECT create_time FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND id = ?3";
    tx.find_row(sql, params![key.app_name(), key.user_id(), key.session_id()], |row| row.get(0))
}

/// Makes a session with all it begins with. One of its address that has expired by now, in microseconds, is deleted.
pub(super) fn create(tx: &Tx<'_>, new: &NewSession, now: i64) -> Fallible<()> {
    let key = &new.key;
    locate::check_new(tx, key, new.id_scope, now)?;
    retention::delete_if_expired(tx, key, now)?;
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let position = tx.next_position()?;
    let inserted = tx.execute(
        "INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, expire_time, title, labels, position,
             bytes)
         VALUES (?1, ?2, ?3, 0, ?4, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT DO NOTHING",
        params![
            app,
            user,
            session,
            new.created,
            new.expires,
            new.metadata.title,
            new.metadata.labels,
            position,
            new.initial.as_deref().map_or(0, bytes_of)
        ],
    )?;
    if inserted == 0 {
        return Err(taken(key).into());
    }
    if let Some(initial) = &new.initial {
        let sql =
            "INSERT INTO initial_states (app_name, user_id, session_id, state, position) VALUES (?1, ?2, ?3, ?4, ?5)";
        tx.execute(sql, params![app, user, session, initial, position])?;
    }
    tx.counts().forget(key.into(), Scope::Session);
    // Nothing is there yet, and how many there may be was looked at before.
    for change in &new.own {
        insert_own(tx, key, 0, change)?;
    }
    let time = seconds_of_micros(new.created);
    let origin = Origin { position, session: Some((key, 0)), event_id: "", author: "user", time };
    let mut growth = Growth::default();
    for change in &new.shared {
        let was_there = match change.scope {
            Scope::User => write_user(tx, app, user, change, &origin)?,
            _ => write_app(tx, app, change, &origin)?,
        };
        growth.add(change, was_there);
    }
    growth.check(tx, key.into(), &new.limits)?;
    for event in &new.events {
        // One that expires at once takes them all the same.
        append(tx, key, event, i64::MIN)?;
    }
    Ok(())
}

/// Changes a user's or an app's keys outside of any session.
pub(super) fn put_state(
    tx: &Tx<'_>,
    owner: &StateOwner,
    changes: &[TextChange],
    limits: &Limits,
    author: &str,
    time: f64,
) -> Fallible<u64> {
    let position = tx.next_position()?;
    let origin = Origin { position, session: None, event_id: "", author, time };
    let mut growth = Growth::default();
    for change in changes {
        let was_there = match owner.user_id() {
            Some(user) => write_user(tx, owner.app_name(), user, change, &origin)?,
            None => write_app(tx, owner.app_name(), change, &origin)?,
        };
        growth.add(change, was_there);
    }
    growth.check(tx, owner.into(), limits)?;
    Ok(position.unsigned_abs())
}

/// Removes a session and what is its own.
pub(super) fn delete_session(tx: &Tx<'_>, key: &SessionKey, now: i64) -> Fallible<()> {
    delete(tx, [key.app_name(), key.user_id(), key.session_id()], RemovalKind::Deleted, now)
}

/// The same by the columns of an address, whatever is in them.
pub(super) fn delete(tx: &Tx<'_>, address: [&str; 3], kind: RemovalKind, now: i64) -> Fallible<()> {
    let gone = "DELETE FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND id = ?3 RETURNING seq";
    let Some(last) = tx.find_row(gone, address, |row| row.get(0))? else {
        return Ok(());
    };
    for table in ["initial_states", "session_states", "events", "checkpoints", "artifacts"] {
        let sql = format!("DELETE FROM {table} WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3");
        tx.execute_text(&sql, address)?;
    }
    removal::of_session(tx, address, kind, last, now)
}

/// Removes a user from an app, and the user's name from the app's log.
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
        removal::of_user(tx, app_name, user_id, sql_limit(sessions), now)?;
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

/// Writes a change, and says whether its key was there. A key that is known costs one statement: nothing else tells a key
/// that comes from one that changes.
fn write_own(tx: &Tx<'_>, key: &SessionKey, seq: i64, change: &TextChange) -> Fallible<bool> {
    let row = params![key.app_name(), key.user_id(), key.session_id(), change.name, change.value, seq];
    let changed = tx.execute(
        "UPDATE session_states SET value = ?5, seq = ?6
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND key = ?4 AND value IS NOT NULL",
        row,
    )?;
    if changed == 0 {
        insert_own(tx, key, seq, change)?;
    }
    Ok(changed > 0)
}

pub(super) fn insert_own(tx: &Tx<'_>, key: &SessionKey, seq: i64, change: &TextChange) -> Fallible<()> {
    tx.execute(
        "INSERT INTO session_states (app_name, user_id, session_id, key, value, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET value = excluded.value, seq = excluded.seq",
        params![key.app_name(), key.user_id(), key.session_id(), change.name, change.value, seq],
    )?;
    Ok(())
}

/// As [`write_own`], and logged.
fn write_user(tx: &Tx<'_>, app: &str, user: &str, change: &TextChange, origin: &Origin<'_>) -> Fallible<bool> {
    let row = params![app, user, change.name, change.value, origin.position];
    let known = tx.find_row(
        "UPDATE user_states SET value = ?4, version = version + 1, position = ?5
         WHERE app_name = ?1 AND user_id = ?2 AND key = ?3 AND value IS NOT NULL
         RETURNING version",
        row,
        |row| row.get(0),
    )?;
    let version = match known {
        Some(version) => version,
        None => tx.query_row(
            "INSERT INTO user_states (app_name, user_id, key, value, version, position) VALUES (?1, ?2, ?3, ?4, 1, ?5)
             ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, position = excluded.position
             RETURNING version",
            row,
            |row| row.get(0),
        )?,
    };
    log(tx, app, Some(user), change, version, origin)?;
    Ok(known.is_some())
}

/// As [`write_own`], and logged.
fn write_app(tx: &Tx<'_>, app: &str, change: &TextChange, origin: &Origin<'_>) -> Fallible<bool> {
    let row = params![app, change.name, change.value, origin.position];
    let known = tx.find_row(
        "UPDATE app_states SET value = ?3, version = version + 1, position = ?4
         WHERE app_name = ?1 AND key = ?2 AND value IS NOT NULL
         RETURNING version",
        row,
        |row| row.get(0),
    )?;
    let version = match known {
        Some(version) => version,
        None => tx.query_row(
            "INSERT INTO app_states (app_name, key, value, version, position) VALUES (?1, ?2, ?3, 1, ?4)
             ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, position = excluded.position
             RETURNING version",
            row,
            |row| row.get(0),
        )?,
    };
    log(tx, app, None, change, version, origin)?;
    Ok(known.is_some())
}

fn log(
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
