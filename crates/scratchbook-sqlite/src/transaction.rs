//! Write transactions. Several writes share one, each with its own savepoint.

use std::cell::Cell;
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row};

use super::counts::KeyCountBounds;
use super::error::Fallible;
use super::statements::Statements;

/// The writer's transactions, one after the other.
#[derive(Debug)]
pub(super) struct Tx<'c> {
    connection: &'c Connection,
    statements: Statements<'c>,
    counts: KeyCountBounds,
    /// The last feed position assigned. It is read when the first position is needed and written once, at the end.
    position: Cell<Option<i64>>,
    /// The number of pages of the database at the last commit.
    pages: Cell<u64>,
}

impl<'c> Tx<'c> {
    /// Prepares for the first transaction, which [`begin`](Self::begin) starts.
    pub(super) fn new(connection: &'c Connection) -> Self {
        let (statements, counts) = (Statements::new(connection), KeyCountBounds::default());
        Self { connection, statements, counts, position: Cell::new(None), pages: Cell::new(0) }
    }

    /// Begins a transaction, and waits at most `wait` if another program is in a transaction.
    pub(super) fn begin(&self, wait: Duration) -> Fallible<()> {
        self.position.set(None);
        self.connection.busy_timeout(wait)?;
        self.execute("BEGIN IMMEDIATE", [])?;
        Ok(())
    }

    pub(super) fn commit(&self) -> Fallible<()> {
        if let Some(position) = self.position.get() {
            self.execute("UPDATE feed SET position = ?1", [position])?;
        }
        self.pages.set(self.query_row("PRAGMA page_count", [], |row| row.get::<_, u32>(0))?.into());
        self.execute("COMMIT", [])?;
        self.position.get().into_iter().for_each(|position| self.counts.commit(position));
        Ok(())
    }

    /// Rolls back the transaction, if there still is one.
    pub(super) fn rollback(&self) {
        self.counts.roll_back();
        rollback(self.connection);
    }

    /// Returns whether SQLite itself has rolled back the transaction, which it may do on a full disk, after an I/O
    /// error or without memory.
    pub(super) fn is_lost(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Runs `work` and undoes all of it if it fails.
    ///
    /// If undoing is impossible, the transaction is rolled back and [lost](Self::is_lost), so that it cannot be
    /// committed.
    pub(super) fn savepoint(&self, work: impl FnOnce() -> Fallible<()>) -> Fallible<()> {
        let position = self.position.get();
        self.execute("SAVEPOINT job", [])?;
        let done = work();
        let end = if done.is_ok() {
            self.execute("RELEASE job", [])
        } else if self.is_lost() {
            return done;
        } else {
            self.position.set(position);
            self.counts.roll_back();
            self.execute("ROLLBACK TO job", []).and_then(|_| self.execute("RELEASE job", []))
        };
        if end.is_err() {
            rollback(self.connection);
        }
        done.and(end.map(|_| ()))
    }

    /// Assigns the next position in the feed.
    pub(super) fn next_position(&self) -> Fallible<i64> {
        self.take_positions(1)
    }

    /// Assigns the next `count` positions and returns the first.
    pub(super) fn take_positions(&self, count: i64) -> Fallible<i64> {
        let last = match self.position.get() {
            Some(last) => last,
            None => {
                let last = self.query_row("SELECT position FROM feed", [], |row| row.get(0))?;
                self.counts.begin(last);
                last
            }
        };
        self.position.set(Some(last + count));
        Ok(last + 1)
    }

    /// Runs a statement and returns the number of changed rows.
    pub(super) fn execute(&self, sql: &'static str, params: impl Params) -> Fallible<usize> {
        self.statements.with(sql, |statement| Ok(statement.execute(params)?))
    }

    /// Does the same as [`execute`](Self::execute) for a statement whose text is built at run time.
    pub(super) fn execute_text(&self, sql: &str, params: impl Params) -> Fallible<usize> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }

    /// Runs a statement that returns one row.
    pub(super) fn query_row<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Fallible<T> {
        self.statements.with(sql, |statement| Ok(statement.query_row(params, read)?))
    }

    /// Runs a statement that returns at most one row.
    pub(super) fn find_row<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Fallible<Option<T>> {
        self.statements.with(sql, |statement| Ok(statement.query_row(params, read).optional()?))
    }

    /// Prepares a statement that is rarely used.
    pub(super) fn prepare(&self, sql: &str) -> Fallible<CachedStatement<'c>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// Returns the number of pages of the database at the last commit.
    pub(super) fn pages(&self) -> u64 {
        self.pages.get()
    }

    /// Returns the remembered numbers of keys, valid from the first [`next_position`](Self::next_position) on.
    pub(super) fn counts(&self) -> &KeyCountBounds {
        &self.counts
    }

    /// Returns the connection, for reads that see the changes of this transaction.
    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }
}

/// Rolls back a transaction, if there still is one.
pub(super) fn rollback(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = connection.execute_batch("ROLLBACK") {
        tracing::error!(%error, "a transaction could not be rolled back");
    }
}
