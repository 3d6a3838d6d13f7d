//! The limit of SQLite: rusqlite on one thread, with the rows, indexes and settings of scratchbook.

use std::time::Instant;

use rusqlite::{Connection, ToSql, params};
use scratchbook_compare::protocol::{CellRequest, Measurement};

use super::rows::{CreatedState, EventRow, HASH, NewSessions, Writers, app};
use crate::failure::{CellFailure, Result};
use crate::measure::LatencyClock;
use crate::store::BenchStore;

/// A connection to the database of a store. The store is idle.
pub(crate) struct SqliteLimit {
    connection: Connection,
    store: BenchStore,
}

impl SqliteLimit {
    pub(super) fn open(store: BenchStore) -> Result<Self> {
        // The store sets the schema and the write-ahead log when it writes for the first time.
        store.runtime.block_on(store.kept_session(0))?;
        let connection = Connection::open(store.folder().join("sessions.db"))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -16_384)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", 2048, |_| Ok(()))?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Self { connection, store })
    }

    pub(super) fn measure(&self, request: &CellRequest) -> Result<Measurement> {
        match request.workload.as_str() {
            "append" => self.append(request),
            "create" => self.create(request),
            "get" | "get_json" | "get_recent" => self.get(request),
            _ => Err(super::unsupported(request)),
        }
    }

    /// Measures transactions that write one event to each session.
    fn append(&self, request: &CellRequest) -> Result<Measurement> {
        let addresses = self.store.runtime.block_on(super::addresses(&self.store, request))?;
        let mut writers = Writers::new(addresses, i64::try_from(request.size)?);
        let mut clock = LatencyClock::start(None);
        while clock.elapsed().as_secs_f64() < request.seconds {
            // The rows are made before the transaction, because a writer gets its events as text.
            let rows = writers.next()?;
            let started = Instant::now();
            self.transaction(|| rows.iter().try_for_each(|row| self.insert(row)))?;
            let elapsed = started.elapsed();
            clock.add(vec![elapsed; rows.len()], elapsed);
        }
        Ok(clock.measured())
    }

    /// Measures transactions that write a session with a number of keys for each task.
    fn create(&self, request: &CellRequest) -> Result<Measurement> {
        let state = CreatedState::new(request.size);
        let mut clock = LatencyClock::start(None);
        while clock.elapsed().as_secs_f64() < request.seconds {
            let NewSessions { users, ids } = NewSessions::new(request.tasks);
            let mut addresses = users.iter().zip(&ids);
            let started = Instant::now();
            self.transaction(|| addresses.try_for_each(|(user, id)| self.insert_session(user, id, &state)))?;
            let elapsed = started.elapsed();
            clock.add(vec![elapsed; ids.len()], elapsed);
        }
        Ok(clock.measured())
    }

    /// Measures reads of a session's events as text. The text is not parsed.
    fn get(&self, request: &CellRequest) -> Result<Measurement> {
        let session = self.store.runtime.block_on(self.store.kept_session(request.size))?;
        let count: i64 = if request.workload == "get_recent" { 10 } else { i64::MAX };
        let mut clock = LatencyClock::start(None);
        while clock.elapsed().as_secs_f64() < request.seconds {
            let started = Instant::now();
            let mut statement = self.connection.prepare_cached(
                "SELECT event FROM events WHERE app_name = ?1 AND user_id = ?2 AND session_id = ?3
                 ORDER BY seq DESC LIMIT ?4",
            )?;
            let mut rows = statement.query(params![app(), session.user_id(), session.id(), count])?;
            let mut texts: Vec<String> = Vec::new();
            while let Some(row) = rows.next()? {
                texts.push(row.get(0)?);
            }
            if texts.len() as u64 != request.size.min(count.unsigned_abs()) {
                return Err(CellFailure::new(format!("{} events were read", texts.len())));
            }
            clock.add_one(started.elapsed());
        }
        Ok(clock.measured())
    }

    fn transaction(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        self.run("BEGIN IMMEDIATE", params![])?;
        write()?;
        self.run("COMMIT", params![])
    }

    fn insert(&self, row: &EventRow) -> Result<()> {
        let (app, user, session) = (app(), &row.user, &row.session);
        let time = 1_700_000_000.0 + row.seq as f64;
        self.run("UPDATE feed SET position = position + 1", params![])?;
        self.run(
            "INSERT INTO events (position, app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp,
                 event)
             VALUES ((SELECT position FROM feed), ?1, ?2, ?3, ?4, ?5, ?6, 'e-0', 'agent', ?7, ?8)",
            params![app, user, session, row.seq, row.id, HASH, time, row.text],
        )?;
        self.run(
            "UPDATE sessions SET seq = ?4, update_time = ?5, bytes = bytes + ?6
             WHERE app_name = ?1 AND user_id = ?2 AND id = ?3",
            params![app, user, session, row.seq, (time * 1e6) as i64, row.text.len() as i64],
        )?;
        self.run(
            "INSERT INTO session_states (app_name, user_id, session_id, key, value, seq) VALUES (?1, ?2, ?3, 'step', ?4, ?5)
             ON CONFLICT DO UPDATE SET value = excluded.value, seq = excluded.seq",
            params![app, user, session, row.value, row.seq],
        )?;
        self.run(
            "INSERT INTO user_states (app_name, user_id, key, value, version, position)
             VALUES (?1, ?2, 'step', ?3, 1, (SELECT position FROM feed))
             ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, position = excluded.position",
            params![app, user, row.value],
        )?;
        self.run(
            "INSERT INTO state_log (app_name, scope, user_id, position, key, version, value, session_user, session_id, seq,
                 event_id, author, time)
             VALUES (?1, 'user', ?2, (SELECT position FROM feed), 'step', ?4, ?3, ?2, ?5, ?4, ?6, 'agent', ?7)",
            params![app, user, row.value, row.seq, session, row.id, time],
        )
    }

    fn insert_session(&self, user: &str, id: &str, state: &CreatedState) -> Result<()> {
        self.run("UPDATE feed SET position = position + 1", params![])?;
        self.run(
            "INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, position, bytes)
             VALUES (?1, ?2, ?3, 0, 1700000000000000, 1700000000000000, (SELECT position FROM feed), ?4)",
            params![app(), user, id, state.text.len() as i64],
        )?;
        self.run(
            "INSERT INTO initial_states (app_name, user_id, session_id, state, position)
             VALUES (?1, ?2, ?3, ?4, (SELECT position FROM feed))",
            params![app(), user, id, state.text],
        )?;
        for (key, value) in state.keys.iter().zip(&state.values) {
            self.run(
                "INSERT INTO session_states (app_name, user_id, session_id, key, value, seq)
                 VALUES (?1, ?2, ?3, ?4, ?5, 0)",
                params![app(), user, id, key, value],
            )?;
        }
        Ok(())
    }

    fn run(&self, sql: &str, params: &[&dyn ToSql]) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }
}
