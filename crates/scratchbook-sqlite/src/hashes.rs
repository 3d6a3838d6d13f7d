//! The hashes of events, for seals.

use rusqlite::{Connection, params};

use super::error::Fallible;
use super::past;
use super::row::{named, number, sql_limit, sql_number};
use scratchbook_core::plan::text_hash;
use scratchbook_core::session::{EventHash, EventHashes, SessionKey};

/// Returns the hashes of a session's events after a number. `now` is in microseconds.
pub(super) fn page(
    connection: &Connection,
    key: &SessionKey,
    after: u64,
    limit: usize,
    now: i64,
) -> Fallible<Option<EventHashes>> {
    let Some(stored) = past::find(connection, key, now)? else {
        return Ok(None);
    };
    let mut statement = connection.prepare_cached(
        "SELECT seq, id, hash, event FROM events
         WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq > ?4 ORDER BY seq LIMIT ?5",
    )?;
    let address = params![key.app_name(), key.user_id(), key.session_id(), sql_number(after), sql_limit(limit)];
    let mut rows = statement.query(address)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = named(number(row, 0), || format!("an event of {key}"))?;
        let place = || format!("the event {seq} of {key}");
        let id: String = named(row.get(1), place)?;
        let sent = named(row.get(2), place)?;
        let text = named(row.get_ref(3)?.as_str().map_err(Into::into), place)?;
        events.push(EventHash::new(seq, id, sent, text_hash(text)));
    }
    Ok(Some(EventHashes::new(stored.base, stored.last).with_events(events)))
}
