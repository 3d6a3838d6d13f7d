//! Forks a session: copies its events, state and artifacts to a new session inside the file.

use rusqlite::params;

use super::error::Fallible;
use super::past::{self, StoredSession};
use super::retention;
use super::row::sql_number;
use super::state;
use super::transaction::Tx;
use super::usage;
use scratchbook_core::json;
use scratchbook_core::plan::fork::check_event_number;
use scratchbook_core::plan::sql::text::TextChange;
use scratchbook_core::session::{SessionKey, micros_of_seconds, no_session};
use scratchbook_core::state::Scope;
use scratchbook_core::store::taken;

/// A fork of a session at one of its events.
struct SessionFork<'a> {
    of: &'a StoredSession<'a>,
    key: &'a SessionKey,
    at: u64,
    /// The feed position of the creation. The events take the positions after it.
    position: i64,
}

/// Forks a session at one of its events, by default the last. `now` is in microseconds.
pub(super) fn fork(tx: &Tx<'_>, of: &SessionKey, key: &SessionKey, at: Option<u64>, now: i64) -> Fallible<()> {
    let stored = past::find(tx.connection(), of, now)?.ok_or_else(|| no_session(of))?;
    let at = at.unwrap_or(stored.last);
    check_event_number(of, at, stored.base, stored.last)?;
    retention::delete_if_expired(tx, key, now)?;
    let events = at - stored.base;
    let fork = SessionFork { of: &stored, key, at, position: tx.take_positions(1 + sql_number(events))? };
    let updated = fork.updated(tx)?;
    let inserted = tx.execute(
        "INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, title, labels, position)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, title, labels, ?7 FROM sessions WHERE app_name = ?1 AND user_id = ?2 AND id = ?8
         ON CONFLICT DO NOTHING",
        params![
            key.app_name(),
            key.user_id(),
            key.session_id(),
            sql_number(at),
            now,
            updated,
            sql_number(stored.position),
            of.session_id()
        ],
    )?;
    if inserted == 0 {
        return Err(taken(key).into());
    }
    tx.counts().forget(key.into(), Scope::Session);
    fork.copy_beginning(tx)?;
    fork.copy_events(tx)?;
    fork.copy_state(tx)?;
    fork.copy_artifacts(tx)?;
    // The fork is read whole when it is committed, and then it is too late to refuse it.
    state::bytes(tx.connection(), &key.user(), Some(key.session_id()))?.check()?;
    usage::count(tx, key)
}

impl SessionFork<'_> {
    /// Returns the update time of the fork: the original's if the whole session is copied, otherwise the time of the
    /// last copied event.
    fn updated(&self, tx: &Tx<'_>) -> Fallible<i64> {
        if self.at == self.of.last {
            return Ok(self.of.updated);
        }
        let sql = "SELECT timestamp FROM events WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq = ?4";
        let key = self.of.key;
        let address = params![key.app_name(), key.user_id(), key.session_id(), sql_number(self.at)];
        let found: Option<f64> = tx.find_row(sql, address, |row| row.get(0))?;
        Ok(found.map_or(self.of.created, micros_of_seconds))
    }

    fn copy_beginning(&self, tx: &Tx<'_>) -> Fallible<()> {
        let (from, to) = (self.of.key, self.key.session_id());
        tx.execute(
            "INSERT INTO initial_states (app_name, user_id, session_id, state, seq, position, forked_at)
             SELECT ?1, ?2, ?4, coalesce(state, '{}'), coalesce(seq, 0), ?5, ?6
             FROM (SELECT 1) LEFT JOIN initial_states ON app_name = ?1 AND user_id = ?2 AND session_id = ?3",
            params![from.app_name(), from.user_id(), from.session_id(), to, self.position, sql_number(self.at)],
        )?;
        tx.execute(
            "INSERT INTO checkpoints (app_name, user_id, session_id, seq, state)
             SELECT app_name, user_id, ?4, seq, state FROM checkpoints
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq <= ?5",
            params![from.app_name(), from.user_id(), from.session_id(), to, sql_number(self.at)],
        )?;
        Ok(())
    }

    /// Copies the events. The feed does not show the copies; `log_position` is the position of each original.
    fn copy_events(&self, tx: &Tx<'_>) -> Fallible<()> {
        let (from, to) = (self.of.key, self.key.session_id());
        tx.execute(
            "INSERT INTO events (position, app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp,
                 event, log_position)
             SELECT ?5 + seq - ?6, app_name, user_id, ?4, seq, id, hash, invocation_id, author, timestamp, event,
                 coalesce(log_position, position)
             FROM events WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq <= ?7 ORDER BY seq",
            params![
                from.app_name(),
                from.user_id(),
                from.session_id(),
                to,
                self.position,
                sql_number(self.of.base),
                sql_number(self.at)
            ],
        )?;
        Ok(())
    }

    /// Copies the state. Keys that were written after the fork's event get their earlier value by replaying events;
    /// the others are copied.
    fn copy_state(&self, tx: &Tx<'_>) -> Fallible<()> {
        let (from, to) = (self.of.key, self.key.session_id());
        if self.at < self.of.last {
            for (name, (seq, value)) in self.of.folded(tx.connection(), self.at)?.keys {
                let value = Some(json::to_text(&value, "a value")?);
                let change = TextChange { scope: Scope::Session, name, value };
                state::insert_own(tx, self.key, sql_number(seq), &change)?;
            }
        }
        tx.execute(
            "INSERT INTO session_states (app_name, user_id, session_id, key, value, seq)
             SELECT app_name, user_id, ?4, key, value, seq FROM session_states
             WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3 AND seq <= ?5
             ON CONFLICT DO UPDATE SET value = excluded.value, seq = excluded.seq",
            params![from.app_name(), from.user_id(), from.session_id(), to, sql_number(self.at)],
        )?;
        Ok(())
    }

    fn copy_artifacts(&self, tx: &Tx<'_>) -> Fallible<()> {
        let (from, to) = (self.of.key, self.key.session_id());
        tx.execute(
            "INSERT INTO artifacts (app_name, user_id, session_id, filename, version, mime_type, custom_metadata,
                 create_time, artifact)
             SELECT app_name, user_id, ?4, filename, version, mime_type, custom_metadata, create_time, artifact
             FROM artifacts WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3",
            params![from.app_name(), from.user_id(), from.session_id(), to],
        )?;
        Ok(())
    }
}
