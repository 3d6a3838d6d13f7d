//! The fold of a session's events: the session's own keys after a given event, computed from a checkpoint or from the
//! state with which the fold begins.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Map;

use super::checkpoint::NewCheckpoint;
use crate::error::Fallible;
use crate::row::{decode, named, number, sql_number};
use scratchbook_core::plan::folded::{CHECKPOINT_EVENTS, Folded};
use scratchbook_core::plan::fork::check_event_number;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::session::{InitialState, SessionKey, no_session};

/// A fold collects no more checkpoints in memory once they have this many bytes.
const CHECKPOINT_BYTES: usize = 8 << 20;

/// A session's row, without its state and events.
#[derive(Debug)]
pub(crate) struct StoredSession<'k> {
    pub(crate) key: &'k SessionKey,
    /// The number of the last event.
    pub(crate) last: u64,
    /// The number of the last pruned event.
    pub(crate) base: u64,
    /// The feed position at which the fold begins.
    pub(crate) position: u64,
    pub(crate) created: i64,
    pub(crate) updated: i64,
}

/// A fold, and the missing checkpoints that were computed with it.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) folded: Folded,
    /// The number of events that were read.
    pub(crate) count: u64,
    pub(crate) missing: Vec<NewCheckpoint>,
}

/// Returns the session of a key, unless it has expired. `now` is in microseconds.
pub(crate) fn find<'k>(connection: &Connection, key: &'k SessionKey, now: i64) -> Fallible<Option<StoredSession<'k>>> {
    let sql = "SELECT sessions.seq, coalesce(initial_states.seq, 0), sessions.position, create_time, update_time
        FROM sessions LEFT JOIN initial_states
            ON initial_states.app_name = sessions.app_name AND initial_states.user_id = sessions.user_id
            AND initial_states.session_id = sessions.id
        WHERE sessions.app_name = ?1 AND sessions.user_id = ?2 AND sessions.id = ?3
            AND (expire_time IS NULL OR expire_time > ?4)";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![key.app_name(), key.user_id(), key.session_id(), now], |row| {
        Ok(StoredSession {
            key,
            last: number(row, 0)?,
            base: number(row, 1)?,
            position: number(row, 2)?,
            created: row.get(3)?,
            updated: row.get(4)?,
        })
    });
    named(found.optional(), || format!("the session {key}"))
}

/// Returns the session of a key, which must exist and have an event with this number; 0 is its creation.
pub(crate) fn find_at<'k>(
    connection: &Connection,
    key: &'k SessionKey,
    seq: u64,
    now: i64,
) -> Fallible<StoredSession<'k>> {
    let stored = find(connection, key, now)?.ok_or_else(|| no_session(key))?;
    check_event_number(key, seq, stored.base, stored.last)?;
    Ok(stored)
}

/// Returns the state with which the fold of a session's events begins. An empty state has no row.
pub(crate) fn initial(connection: &Connection, key: &SessionKey) -> Fallible<InitialState> {
    let sql = "SELECT seq, state FROM initial_states WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([key.app_name(), key.user_id(), key.session_id()])?;
    let Some(row) = rows.next()? else {
        return Ok(InitialState::new(0, Map::new()));
    };
    let place = || format!("the state at the creation of {key}");
    Ok(InitialState::new(named(number(row, 0), place)?, decode(row.get_ref(1)?, place)?))
}

impl StoredSession<'_> {
    /// Returns the fold up to an event that exists. `stop` receives the number of the events that were read and the
    /// checkpoints that are missing. If it returns true, the fold ends early.
    pub(crate) fn fold(
        &self,
        connection: &Connection,
        seq: u64,
        stop: impl Fn(u64, &[NewCheckpoint]) -> bool,
    ) -> Fallible<Fold> {
        let mut fold = Fold { folded: self.begin(connection, seq)?, count: 0, missing: Vec::new() };
        let start = fold.folded.seq;
        let mut statement = connection.prepare_cached(
            "SELECT seq, event, position FROM events
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq > ?4 AND seq <= ?5 ORDER BY seq",
        )?;
        let key = self.key;
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let mut rows = statement.query(params![app, user, session, sql_number(start), sql_number(seq)])?;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let at = named(number(row, 0), || format!("an event of {key}"))?;
            let ValueRef::Text(text) = row.get_ref(1)? else {
                return Err(damaged(format!("the event {at} of {key}")).into());
            };
            let text = str::from_utf8(text).map_err(|e| damaged(format!("the event {at} of {key}")).with_source(e))?;
            fold.folded.apply(at, text, key)?;
            if at.is_multiple_of(CHECKPOINT_EVENTS)
                && bytes < CHECKPOINT_BYTES
                && let Some(state) = fold.folded.take_checkpoint()?
            {
                bytes += state.len();
                fold.missing.push(NewCheckpoint { seq: at, position: row.get(2)?, state });
            }
            fold.count += 1;
            if stop(fold.count, &fold.missing) {
                return Ok(fold);
            }
        }
        match fold.folded.seq == seq {
            true => Ok(fold),
            false => Err(damaged(format!("the event {seq} of {key}")).into()),
        }
    }

    /// Returns the complete fold up to an event.
    pub(crate) fn folded(&self, connection: &Connection, seq: u64) -> Fallible<Folded> {
        Ok(self.fold(connection, seq, |_, _| false)?.folded)
    }

    /// Returns the start of the fold up to an event: the last checkpoint up to that event, or the initial state.
    fn begin(&self, connection: &Connection, seq: u64) -> Fallible<Folded> {
        let key = self.key;
        let mut statement = connection.prepare_cached(
            "SELECT seq, state FROM checkpoints
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq <= ?4 AND seq > ?5
             ORDER BY seq DESC LIMIT 1",
        )?;
        let (app, user, session) = (key.app_name(), key.user_id(), key.session_id());
        let mut rows = statement.query(params![app, user, session, sql_number(seq), sql_number(self.base)])?;
        let Some(row) = rows.next()? else {
            return Ok(Folded::begin(initial(connection, key)?));
        };
        let at = named(number(row, 0), || format!("a checkpoint of {key}"))?;
        let text = row
            .get_ref(1)?
            .as_str()
            .map_err(|e| damaged(format!("the checkpoint at event {at} of {key}")).with_source(e))?;
        Ok(Folded::from_checkpoint(at, text, key)?)
    }

    /// Returns the number of the last checkpoint up to an event, or of the event with which the fold begins.
    pub(crate) fn checkpoint_before(&self, connection: &Connection, seq: u64) -> Fallible<u64> {
        let key = self.key;
        let sql = "SELECT coalesce(max(seq), 0) FROM checkpoints
            WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq <= ?4";
        let mut statement = connection.prepare_cached(sql)?;
        let address = params![key.app_name(), key.user_id(), key.session_id(), sql_number(seq)];
        let found = statement.query_row(address, |row| number(row, 0));
        Ok(named(found, || format!("a checkpoint of {key}"))?.max(self.base))
    }

    /// Returns the position of an event's commit in the logs of shared state.
    pub(crate) fn position_at(&self, connection: &Connection, seq: u64) -> Fallible<u64> {
        if seq == self.base {
            return Ok(self.position);
        }
        let key = self.key;
        let sql = "SELECT coalesce(log_position, position) FROM events
            WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq = ?4";
        let mut statement = connection.prepare_cached(sql)?;
        let address = params![key.app_name(), key.user_id(), key.session_id(), sql_number(seq)];
        let place = || format!("the event {seq} of {key}");
        let found = named(statement.query_row(address, |row| number(row, 0)).optional(), place)?;
        Ok(found.ok_or_else(|| damaged(place()))?)
    }
}
