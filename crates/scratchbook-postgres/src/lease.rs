//! The operations of a call on its connection, each statement within its timeout.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::future::{join, join_all, join3, try_join_all};
use futures_util::{FutureExt, TryStreamExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Connections;
use super::error;
use super::params::Unshown;
use super::statements::Statement;
use scratchbook_core::error::{Error, ErrorKind, Result};
pub(crate) use scratchbook_database::{Attempt, CommitFate, Failure, RowCount, RowRoom, yield_between_rows};

/// A connection that is lent to a call. Nothing on it outlives the call: an open transaction is rolled back, and a
/// connection whose state is unknown is closed.
pub(super) struct Lease<'a> {
    connections: &'a Connections,
    /// `None` only after it was dropped.
    object: Option<Object>,
    _permit: OwnedSemaphorePermit,
    statement_timeout: Option<Duration>,
    only_reads: bool,
    flags: Flags,
}

/// A statement with its parameters.
pub(super) struct BoundStatement<'a> {
    statement: &'a Statement,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> BoundStatement<'a> {
    pub(super) fn new(statement: &'a Statement, params: impl Into<Vec<&'a (dyn ToSql + Sync)>>) -> Self {
        Self { statement, params: params.into() }
    }
}

#[derive(Default)]
struct Flags {
    in_transaction: AtomicBool,
    /// The number of statements that were sent and not answered yet.
    in_flight: AtomicUsize,
    broken: AtomicBool,
    silent: AtomicBool,
}

impl<'a> Lease<'a> {
    /// Creates a lease. Without a timeout, statements run for as long as they take.
    pub(super) fn new(
        connections: &'a Connections,
        object: Object,
        permit: OwnedSemaphorePermit,
        statement_timeout: Option<Duration>,
    ) -> Self {
        let flags = Flags::default();
        Self { connections, object: Some(object), _permit: permit, statement_timeout, only_reads: false, flags }
    }

    /// Marks the lease as read-only, so that its statement can be cancelled if the call is dropped. An append is never
    /// cancelled, because cancelling the wait for a synchronous standby looks like a successful commit.
    pub(super) fn only_reading(mut self) -> Self {
        self.only_reads = true;
        self
    }
}

impl Lease<'_> {
    /// Runs a statement, which is prepared once per connection.
    pub(super) async fn query(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        let client = self.client()?;
        let deadline = self.deadline();
        let prepared = self.within(deadline, client.prepare_typed_cached(&statement.sql, statement.types)).await;
        self.within(deadline, all_rows(client, &prepared.map_err(not_done)?, params)).await
    }

    /// Runs a statement whose rows have a limited size; see [`for_each_within`](Self::for_each_within).
    pub(super) async fn query_within(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        room: RowRoom,
        is_of_item: impl Fn(&Row) -> bool,
    ) -> Attempt<Vec<Row>> {
        let mut rows = Vec::new();
        let each = |row| {
            rows.push(row);
            Ok(())
        };
        self.for_each_within(statement, params, room, is_of_item, each).await?;
        Ok(rows)
    }

    /// Runs a statement whose rows have a limited size, and handles each row while the server still sends others. If
    /// the rows exceed the size, or one cannot be handled, the remaining rows are not read, and the connection is closed.
    /// `is_of_item` says which rows belong to the items of a page. The time for handling rows counts towards the timeout.
    pub(super) async fn for_each_within(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        room: RowRoom,
        is_of_item: impl Fn(&Row) -> bool,
        mut each: impl FnMut(Row) -> Result<()>,
    ) -> Attempt<()> {
        let client = self.client()?;
        let deadline = self.deadline();
        let prepared = self.within(deadline, client.prepare_typed_cached(&statement.sql, statement.types)).await;
        let prepared = prepared.map_err(not_done)?;
        let work = async {
            let params = params.iter().map(|param| Unshown(*param));
            let mut stream = pin!(client.query_raw(&prepared, params).await?);
            let mut taken = 0;
            let mut count = RowCount::new(room);
            while let Some(row) = stream.try_next().await? {
                yield_between_rows(taken).await;
                taken += 1;
                let fits = count.take(row.raw_size_bytes() as u64, is_of_item(&row));
                if let Err(failure) = fits.and_then(|()| Ok(each(row)?)) {
                    // The remaining rows are still being sent.
                    self.flags.broken.store(true, Ordering::Relaxed);
                    return Ok(Err(failure));
                }
            }
            Ok(Ok(()))
        };
        self.within(deadline, work).await?
    }

    /// Runs statements one after the other in one round trip. Returns the first failure, because the later ones only
    /// say that the transaction has already failed.
    pub(super) async fn all(&self, steps: &[BoundStatement<'_>]) -> Attempt<Vec<Vec<Row>>> {
        let client = self.client()?;
        let deadline = self.deadline();
        // All statements are prepared before the first one runs. Otherwise a statement that is not prepared yet would
        // be sent after the later ones.
        let prepared = try_join_all(steps.iter().map(|step| self.prepared(step.statement))).await?;
        let runs = steps.iter().zip(&prepared);
        let runs = runs.map(|(step, prepared)| self.within(deadline, all_rows(client, prepared, &step.params)));
        join_all(runs).await.into_iter().collect()
    }

    /// Begins a transaction and runs statements in it, in one round trip.
    pub(super) async fn begin_with(&self, steps: &[BoundStatement<'_>]) -> Attempt<Vec<Vec<Row>>> {
        self.prepare(steps.iter().map(|step| step.statement)).await?;
        let (begun, ran) = join(self.begin(), self.all(steps)).await;
        begun?;
        ran
    }

    /// Runs statements as a transaction, all in one round trip. This is safe, because the commit of a failed
    /// transaction rolls it back.
    pub(super) async fn transaction(&self, steps: &[BoundStatement<'_>]) -> Attempt<Vec<Vec<Row>>> {
        self.prepare(steps.iter().map(|step| step.statement)).await?;
        let (begun, ran, committed) = join3(self.begin(), self.all(steps), self.commit()).await;
        begun?;
        let rows = ran?;
        committed?;
        Ok(rows)
    }

    /// Runs the last statement of a call together with the commit, if there is a transaction. Both go in one round
    /// trip. This is safe, because the commit of a failed transaction rolls it back.
    pub(super) async fn last(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        if !self.flags.in_transaction.load(Ordering::Relaxed) {
            return self.query(statement, params).await;
        }
        let client = self.client()?;
        let prepared = self.prepared(statement).await?;
        let (ran, committed) =
            join(self.within(self.deadline(), all_rows(client, &prepared, params)), self.commit()).await;
        let rows = ran?;
        committed?;
        Ok(rows)
    }

    /// Runs the last statements of a call as a transaction of their own, or as the end of the one that has begun.
    pub(super) async fn last_of(&self, steps: &[BoundStatement<'_>]) -> Attempt<Vec<Vec<Row>>> {
        if !self.flags.in_transaction.load(Ordering::Relaxed) {
            return self.transaction(steps).await;
        }
        self.prepare(steps.iter().map(|step| step.statement)).await?;
        let (ran, committed) = join(self.all(steps), self.commit()).await;
        let rows = ran?;
        committed?;
        Ok(rows)
    }

    /// Prepares statements in one round trip, except for those that this connection has prepared before.
    pub(super) async fn prepare(&self, statements: impl IntoIterator<Item = &Statement>) -> Attempt<()> {
        try_join_all(statements.into_iter().map(|statement| self.prepared(statement))).await.map(drop)
    }

    async fn prepared(&self, statement: &Statement) -> Attempt<tokio_postgres::Statement> {
        let prepared = self.client()?.prepare_typed_cached(&statement.sql, statement.types);
        self.within(self.deadline(), prepared).await.map_err(not_done)
    }

    /// Runs a statement that returns one row, without caching its plan.
    pub(super) async fn ask(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Attempt<Row> {
        let rows = self.rows(sql, params).await?;
        rows.into_iter().next().ok_or_else(|| Error::internal("a question to the server has no answer").into())
    }

    /// Runs a statement without caching its plan.
    pub(super) async fn rows(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        let client = self.client()?;
        let deadline = self.deadline();
        let prepared = self.within(deadline, client.prepare(sql)).await;
        self.within(deadline, all_rows(client, &prepared.map_err(not_done)?, params)).await
    }

    /// Runs statements without parameters.
    pub(super) async fn run(&self, sql: &str) -> Attempt<()> {
        let client = self.client()?;
        self.within(self.deadline(), client.batch_execute(sql)).await
    }

    pub(super) async fn begin(&self) -> Attempt<()> {
        self.flags.in_transaction.store(true, Ordering::Relaxed);
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    pub(super) async fn commit(&self) -> Attempt<()> {
        // Whether or not the commit succeeds, the transaction is over.
        self.flags.in_transaction.store(false, Ordering::Relaxed);
        self.run("COMMIT").await
    }

    fn client(&self) -> Attempt<&Object> {
        let gone = || Failure::from(Error::internal("a connection was given back while it was in use"));
        self.object.as_ref().ok_or_else(gone)
    }

    /// Returns the deadline of the next statement. Each statement has the full timeout, so a call of several statements
    /// can take longer than one.
    fn deadline(&self) -> Option<Instant> {
        self.statement_timeout.map(|timeout| Instant::now() + timeout)
    }

    /// Waits until the deadline. After it, the state of the statement is unknown. The statement must not be cancelled,
    /// because cancelling the wait for a synchronous standby looks like a successful commit.
    async fn within<T>(
        &self,
        deadline: Option<Instant>,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Attempt<T> {
        // If this future is dropped while it waits, the count stays as it is, and the connection is closed with the
        // lease.
        self.flags.in_flight.fetch_add(1, Ordering::Relaxed);
        let done = match deadline {
            None => Ok(work.await),
            Some(deadline) => timeout_at(deadline, work).await,
        };
        self.flags.in_flight.fetch_sub(1, Ordering::Relaxed);
        done.map_or_else(|_| Err(self.late()), |done| done.map_err(|e| self.failure(e)))
    }

    fn late(&self) -> Failure {
        self.flags.broken.store(true, Ordering::Relaxed);
        // A timeout within a transaction may be due to a lot of work, so it does not mean that the network is silent.
        let silent = !self.flags.in_transaction.load(Ordering::Relaxed);
        self.flags.silent.fetch_or(silent, Ordering::Relaxed);
        let seconds = self.statement_timeout.unwrap_or_default().as_secs_f64();
        let message = format!(
            "{}: no answer within {seconds} s; check the server and the network, or raise statement_timeout_ms",
            self.connections.place()
        );
        self.judged(Failure::new(CommitFate::Unknown, Error::new(ErrorKind::Unavailable, message)))
    }

    fn failure(&self, error: tokio_postgres::Error) -> Failure {
        let broken = error::ends_connection(&error);
        self.flags.broken.fetch_or(broken, Ordering::Relaxed);
        self.judged(error::of_statement(self.connections.place(), &error))
    }

    /// Marks a failure within a transaction as safe to retry: the transaction has changed nothing until its commit is
    /// requested.
    fn judged(&self, failure: Failure) -> Failure {
        if self.flags.in_transaction.load(Ordering::Relaxed) { not_done(failure) } else { failure }
    }
}

async fn all_rows(
    client: &Object,
    statement: &tokio_postgres::Statement,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    client.query_raw(statement, params.iter().map(|param| Unshown(*param))).await?.try_collect().await
}

/// Returns the failure of a statement that certainly was not committed, so that it is safe to retry.
fn not_done(failure: Failure) -> Failure {
    match failure.fate {
        CommitFate::Unknown => Failure::new(CommitFate::NotSent, failure.error),
        _ => failure,
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else {
            return;
        };
        if *self.flags.broken.get_mut() || *self.flags.in_flight.get_mut() > 0 {
            if self.only_reads {
                self.connections.cancel(object.cancel_token());
            }
            drop(Object::take(object));
            if *self.flags.silent.get_mut() {
                // The idle connections lead to the same server. Detecting that each of them is dead would take a
                // timeout each.
                self.connections.forget_idle();
            }
        } else if *self.flags.in_transaction.get_mut() {
            // The statement is sent by the first poll, and its answer is not needed.
            let _ = object.batch_execute("ROLLBACK").now_or_never();
        }
    }
}
