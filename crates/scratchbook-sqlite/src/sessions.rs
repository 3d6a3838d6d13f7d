//! Creates, reads, updates and deletes sessions.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fallible;
use super::events::{self, EventPageQuery};
use super::growth::GrowthByScope;
use super::locate;
use super::retention;
use super::row::{named, number};
use super::state;
use super::state_log::Origin;
use super::transaction::Tx;
use scratchbook_core::error::Error;
use scratchbook_core::plan::query::StateQuery;
use scratchbook_core::plan::sql::rows::{self, described};
use scratchbook_core::plan::sql::text::{NewSession, TextMetadata};
use scratchbook_core::plan::update::PreparedUpdate;
use scratchbook_core::session::{
    LogPositions, Session, SessionKey, SessionMetadata, StateBytes, no_session, seconds_of_micros,
};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};
use scratchbook_core::store::taken;

/// Reads a session, or the requested part of it.
pub(super) fn get(
    connection: &Connection,
    key: &SessionKey,
    events: EventPageQuery,
    state: &StateQuery,
    now: i64,
) -> Fallible<Option<Session>> {
    let sql = "SELECT seq, update_time, expire_time, title, labels, create_time, bytes FROM sessions
        WHERE app_name = ?1 AND user_id = ?2 AND id = ?3 AND (expire_time IS NULL OR expire_time > ?4)";
    let address = [key.app_name(), key.user_id(), key.session_id()];
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![address[0], address[1], address[2], now], |row| {
        let (seq, times, bytes) = (number(row, 0)?, (row.get(5)?, row.get(1)?), number(row, 6)?);
        Ok((seq, times, row.get(2)?, row.get(3)?, row.get(4)?, bytes))
    });
    let place = || format!("the session {key}");
    let Some((seq, times, expires, title, labels, bytes)) = named(found.optional(), place)? else {
        return Ok(None);
    };
    let metadata = metadata(title, labels, place)?;
    let state = state::sized(connection, &key.user(), Some(address[2]), || {
        let mut left = StateBytes::MAX;
        Ok(StateMap::new(
            state::values(connection, state::SESSION_STATE, &address, state, Scope::Session, &mut left)?,
            state::values(connection, state::USER_STATE, &address[..2], state, Scope::User, &mut left)?,
            state::values(connection, state::APP_STATE, &address[..1], state, Scope::App, &mut left)?,
        ))
    })?;
    let events = events::page(connection, key, events)?;
    let session = described(key.clone(), state, times, seq).with_events(events).with_expire_time(seconds(expires));
    let session = session.with_stored_bytes(bytes);
    Ok(Some(session.with_metadata(metadata).with_log_positions(log_positions(connection)?)))
}

/// Returns the title and labels of a row.
pub(super) fn metadata(
    title: Option<String>,
    labels: Option<String>,
    of: impl Fn() -> String,
) -> Fallible<SessionMetadata> {
    Ok(rows::metadata(title.as_deref(), labels.as_deref(), of)?)
}

/// Changes a session's title, labels and expiry.
pub(super) fn update(tx: &Tx<'_>, key: &SessionKey, update: &PreparedUpdate, now: i64) -> Fallible<()> {
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let sql = "SELECT title, labels, expire_time FROM sessions
        WHERE app_name = ?1 AND user_id = ?2 AND id = ?3 AND (expire_time IS NULL OR expire_time > ?4)";
    let found =
        tx.find_row(sql, params![app, user, session, now], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (title, labels, expires) = found.ok_or_else(|| no_session(key))?;
    let metadata = self::metadata(title, labels, || format!("the session {key}"))?;
    let (metadata, expires) = update.apply(&metadata, expires)?;
    let TextMetadata { title, labels } = TextMetadata::new(metadata)?;
    tx.execute(
        "UPDATE sessions SET title = ?4, labels = ?5, expire_time = ?6
         WHERE app_name = ?1 AND user_id = ?2 AND id = ?3",
        params![app, user, session, title, labels, expires],
    )?;
    Ok(())
}

/// Returns the last feed position that this snapshot shows.
pub(super) fn log_positions(connection: &Connection) -> Fallible<LogPositions> {
    let position = connection.prepare_cached("SELECT position FROM feed")?.query_row([], |row| number(row, 0));
    Ok(LogPositions::of_feed(named(position, || "the feed's position".to_owned())?))
}

pub(super) fn seconds(micros: Option<i64>) -> Option<f64> {
    micros.map(seconds_of_micros)
}

/// Creates a session with its state and events. An expired session with the same key is deleted first. `now` is in
/// microseconds. Returns what the session shows besides its own initial state, unless it has to be read because it is
/// large or has events.
pub(super) fn create(tx: &Tx<'_>, new: &NewSession, now: i64) -> Fallible<Option<SmallState>> {
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
            new.initial.as_deref().map_or(0, events::bytes_of)
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
    // The session has no keys yet, and the number of new ones was checked before.
    for change in &new.own {
        state::insert_own(tx, key, 0, change)?;
    }
    let time = seconds_of_micros(new.created);
    let origin = Origin { position, session: Some((key, 0)), event_id: "", author: "user", time };
    let mut growth = GrowthByScope::default();
    for change in &new.shared {
        let was_there = match change.scope {
            Scope::User => state::write_shared(tx, app, Some(user), change, &origin)?,
            _ => state::write_shared(tx, app, None, change, &origin)?,
        };
        growth.add(change, was_there);
    }
    growth.check(tx, key.into(), &new.limits)?;
    for (step, event) in new.events.iter().enumerate() {
        new.deadline.check_at(step)?;
        // The events are stored even if the session expires at once.
        events::append(tx, key, event, i64::MIN)?;
    }
    let small = if new.events.is_empty() { SmallState::of(tx, new, position) } else { None };
    if small.is_none() {
        // The session is read whole when it is committed, and then it is too late to refuse it.
        state::bytes(tx.connection(), &key.user(), Some(session))?.check()?;
    }
    Ok(small)
}

/// What a session that was just created without events shows besides its own initial state.
#[derive(Debug)]
pub(super) struct SmallState {
    /// The state of its user and of its app.
    pub(super) user: ScopeMap,
    pub(super) app: ScopeMap,
    /// The size of the initial state, in bytes.
    pub(super) bytes: u64,
    /// The position of its creation in the feed.
    pub(super) position: u64,
}

impl SmallState {
    /// Returns `None` if the state is not small, because all other writes wait for this, or if it cannot be read.
    fn of(tx: &Tx<'_>, new: &NewSession, position: i64) -> Option<Self> {
        const SMALL_STATE: u64 = 4 << 10;
        let bytes = new.initial.as_ref().map_or(0, |initial| initial.len() as u64);
        let mut left = SMALL_STATE.checked_sub(bytes)?;
        let address = [new.key.app_name(), new.key.user_id()];
        let mut values = |sql, columns, scope| {
            let owner = &address[..columns];
            let is_small = state::is_small(tx.connection(), scope, owner, left).ok()?;
            is_small.then(|| state::values(tx.connection(), sql, owner, &StateQuery::All, scope, &mut left).ok())?
        };
        let (user, app) = (values(state::USER_STATE, 2, Scope::User)?, values(state::APP_STATE, 1, Scope::App)?);
        Some(Self { user, app, bytes, position: position.unsigned_abs() })
    }
}

fn check_seq(key: &SessionKey, seq: i64) -> Fallible<()> {
    match seq < 0 {
        true => Err(Error::corrupted(format!("the session {key} has the number {seq}: the row is damaged")).into()),
        false => Ok(()),
    }
}

/// Returns the number of the last event of a session, which must exist.
pub(super) fn last_seq(tx: &Tx<'_>, key: &SessionKey, now: i64) -> Fallible<i64> {
    let seq = find_last_seq(tx, key, now)?.ok_or_else(|| no_session(key))?;
    check_seq(key, seq)?;
    Ok(seq)
}

/// Returns the number of a session's last event, if the session exists.
pub(super) fn find_last_seq(tx: &Tx<'_>, key: &SessionKey, now: i64) -> Fallible<Option<i64>> {
    let sql = "SELECT seq FROM sessions
        WHERE app_name = ?1 AND user_id = ?2 AND id = ?3 AND (expire_time IS NULL OR expire_time > ?4)";
    let address = params![key.app_name(), key.user_id(), key.session_id(), now];
    tx.find_row(sql, address, |row| row.get(0))
}

/// Returns when a session was created, in microseconds.
pub(super) fn create_time(tx: &Tx<'_>, key: &SessionKey) -> Fallible<Option<i64>> {
    let sql = "SELECT create_time FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND id = ?3";
    tx.find_row(sql, params![key.app_name(), key.user_id(), key.session_id()], |row| row.get(0))
}
