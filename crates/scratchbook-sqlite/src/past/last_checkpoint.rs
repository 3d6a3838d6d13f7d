//! The checkpoint at a session's last event. The fold at that event is the session's present state. The cost of reading
//! this state depends on its size, and not on the number of events.

use rusqlite::{Connection, params};
use serde::de::IgnoredAny;

use super::checkpoint::NewCheckpoint;
use super::fold::StoredSession;
use crate::error::Fallible;
use crate::row::{lossy, named, number, sql_number};
use scratchbook_core::json;
use scratchbook_core::plan::folded::CHECKPOINT_EVENTS;
use scratchbook_core::plan::sql::rows;

/// A lower bound on the size of an event.
const LEAST_EVENT_BYTES: u64 = 100;

/// The checkpoint at the last event, or the reason why it cannot be made from the present state.
#[derive(Debug)]
pub(super) enum LastCheckpoint {
    Checkpoint(NewCheckpoint),
    /// The checkpoint would be larger than the events since the previous one.
    TooLarge,
    /// Earlier checkpoints are missing too, and need a fold.
    Behind,
}

/// Returns the checkpoint at a session's last event. `before` is the event of the previous checkpoint, or the event at
/// which the fold begins.
pub(super) fn find(connection: &Connection, stored: &StoredSession<'_>, before: u64) -> Fallible<LastCheckpoint> {
    let seq = stored.last;
    let state = match text(connection, stored, (seq - before) * LEAST_EVENT_BYTES)? {
        Some(state) => Some(state),
        None => text(connection, stored, event_bytes(connection, stored, before)?)?,
    };
    if let Some(state) = &state
        && seq - before > CHECKPOINT_EVENTS
        && state.len() as u64 <= event_bytes(connection, stored, seq - CHECKPOINT_EVENTS)?
    {
        return Ok(LastCheckpoint::Behind);
    }
    let Some(state) = state else {
        return Ok(LastCheckpoint::TooLarge);
    };
    let key = stored.key;
    let sql = "SELECT position FROM events WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq = ?4";
    let address = params![key.app_name(), key.user_id(), key.session_id(), sql_number(seq)];
    let position = connection.prepare_cached(sql)?.query_row(address, |row| row.get(0))?;
    Ok(LastCheckpoint::Checkpoint(NewCheckpoint { seq, position, state }))
}

/// Returns the session's present state as the text of a checkpoint; `None` if it is longer than `limit`.
fn text(connection: &Connection, stored: &StoredSession<'_>, limit: u64) -> Fallible<Option<String>> {
    let key = stored.key;
    let sql = "SELECT key, seq, value FROM session_states
        WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND value IS NOT NULL";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([key.app_name(), key.user_id(), key.session_id()])?;
    let mut text = String::from("{");
    while let Some(row) = rows.next()? {
        let place = || format!("the value of key '{}' of {key}", lossy(row, 0));
        let name = named(row.get_ref(0)?.as_str().map_err(Into::into), place)?;
        let (seq, value) = (named(number(row, 1), place)?, named(row.get_ref(2)?.as_str().map_err(Into::into), place)?);
        // Damaged values must not be copied into a checkpoint.
        rows::json::<IgnoredAny>(value, place)?;
        let comma = if text.len() > 1 { "," } else { "" };
        text.push_str(&format!("{comma}{}:[{seq},{value}]", json::to_text(name, "a key")?));
        if text.len() as u64 > limit {
            return Ok(None);
        }
    }
    text.push('}');
    Ok(Some(text))
}

/// Returns the length of the texts of all events after a given one.
fn event_bytes(connection: &Connection, stored: &StoredSession<'_>, after: u64) -> Fallible<u64> {
    let key = stored.key;
    let sql = "SELECT coalesce(sum(octet_length(event)), 0) FROM events
        WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq > ?4";
    let address = params![key.app_name(), key.user_id(), key.session_id(), sql_number(after)];
    let found = connection.prepare_cached(sql)?.query_row(address, |row| number(row, 0));
    named(found, || format!("the events of {key}"))
}
