//! What a read reads. Each runs inside one transaction, on one snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::de::DeserializeOwned;

use super::error::Fallible;
use super::fold;
use scratchbook_core::event::Event;
use scratchbook_core::plan::query::{EventQuery, ListPosition, ListQuery, StateQuery, since_bounds};
use scratchbook_core::plan::room::{MOST_AT_ONCE, Room, too_much};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::plan::sql::rows::{damaged, described, stored_key};
use scratchbook_core::session::{
    Events, InitialState, ListOrder, ListSessionsResponse, LogPositions, Session, SessionKey, SessionMetadata,
    seconds_of_micros,
};
use scratchbook_core::state::{Scope, ScopeMap, StateMap};

const SESSION_STATE: &str = "SELECT key, value FROM session_states
    WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND value IS NOT NULL";
pub(super) const USER_STATE: &str =
    "SELECT key, value FROM user_states WHERE app_name = ?1 AND user_id = ?2 AND value IS NOT NULL";
pub(super) const APP_STATE: &str = "SELECT key, value FROM app_states WHERE app_name = ?1 AND value IS NOT NULL";

/// A session, or the part of it that was asked for.
pub(super) fn session(
    connection: &Connection,
    key: &SessionKey,
    events: EventPage,
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
    let mut left = events.bytes.map_or(u64::MAX, |_| MOST_AT_ONCE);
    let state = StateMap::new(
        values(connection, SESSION_STATE, &address, state, Scope::Session, &mut left)?,
        values(connection, USER_STATE, &address[..2], state, Scope::User, &mut left)?,
        values(connection, APP_STATE, &address[..1], state, Scope::App, &mut left)?,
    );
    let events = self::events(connection, key, events)?;
    let session = described(key.clone(), state, times, seq).with_events(events).with_expire_time(seconds(expires));
    let session = session.with_stored_bytes(bytes);
    Ok(Some(session.with_metadata(metadata).with_log_positions(log_positions(connection)?)))
}

/// The state with which the fold of a session's events begins.
pub(super) fn initial_state(connection: &Connection, key: &SessionKey, now: i64) -> Fallible<Option<InitialState>> {
    match fold::find(connection, key, now)? {
        Some(_) => fold::initial(connection, key).map(Some),
        None => Ok(None),
    }
}

/// A title and labels as they stand in a row.
pub(super) fn metadata(
    title: Option<String>,
    labels: Option<String>,
    of: impl Fn() -> String,
) -> Fallible<SessionMetadata> {
    Ok(rows::metadata(title.as_deref(), labels.as_deref(), of)?)
}

/// A page of sessions with their merged state.
pub(super) fn list(
    connection: &Connection,
    app_name: &str,
    query: &ListQuery,
    now: i64,
) -> Fallible<ListSessionsResponse> {
    let (page, mut token) = query.pick(places(connection, app_name, query, now)?, |listed| &listed.metadata);
    let mut of_app = MOST_AT_ONCE;
    let app = values(connection, APP_STATE, &[app_name], &StateQuery::All, Scope::App, &mut of_app)?;
    let logs = log_positions(connection)?;
    let (mut users, mut room, mut last) = (HashMap::<String, ScopeMap>::new(), Room::new(query.bytes), None);
    let mut sessions = Vec::new();
    for (place, Listed { seq, made, expires, bytes: stored, metadata }) in page {
        let ListPosition { micros, user_id, session_id } = &place;
        let key = stored_key(app_name, user_id, session_id)?;
        let address = [app_name, user_id, session_id];
        let (mut left, is_first) = (MOST_AT_ONCE, users.is_empty());
        let user = match users.get(user_id) {
            Some(user) => user.clone(),
            None => {
                let user = values(connection, USER_STATE, &address[..2], &StateQuery::All, Scope::User, &mut left)?;
                users.insert(user_id.clone(), user.clone());
                user
            }
        };
        // The state of the first session's user is in every page.
        let before = if is_first { left } else { MOST_AT_ONCE };
        let own = values(connection, SESSION_STATE, &address, &StateQuery::All, Scope::Session, &mut left)?;
        let bytes = before - left + metadata.bytes();
        if !room.takes(bytes) {
            token = last.as_ref().map(ListPosition::to_token);
            break;
        }
        let (state, micros) = (StateMap::new(own, user, app.clone()), *micros);
        last = Some(place.clone());
        let session =
            described(key, state, (made, micros), seq).with_expire_time(seconds(expires)).with_stored_bytes(stored);
        sessions.push(session.with_metadata(metadata).with_log_positions(logs));
    }
    Ok(ListSessionsResponse::new(sessions, token))
}

/// A session in a list.
struct Listed {
    seq: u64,
    made: i64,
    expires: Option<i64>,
    bytes: u64,
    metadata: SessionMetadata,
}

/// The sessions to pick a page from, in the list's order.
fn places(
    connection: &Connection,
    app_name: &str,
    query: &ListQuery,
    now: i64,
) -> Fallible<Vec<(ListPosition, Listed)>> {
    let (after, limit) = (query.start(), sql_limit(query.scan_limit()));
    let (from, way) = match query.order {
        ListOrder::OldestFirst => (">", "ASC"),
        ListOrder::NewestFirst => ("<", "DESC"),
    };
    let select = "SELECT update_time, user_id, id, seq, expire_time, title, labels, create_time, bytes FROM sessions";
    let sql = match query.user_id {
        None => format!(
            "{select}
             WHERE app_name = ?1 AND (update_time, user_id, id) {from} (?2, ?3, ?4)
                 AND (expire_time IS NULL OR expire_time > ?6)
             ORDER BY update_time {way}, user_id {way}, id {way} LIMIT ?5"
        ),
        Some(_) => format!(
            "{select}
             WHERE app_name = ?1 AND user_id = ?3 AND (update_time, id) {from} (?2, ?4)
                 AND (expire_time IS NULL OR expire_time > ?6)
             ORDER BY update_time {way}, id {way} LIMIT ?5"
        ),
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![app_name, after.micros, after.user_id, after.session_id, limit, now])?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        let of = || format!("the session {app_name}/{}/{}", lossy(row, 1), lossy(row, 2));
        let place = || -> rusqlite::Result<_> {
            let place = ListPosition { micros: row.get(0)?, user_id: row.get(1)?, session_id: row.get(2)? };
            let metadata: (_, _) = (row.get(5)?, row.get(6)?);
            Ok((place, (number(row, 3)?, number(row, 8)?), row.get(7)?, row.get(4)?, metadata))
        };
        let (place, (seq, bytes), made, expires, (title, labels)) = named(place(), of)?;
        places.push((place, Listed { seq, made, expires, bytes, metadata: metadata(title, labels, of)? }));
    }
    Ok(places)
}

/// An event as it is stored, with what tells a retry of it.
pub(super) struct StoredEvent {
    pub(super) event: Event,
    pub(super) hash: Vec<u8>,
    pub(super) position: u64,
}

/// The event of an id, if there is one.
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

/// The last feed position of what this snapshot shows.
fn log_positions(connection: &Connection) -> Fallible<LogPositions> {
    let position = connection.prepare_cached("SELECT position FROM feed")?.query_row([], |row| number(row, 0));
    Ok(LogPositions::of_feed(named(position, || "the feed's position".to_owned())?))
}

/// Which events of a session are read, and after how many bytes they end.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventPage {
    pub(super) query: EventQuery,
    pub(super) bytes: Option<u64>,
}

impl From<EventQuery> for EventPage {
    fn from(query: EventQuery) -> Self {
        Self { query, bytes: None }
    }
}

fn events(connection: &Connection, key: &SessionKey, EventPage { query, bytes }: EventPage) -> Fallible<Events> {
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

/// Events from a time on, the last `count` of them in the store's order.
///
/// Where they are few, the index on time finds them; where they are many, the last ones are soon met on the way
/// back by number, unless the clock was very wrong.
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

/// The number of the first of the last `count` events from a time on, where there are many more and it is near.
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

/// Events in the order of the statement, as many as there is room for.
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
        events.push(Arc::new(event(row, key)?));
    }
    Ok(events)
}

/// An event from its number and its text, the first two columns of a row.
pub(super) fn event(row: &Row<'_>, key: &SessionKey) -> Fallible<Event> {
    let seq = named(number(row, 0), || {
        format!("the event with the number {} of {key}", row.get::<_, i64>(0).unwrap_or_default())
    })?;
    let text = named(row.get_ref(1)?.as_str().map_err(Into::into), || format!("the event {seq} of {key}"))?;
    Ok(rows::event(sql_number(seq), text, key)?)
}

/// The values of one scope; `owner` is app, user and session, as far as the scope has them. What they have in bytes is
/// taken from `left`; if that is not enough, they are refused.
pub(super) fn values(
    connection: &Connection,
    sql: &str,
    owner: &[&str],
    query: &StateQuery,
    scope: Scope,
    left: &mut u64,
) -> Fallible<ScopeMap> {
    let mut values = ScopeMap::new();
    let mut insert = |row: &Row<'_>| -> Fallible<()> {
        *left = left.checked_sub(text_length(row, 0) + text_length(row, 1)).ok_or_else(too_much)?;
        let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from);
        let name = named(name, || format!("the key '{}' of {}", scope.key(&lossy(row, 0)), owner.join("/")))?;
        let place = || format!("the value of key '{}' of {}", scope.key(name), owner.join("/"));
        let text = named(row.get_ref(1)?.as_str().map_err(Into::into), place)?;
        Ok(rows::insert(&mut values, scope, owner, name, text)?)
    };
    match query.names(scope) {
        None => {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(owner))?;
            while let Some(row) = rows.next()? {
                insert(row)?;
            }
        }
        Some(names) => {
            let mut statement = connection.prepare_cached(&format!("{sql} AND key = ?{}", owner.len() + 1))?;
            for name in names {
                let mut rows =
                    statement.query(rusqlite::params_from_iter(owner.iter().copied().chain([name.as_str()])))?;
                while let Some(row) = rows.next()? {
                    insert(row)?;
                }
            }
        }
    }
    Ok(values)
}

/// Reads JSON text of ours.
pub(super) fn decode<T: DeserializeOwned>(text: ValueRef<'_>, place: impl Fn() -> String) -> Fallible<T> {
    let text = text.as_str().map_err(|e| damaged(place()).with_source(e))?;
    Ok(rows::json(text, place)?)
}

/// A column of a row; one that holds what is never written names its row.
pub(super) fn named<T>(column: rusqlite::Result<T>, place: impl Fn() -> String) -> Fallible<T> {
    column.map_err(|e| match e.sqlite_error_code() {
        Some(_) => e.into(),
        None => damaged(place()).with_source(e).into(),
    })
}

fn seconds(micros: Option<i64>) -> Option<f64> {
    micros.map(seconds_of_micros)
}

/// A text for a message about it.
pub(super) fn lossy(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => "?".to_owned(),
    }
}

/// How many bytes a text has.
pub(super) fn text_length(row: &Row<'_>, column: usize) -> u64 {
    row.get_ref(column).ok().and_then(|text| text.as_str().ok()).map_or(0, str::len) as u64
}

/// A column that is never negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// A count for LIMIT, where a negative one would mean all.
pub(super) fn sql_limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn sql_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
