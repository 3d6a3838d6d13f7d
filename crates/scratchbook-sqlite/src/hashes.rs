//! The running hash of events: reading it for verification, and computing it for events that have none.

use rusqlite::{Connection, Row, params};

use super::error::Fallible;
use super::row::{named, number, sql_limit, sql_number};
use super::transaction::Tx;
use scratchbook_core::plan::running_hash::{StoredStart, Unhashed, text_hash};
use scratchbook_core::session::{EventHash, EventHashes, RunningHash, SessionKey};

/// The maximum number of sessions that get running hashes in one commit. Other writes wait for this commit.
const SESSIONS_AT_ONCE: usize = 64;

/// What the rows of a session contain about its running hash.
#[derive(Debug)]
pub(super) struct HashedSession {
    pub(super) last: u64,
    pub(super) hashed: u64,
    pub(super) head: Option<RunningHash>,
    pub(super) start: StoredStart,
}

/// Returns the running hash in a column.
pub(super) fn running(row: &Row<'_>, column: usize, place: impl Fn() -> String) -> Fallible<Option<RunningHash>> {
    let bytes = named(row.get_ref(column)?.as_blob_or_null().map_err(Into::into), &place)?;
    Ok(RunningHash::stored(bytes, place)?)
}

/// Returns the bytes of a hash for a column.
pub(super) fn column(hash: Option<RunningHash>) -> Option<[u8; 32]> {
    hash.map(|hash| *hash.as_bytes())
}

/// Finds a session that has not expired. `now` is in microseconds.
pub(super) fn find(connection: &Connection, key: &SessionKey, now: i64) -> Fallible<Option<HashedSession>> {
    let mut statement = connection.prepare_cached(
        "SELECT s.seq, s.hashed_seq, s.running_hash, coalesce(i.seq, 0), i.running_hash, coalesce(i.hashed_seq, 0)
         FROM sessions AS s LEFT JOIN initial_states AS i
             ON i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id
         WHERE s.app_name = ?1 AND s.user_id = ?2 AND s.id = ?3 AND (s.expire_time IS NULL OR s.expire_time > ?4)",
    )?;
    let mut rows = statement.query(params![key.app_name(), key.user_id(), key.session_id(), now])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let place = || format!("the session {key}");
    let number = |column| named(number(row, column), place);
    let start = StoredStart { base: number(3)?, hash: running(row, 4, place)?, hashed: number(5)? };
    // The column is -1 in a session without a running hash.
    let hashed = named(row.get::<_, i64>(1), place)?.max(0).unsigned_abs();
    Ok(Some(HashedSession { last: number(0)?, hashed, head: running(row, 2, place)?, start }))
}

/// Returns the hashes of a session's events after a number.
pub(super) fn page(
    connection: &Connection,
    key: &SessionKey,
    after: u64,
    limit: usize,
    now: i64,
) -> Fallible<Option<EventHashes>> {
    let Some(HashedSession { last, hashed, head, start }) = find(connection, key, now)? else {
        return Ok(None);
    };
    let page = EventHashes::new(start.base, start.hash(key), last, hashed).with_head(head);
    Ok(Some(page.with_events(events(connection, key, after, limit)?)))
}

fn events(connection: &Connection, key: &SessionKey, after: u64, limit: usize) -> Fallible<Vec<EventHash>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, event, hash, running_hash FROM events
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq > ?4 ORDER BY seq LIMIT ?5",
    )?;
    let address = params![key.app_name(), key.user_id(), key.session_id(), sql_number(after), sql_limit(limit)];
    let (mut rows, mut events) = (statement.query(address)?, Vec::new());
    while let Some(row) = rows.next()? {
        let seq = named(number(row, 0), || format!("an event of {key}"))?;
        let place = || format!("the event {seq} of {key}");
        let text = named(row.get_ref(1)?.as_str().map_err(Into::into), place)?;
        let sent = named(row.get(2), place)?;
        events.push(EventHash::new(seq, sent, text_hash(text), running(row, 3, place)?));
    }
    Ok(events)
}

/// Computes the running hash of at most `limit` events that have none, and returns their number. 0 means that there are
/// no more.
pub(super) fn fill(tx: &Tx<'_>, limit: usize) -> Fallible<u64> {
    let mut filled = 0;
    for key in unhashed(tx)? {
        let left = limit.saturating_sub(usize::try_from(filled).unwrap_or(usize::MAX));
        if left == 0 {
            break;
        }
        filled += fill_session(tx, &key, left)?;
    }
    Ok(filled)
}

/// Returns some of the sessions with events that have no running hash.
fn unhashed(tx: &Tx<'_>) -> Fallible<Vec<SessionKey>> {
    let mut statement = tx.prepare(
        "SELECT app_name, user_id, id FROM sessions INDEXED BY sessions_unhashed WHERE hashed_seq < seq LIMIT ?1",
    )?;
    let mut rows = statement.query([sql_limit(SESSIONS_AT_ONCE)])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let [app, user, id]: [String; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
        keys.push(scratchbook_core::plan::sql::rows::stored_key(&app, &user, &id)?);
    }
    Ok(keys)
}

/// Computes the running hash of a session's next events. If events are missing, the hash skips the gap, and
/// verification reports the gap.
fn fill_session(tx: &Tx<'_>, key: &SessionKey, limit: usize) -> Fallible<u64> {
    let Some(HashedSession { last, hashed, head, start }) = find(tx.connection(), key, i64::MIN)? else {
        return Ok(0);
    };
    let Unhashed { after, hash, is_start } = Unhashed::find(key, hashed, head, start);
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    if is_start {
        tx.execute(
            "UPDATE initial_states SET running_hash = ?4, hashed_seq = seq
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3",
            params![app, user, session, hash.as_bytes()],
        )?;
    }
    let events = events(tx.connection(), key, after, limit)?;
    let (mut reached, mut running) = (after, hash);
    for event in &events {
        (reached, running) = (event.seq, running.next(event.seq, &event.sent, &event.text));
        tx.execute(
            "UPDATE events SET running_hash = ?5
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq = ?4",
            params![app, user, session, sql_number(reached), running.as_bytes()],
        )?;
    }
    // The last events may be missing.
    let reached = if events.len() < limit { last } else { reached };
    tx.execute(
        "UPDATE sessions SET hashed_seq = ?4, running_hash = ?5 WHERE app_name = ?1 AND user_id = ?2 AND id = ?3",
        params![app, user, session, sql_number(reached), running.as_bytes()],
    )?;
    Ok((events.len() as u64).max(1))
}
