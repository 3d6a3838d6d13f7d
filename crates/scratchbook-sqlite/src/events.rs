//! Appends an event to a session, and reads a session's events.

use std::sync::Arc;

use rusqlite::{Connection, Params, Row, params};

use super::error::Fallible;
use super::growth::GrowthByScope;
use super::row::{named, number, sql_limit, sql_number, text_length};
use super::sessions;
use super::state;
use super::state_log::Origin;
use super::transaction::Tx;
use scratchbook_core::error::Error;
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::{Prepared, replay};
use scratchbook_core::plan::query::{EventQuery, since_bounds};
use scratchbook_core::plan::room::Room;
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::text::NewEvent;
use scratchbook_core::session::{Committed, Events, LogPositions, Outcome, SessionKey};
use scratchbook_core::state::Scope;

/// The result of an append.
#[derive(Debug)]
pub(super) enum AppendResult {
    /// The event is stored under this number and feed position.
    Stored { seq: u64, position: u64 },
    /// The event was already stored, as shown here.
    Replayed(Committed),
}

/// Returns the answer for an event that is stored.
pub(super) fn committed(event: Arc<Event>, outcome: Outcome, position: u64) -> Committed {
    Committed::new(event, outcome).with_log_positions(LogPositions::of_feed(position))
}

/// Returns the answer for an event whose id is already in the session.
pub(super) fn replayed(sent: &Prepared, stored: StoredEvent) -> Fallible<Committed> {
    let outcome = replay(sent, &stored.hash)?;
    Ok(committed(stored.event, outcome, stored.position))
}

/// Appends an event to a session, which must exist and not be expired. `now` is in microseconds.
pub(super) fn append(tx: &Tx<'_>, key: &SessionKey, new: &NewEvent, now: i64) -> Fallible<AppendResult> {
    let Prepared { event, text, hash, micros, limits, .. } = &new.prepared;
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let seq = sessions::last_seq(tx, key, now)? + 1;
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
        let stored = event_with_hash(tx.connection(), key, &event.id)?;
        let stored =
            stored.ok_or_else(|| Error::corrupted(format!("{key}: the event {} is in an index alone", event.id)))?;
        return Ok(AppendResult::Replayed(replayed(&new.prepared, stored)?));
    }
    limits.check_seq(seq.unsigned_abs())?;
    tx.execute(
        "UPDATE sessions SET seq = ?4, update_time = ?5, bytes = bytes + ?6
         WHERE app_name = ?1 AND user_id = ?2 AND id = ?3",
        params![app, user, session, seq, micros, bytes_of(text)],
    )?;
    let origin = Origin { position, session: Some((key, seq)), event_id: &event.id, author: &event.author, time };
    let mut growth = GrowthByScope::default();
    for (step, change) in new.changes.iter().enumerate() {
        new.prepared.deadline.check_at(step)?;
        let was_there = match change.scope {
            Scope::Session => state::write_own(tx, key, seq, change)?,
            Scope::User => state::write_shared(tx, app, Some(user), change, &origin)?,
            Scope::App | Scope::Temp => state::write_shared(tx, app, None, change, &origin)?,
        };
        growth.add(change, was_there);
    }
    growth.check(tx, key.into(), limits)?;
    Ok(AppendResult::Stored { seq: seq.unsigned_abs(), position: position.unsigned_abs() })
}

/// Returns the number of bytes that a text adds to its session.
pub(super) fn bytes_of(text: &str) -> i64 {
    sql_number(text.len() as u64)
}

/// A stored event, with the hash by which a retry is recognized.
pub(super) struct StoredEvent {
    pub(super) event: Arc<Event>,
    pub(super) hash: Vec<u8>,
    pub(super) position: u64,
}

/// Returns the event with an id, if there is one.
pub(super) fn event_with_hash(connection: &Connection, key: &SessionKey, id: &str) -> Fallible<Option<StoredEvent>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, event, hash, coalesce(log_position, position) FROM events
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND id = ?4",
    )?;
    let mut rows = statement.query([key.app_name(), key.user_id(), key.session_id(), id])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(StoredEvent { event: event(row, key)?, hash: row.get(2)?, position: number(row, 3)? }))
}

/// Which events of a session to read, and after how many bytes to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventPageQuery {
    pub(super) query: EventQuery,
    pub(super) bytes: Option<u64>,
}

impl From<EventQuery> for EventPageQuery {
    fn from(query: EventQuery) -> Self {
        Self { query, bytes: None }
    }
}

pub(super) fn page(
    connection: &Connection,
    key: &SessionKey,
    EventPageQuery { query, bytes }: EventPageQuery,
) -> Fallible<Events> {
    const ALL: usize = usize::MAX;
    let room = Room::new(bytes.unwrap_or(u64::MAX));
    match query {
        EventQuery::None => Ok(Events::default()),
        EventQuery::All => ascending(connection, key, 0, ALL, room),
        EventQuery::Last(count) => descending(connection, key, u64::MAX, count, room),
        EventQuery::After(seq, limit) => ascending(connection, key, seq, limit, room),
        EventQuery::Before(seq, limit) => descending(connection, key, seq, limit, room),
        EventQuery::Since(seconds, count) => since(connection, key, seconds, count.unwrap_or(ALL), room),
    }
}

fn ascending(connection: &Connection, key: &SessionKey, after: u64, limit: usize, room: Room) -> Fallible<Events> {
    let sql = "SELECT seq, event FROM events
        WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq > ?4 ORDER BY seq LIMIT ?5";
    let page = params![key.app_name(), key.user_id(), key.session_id(), sql_number(after), sql_limit(limit)];
    select(connection, key, sql, page, room).map(Events::from_iter)
}

fn descending(connection: &Connection, key: &SessionKey, before: u64, limit: usize, room: Room) -> Fallible<Events> {
    let sql = "SELECT seq, event FROM events
        WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq < ?4 ORDER BY seq DESC LIMIT ?5";
    let page = params![key.app_name(), key.user_id(), key.session_id(), sql_number(before), sql_limit(limit)];
    Ok(select(connection, key, sql, page, room)?.into_iter().rev().collect())
}

/// Returns the last `count` events from a time on, in the store's order.
///
/// If there are few such events, the index on time finds them. If there are many, they are found quickly by walking
/// back from the last event, unless the clock was very wrong.
fn since(connection: &Connection, key: &SessionKey, seconds: f64, count: usize, room: Room) -> Fallible<Events> {
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    if let Some(first) = first_since(connection, key, seconds, count)? {
        let sql = "SELECT seq, event FROM events
            WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq >= ?4 AND timestamp >= ?5
            ORDER BY seq DESC";
        let events = select(connection, key, sql, params![app, user, session, first, seconds], room)?;
        return Ok(events.into_iter().rev().collect());
    }
    let sql = "SELECT seq, event FROM events WHERE position IN (
            SELECT position FROM events INDEXED BY events_by_time
            WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND timestamp >= ?4
            ORDER BY seq DESC LIMIT ?5
        )
        ORDER BY seq DESC";
    let events = select(connection, key, sql, params![app, user, session, seconds, sql_limit(count)], room)?;
    Ok(events.into_iter().rev().collect())
}

/// Finds the last `count` events from a time on by walking back from the last event, and returns the number of the
/// first of them. Returns `None` if there are few such events, or if they are not near the end.
fn first_since(connection: &Connection, key: &SessionKey, seconds: f64, count: usize) -> Fallible<Option<i64>> {
    let Some((many, far)) = since_bounds(count) else {
        return Ok(None);
    };
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let sql = "SELECT count(*) FROM (
            SELECT 1 FROM events INDEXED BY events_by_time
            WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND timestamp >= ?4 LIMIT ?5
        )";
    let many = sql_limit(many);
    let matches: i64 =
        connection.prepare_cached(sql)?.query_row(params![app, user, session, seconds, many], |row| row.get(0))?;
    if matches < many {
        return Ok(None);
    }
    let mut back = connection.prepare_cached(
        "SELECT seq, timestamp FROM events WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3
         ORDER BY seq DESC LIMIT ?4",
    )?;
    let mut rows = back.query(params![app, user, session, sql_limit(far)])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        found += usize::from(row.get::<_, f64>(1)? >= seconds);
        if found == count {
            return Ok(Some(row.get(0)?));
        }
    }
    Ok(None)
}

/// Reads events in the order of the statement, as many as fit in `room`.
fn select(
    connection: &Connection,
    key: &SessionKey,
    sql: &str,
    params: impl Params,
    mut room: Room,
) -> Fallible<Vec<Arc<Event>>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        if !room.takes(text_length(row, 1)) {
            break;
        }
        events.push(event(row, key)?);
    }
    Ok(events)
}

/// Reads an event from its number and its text, the first two columns of a row.
pub(super) fn event(row: &Row<'_>, key: &SessionKey) -> Fallible<Arc<Event>> {
    let seq = named(number(row, 0), || {
        format!("the event with the number {} of {key}", row.get::<_, i64>(0).unwrap_or_default())
    })?;
    let text = named(row.get_ref(1)?.as_str().map_err(Into::into), || format!("the event {seq} of {key}"))?;
    Ok(rows::event(sql_number(seq), text, key)?)
}
