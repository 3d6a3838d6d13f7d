//! Blame: the last writer of each key of a session's merged state.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fold;
use crate::error::Fallible;
use crate::growth::KeysAddress;
use crate::row::{lossy, named, number, sql_number};
use crate::state::scope_and_user;
use scratchbook_core::error::KeyWriter;
use scratchbook_core::plan::resolve::WrittenKey;
use scratchbook_core::session::{SessionKey, StateOwner, no_session};
use scratchbook_core::state::Scope;

/// Selects the event with a given number.
const EVENT: &str = "SELECT id, author, invocation_id, timestamp FROM events
    WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq = ?4";

/// Selects logged changes, each with the invocation id of its event if the event still exists.
const LOGGED: &str = "SELECT log.author, log.session_user, log.session_id, log.seq, log.event_id, log.time,
        coalesce((
            SELECT invocation_id FROM events
            WHERE app_name = log.app_name AND user_id = log.session_user AND session_id = log.session_id
                AND seq = log.seq AND id = log.event_id
        ), '')
    FROM state_log AS log
    WHERE log.app_name = ?1 AND log.scope = ?2 AND log.user_id = ?3 AND log.position = ?4 AND log.key = ?5";

/// Returns the writers of all keys that have a value, by prefixed key.
pub(crate) fn blame(connection: &Connection, key: &SessionKey, now: i64) -> Fallible<BTreeMap<String, KeyWriter>> {
    fold::find(connection, key, now)?.ok_or_else(|| no_session(key))?;
    let mut writers = BTreeMap::new();
    for (scope, sql) in [
        (
            Scope::Session,
            "SELECT key, seq FROM session_states
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND value IS NOT NULL",
        ),
        (
            Scope::User,
            "SELECT key, position FROM user_states WHERE app_name = ?1 AND user_id = ?2 AND value IS NOT NULL",
        ),
        (Scope::App, "SELECT key, position FROM app_states WHERE app_name = ?1 AND value IS NOT NULL"),
    ] {
        let names: Vec<_> = KeysAddress::from(key).columns(scope).collect();
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(&names))?;
        while let Some(row) = rows.next()? {
            let place = || format!("the key '{}' of {}", scope.key(&lossy(row, 0)), names.join("/"));
            let written = WrittenKey { scope, name: named(row.get(0), place)?, place: named(number(row, 1), place)? };
            let writer = match writer(connection, key, &written)? {
                Some(writer) => writer,
                // The writer's name is unknown if the event was pruned, or if the key comes from the session's
                // creation.
                None if scope == Scope::Session => {
                    KeyWriter::default().with_event(key.user_id(), key.session_id(), written.place, "")
                }
                None => KeyWriter::default(),
            };
            writers.insert(scope.key(&written.name).into_owned(), writer);
        }
    }
    Ok(writers)
}

/// Returns the writer of a key of a session's merged state at a place; `None` if it is no longer known.
pub(crate) fn writer(connection: &Connection, key: &SessionKey, written: &WrittenKey) -> Fallible<Option<KeyWriter>> {
    match written.scope {
        Scope::Session => writer_of_own(connection, key, written.place),
        Scope::User => writer_of_shared(connection, &key.user(), written),
        _ => writer_of_shared(connection, &key.app(), written),
    }
}

fn writer_of_own(connection: &Connection, key: &SessionKey, seq: u64) -> Fallible<Option<KeyWriter>> {
    let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
    let row = |row: &Row<'_>| -> rusqlite::Result<_> {
        let writer = KeyWriter::new(row.get::<_, String>(1)?).with_event(user, session, seq, row.get::<_, String>(0)?);
        Ok(writer.with_invocation(row.get::<_, String>(2)?).with_time(row.get(3)?))
    };
    let mut statement = connection.prepare_cached(EVENT)?;
    let found = statement.query_row(params![app, user, session, sql_number(seq)], row).optional();
    named(found, || format!("the event {seq} of {key}"))
}

/// Returns the writer of a user's or an app's key at a position of its log.
pub(crate) fn writer_of_shared(
    connection: &Connection,
    owner: &StateOwner,
    written: &WrittenKey,
) -> Fallible<Option<KeyWriter>> {
    let (app, (scope, user)) = (owner.app_name(), scope_and_user(owner));
    let row = |row: &Row<'_>| -> rusqlite::Result<_> {
        let writer = KeyWriter::new(row.get::<_, String>(0)?);
        let session = (row.get::<_, Option<String>>(1)?, row.get::<_, Option<String>>(2)?);
        let writer = match session {
            (Some(user), Some(id)) => writer.with_event(user, id, number(row, 3)?, row.get::<_, String>(4)?),
            _ => writer,
        };
        Ok(writer.with_time(row.get(5)?).with_invocation(row.get::<_, String>(6)?))
    };
    let mut statement = connection.prepare_cached(LOGGED)?;
    let place = sql_number(written.place);
    let found = statement.query_row(params![app, scope.as_str(), user, place, written.name], row).optional();
    named(found, || format!("who wrote '{}' of {app}/{user}", scope.key(&written.name)))
}
