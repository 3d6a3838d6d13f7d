//! The operations of a call on its connection, each statement within its timeout.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Row, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout_at;

use super::connection::{Connections, Idle};
use super::error::{self, Stage, failure, leads_elsewhere, leaves_connection};
use scratchbook_core::error::{Error, Result};
use scratchbook_database::{Attempt, RowCount, RowRoom};

/// A connection that is lent to one call. It returns to the pool if its state is known to be clean, and is closed
/// otherwise.
pub(super) struct Lease<'a> {
    pool: &'a Connections,
    /// `None` while a statement is running, and after a statement that left the connection unusable.
    connection: Option<Conn>,
    _permit: OwnedSemaphorePermit,
    end: Instant,
    /// Whether the connection has a transaction or a lock that must end with it.
    unkept: bool,
    migrating: bool,
}

impl<'a> Lease<'a> {
    pub(super) fn new(pool: &'a Connections, connection: Conn, permit: OwnedSemaphorePermit) -> Self {
        pool.leased.fetch_add(1, Ordering::Relaxed);
        let end = Instant::now() + pool.statement_timeout;
        Self { pool, connection: Some(connection), _permit: permit, end, unkept: false, migrating: false }
    }
}

impl Lease<'_> {
    /// Runs a statement, which is prepared once per connection, and returns the rows of its first result.
    pub(super) async fn rows(&mut self, sql: &str, values: Vec<Value>) -> Attempt<Vec<Row>> {
        let mut held = self.hold()?;
        let done = timeout_at(self.end.into(), execute(&mut held.connection, sql, values)).await;
        self.settle(sql, held, done)
    }

    /// Runs a statement whose rows have a limited size. If they exceed it, the remaining rows are not read, and the
    /// connection is closed. `is_of_item` says which rows belong to the items of a page.
    pub(super) async fn rows_within(
        &mut self,
        sql: &str,
        values: Vec<Value>,
        room: RowRoom,
        is_of_item: impl Fn(&Row) -> bool + Send + Sync,
    ) -> Attempt<Vec<Row>> {
        let mut rows = Vec::new();
        let keep = |row| {
            rows.push(row);
            Ok(())
        };
        self.for_each_within(sql, values, room, is_of_item, keep).await?;
        Ok(rows)
    }

    /// Does the same as [`rows_within`](Self::rows_within), and handles each row while the server still sends others. If
    /// a row cannot be handled, the remaining rows are not read either.
    pub(super) async fn for_each_within(
        &mut self,
        sql: &str,
        values: Vec<Value>,
        room: RowRoom,
        is_of_item: impl Fn(&Row) -> bool + Send + Sync,
        each: impl FnMut(Row) -> Result<()> + Send,
    ) -> Attempt<()> {
        let mut held = self.hold()?;
        let work = execute_within(&mut held.connection, sql, values, RowCount::new(room), is_of_item, each);
        match timeout_at(self.end.into(), work).await {
            // Dropping `held` closes the connection, because the remaining rows are still being sent.
            Ok(Ok(Err(refused))) => Err(refused),
            Ok(Ok(Ok(()))) => self.settle(sql, held, Ok(Ok(()))),
            Ok(Err(error)) => self.settle(sql, held, Ok(Err(error))),
            Err(late) => self.settle(sql, held, Err(late)),
        }
    }

    /// Runs a statement as text.
    pub(super) async fn query(&mut self, sql: &str) -> Attempt<Vec<Row>> {
        let mut held = self.hold()?;
        let done = timeout_at(self.end.into(), query(&mut held.connection, sql)).await;
        self.settle(sql, held, done)
    }

    /// Returns the value that the previous statement passed to `LAST_INSERT_ID(...)`.
    pub(super) fn last_insert_id(&self) -> u64 {
        self.connection.as_ref().and_then(Conn::last_insert_id).unwrap_or_default()
    }

    /// Returns how many rows the previous statement changed.
    pub(super) fn affected_rows(&self) -> u64 {
        self.connection.as_ref().map_or(0, Conn::affected_rows)
    }

    /// Begins a transaction, which is rolled back unless it is committed.
    pub(super) async fn begin(&mut self) -> Attempt<()> {
        self.give_up_unless_kept();
        self.query("START TRANSACTION").await.map(drop)
    }

    /// Commits the transaction.
    pub(super) async fn commit(&mut self) -> Attempt<()> {
        self.renew();
        self.query("COMMIT").await?;
        self.keep();
        Ok(())
    }

    /// Rolls the transaction back.
    pub(super) async fn rollback(&mut self) -> Attempt<()> {
        self.query("ROLLBACK").await?;
        self.keep();
        Ok(())
    }

    /// Closes the connection after this call, unless [`keep`](Self::keep) is called.
    pub(super) fn give_up_unless_kept(&mut self) {
        self.unkept = true;
    }

    /// Reports errors as those of a migration: they do not advise to migrate.
    pub(super) fn migrate(&mut self) {
        self.migrating = true;
    }

    /// Returns the connection to the pool after this call.
    pub(super) fn keep(&mut self) {
        self.unkept = false;
    }

    /// Restarts the statement timeout, for a call that does its work in parts. Each part has to end within the timeout.
    pub(super) fn renew(&mut self) {
        self.extend(self.pool.statement_timeout);
    }

    /// Sets the time that is left to this call, from now on.
    pub(super) fn extend(&mut self, time: Duration) {
        self.end = Instant::now() + time;
    }

    /// Takes the connection for a statement. If the call is dropped during a statement, the answer was not read, so the
    /// connection is closed.
    fn hold(&mut self) -> Attempt<InUse> {
        match self.connection.take() {
            Some(connection) => Ok(InUse { connection: Some(connection) }),
            None => Err(Error::internal("a statement on a connection that was given up").into()),
        }
    }

    fn settle<T>(
        &mut self,
        sql: &str,
        mut held: InUse,
        done: std::result::Result<mysql_async::Result<T>, tokio::time::error::Elapsed>,
    ) -> Attempt<T> {
        let Ok(done) = done else {
            return Err(error::too_slow(&self.pool.place, self.pool.statement_timeout.as_secs_f64()));
        };
        if done.as_ref().map_or_else(leaves_connection, |_| true) {
            self.connection = held.connection.take();
        } else if !matches!(done, Err(mysql_async::Error::Server(_))) {
            // The other connections may have failed for the same reason.
            self.pool.idle().iter_mut().for_each(|idle| idle.since = None);
        } else if done.as_ref().is_err_and(leads_elsewhere) {
            // The load balancer or the name may lead to the primary by now, while the idle connections still lead to
            // this server.
            self.pool.drop_idle();
        }
        let stage = if self.migrating { Stage::Migrating } else { stage(sql) };
        done.map_err(|error| failure(&self.pool.place, stage, &error))
    }
}

/// Returns whether a statement of ours reads or writes.
fn stage(sql: &str) -> Stage {
    let reads = sql.trim_start_matches('(').trim_start().starts_with("SELECT");
    if reads { Stage::Reading } else { Stage::Writing }
}

async fn execute(connection: &mut Option<Conn>, sql: &str, values: Vec<Value>) -> mysql_async::Result<Vec<Row>> {
    let connection = connection.as_mut().ok_or(DriverError::ConnectionClosed).map_err(mysql_async::Error::Driver)?;
    let mut result = connection.exec_iter(sql, values).await?;
    let rows = result.collect().await?;
    // Reads the remaining results up to the end of a procedure: an error in them is an error of the call.
    result.drop_result().await?;
    Ok(rows)
}

async fn execute_within(
    connection: &mut Option<Conn>,
    sql: &str,
    values: Vec<Value>,
    mut count: RowCount,
    is_of_item: impl Fn(&Row) -> bool,
    mut each: impl FnMut(Row) -> Result<()>,
) -> mysql_async::Result<Attempt<()>> {
    let connection = connection.as_mut().ok_or(DriverError::ConnectionClosed).map_err(mysql_async::Error::Driver)?;
    let mut result = connection.exec_iter(sql, values).await?;
    while let Some(row) = result.next().await? {
        let fits = count.take(bytes_of(&row), is_of_item(&row));
        if let Err(refused) = fits.and_then(|()| Ok(each(row)?)) {
            return Ok(Err(refused));
        }
    }
    result.drop_result().await?;
    Ok(Ok(()))
}

/// Returns the size of a row's texts in bytes.
fn bytes_of(row: &Row) -> u64 {
    let texts = (0..row.len()).filter_map(|column| row.as_ref(column));
    texts.map(|value| if let Value::Bytes(text) = value { text.len() as u64 } else { 8 }).sum()
}

async fn query(connection: &mut Option<Conn>, sql: &str) -> mysql_async::Result<Vec<Row>> {
    let connection = connection.as_mut().ok_or(DriverError::ConnectionClosed).map_err(mysql_async::Error::Driver)?;
    connection.query(sql).await
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.pool.leased.fetch_sub(1, Ordering::Relaxed);
        let Some(connection) = self.connection.take() else { return };
        if self.unkept || self.pool.capacity.is_closed() {
            return give_up(connection);
        }
        self.pool.idle().push(Idle { connection, since: Some(Instant::now()) });
    }
}

/// A connection in use, which is closed if this is dropped.
struct InUse {
    connection: Option<Conn>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            give_up(connection);
        }
    }
}

/// Closes a connection at once. The driver's own way would first read what is still being sent. The server rolls back
/// an open transaction.
pub(super) fn give_up(connection: Conn) {
    let _ = connection.disconnect().now_or_never();
}
