//! What a call may do on a connection, each statement within its time.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::future::{join, join_all, try_join_all};
use futures_util::{FutureExt, TryStreamExt};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Connections;
use super::error;
use super::params::Unshown;
use super::statements::Statement;
use scratchbook_core::error::{Error, ErrorKind, Result};
pub(crate) use scratchbook_database::{Attempt, CommitFate, Failure, RowCount, RowRoom};

/// A connection while a call has it. Nothing on it outlives the call: a transaction that was left open is rolled
/// back, and a connection of which nobody knows what it is doing is closed.
pub(super) struct Lease<'a> {
    connections: &'a Connections,
    /// Taken when it is dropped.
    object: Option<Object>,
    statement_timeout: Option<Duration>,
    only_reads: bool,
    flags: Flags,
}

/// A statement with its parameters.
pub(super) struct Step<'a> {
    statement: &'a Statement,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Step<'a> {
    pub(super) fn new(statement: &'a Statement, params: impl Into<Vec<&'a (dyn ToSql + Sync)>>) -> Self {
        Self { statement, params: params.into() }
    }
}

#[derive(Default)]
struct Flags {
    in_transaction: AtomicBool,
    /// What was sent and not answered yet.
    in_flight: AtomicUsize,
    broken: AtomicBool,
    silent: AtomicBool,
}

impl<'a> Lease<'a> {
    /// Without a timeout, statements take as long as they take.
    pub(super) fn new(connections: &'a Connections, object: Object, statement_timeout: Option<Duration>) -> Self {
        Self { connections, object: Some(object), statement_timeout, only_reads: false, flags: Flags::default() }
    }

    /// Nothing is written on it, so that what runs may be cancelled when the call is dropped. An append never is: a
    /// cancelled wait for a synchronous standby ends like a commit.
    pub(super) fn only_reading(mut self) -> Self {
        self.only_reads = true;
        self
    }
}

impl Lease<'_> {
    /// Runs a statement, which is prepared once a connection.
    pub(super) async fn query(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        let (client, deadline) = (self.client()?, self.deadline());
        let prepared = self.within(deadline, client.prepare_typed_cached(&statement.sql, statement.types)).await;
        self.within(deadline, all_rows(client, &prepared.map_err(not_done)?, params)).await
    }

    /// Runs a statement whose rows have so much room: what is beyond it is not read, and the connection is closed. Rows of
    /// which `is_of_item` holds are of a page's items.
    pub(super) async fn query_within(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        room: RowRoom,
        is_of_item: impl Fn(&Row) -> bool,
    ) -> Attempt<Vec<Row>> {
        let (client, deadline) = (self.client()?, self.deadline());
        let prepared = self.within(deadline, client.prepare_typed_cached(&statement.sql, statement.types)).await;
        let prepared = prepared.map_err(not_done)?;
        let work = async {
            let params = params.iter().map(|param| Unshown(*param));
            let mut stream = pin!(client.query_raw(&prepared, params).await?);
            let (mut rows, mut count) = (Vec::new(), RowCount::new(room));
            while let Some(row) = stream.try_next().await? {
                if let Err(full) = count.take(row.raw_size_bytes() as u64, is_of_item(&row)) {
                    // The rest is on its way still.
                    self.flags.broken.store(true, Ordering::Relaxed);
                    return Ok(Err(full));
                }
                rows.push(row);
            }
            Ok(Ok(rows))
        };
        self.within(deadline, work).await?
    }

    /// Runs statements one after the other in one round trip. Of those that failed the first says why: the others only
    /// say that the transaction had failed already.
    pub(super) async fn all(&self, steps: &[Step<'_>]) -> Attempt<Vec<Vec<Row>>> {
        let (client, deadline) = (self.client()?, self.deadline());
        // All of them before any is run. What is not known yet would be sent behind what is, which is out of order.
        let prepared = try_join_all(steps.iter().map(|step| self.prepared(step.statement))).await?;
        let runs = steps.iter().zip(&prepared);
        let runs = runs.map(|(step, prepared)| self.within(deadline, all_rows(client, prepared, &step.params)));
        join_all(runs).await.into_iter().collect()
    }

    /// Begins a transaction with some statements, in one round trip.
    pub(super) async fn begin_with(&self, steps: &[Step<'_>]) -> Attempt<Vec<Vec<Row>>> {
        try_join_all(steps.iter().map(|step| self.prepared(step.statement))).await?;
        let (begun, ran) = join(self.begin(), self.all(steps)).await;
        begun?;
        ran
    }

    /// Runs the last statement of a call, and with it the commit, where it is in a transaction: in one round trip, since
    /// the commit of one that failed undoes it.
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

    async fn prepared(&self, statement: &Statement) -> Attempt<tokio_postgres::Statement> {
        let prepared = self.client()?.prepare_typed_cached(&statement.sql, statement.types);
        self.within(self.deadline(), prepared).await.map_err(not_done)
    }

    /// Runs a statement that gives one row, without keeping it.
    pub(super) async fn ask(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Attempt<Row> {
        let rows = self.rows(sql, params).await?;
        rows.into_iter().next().ok_or_else(|| Error::internal("a question to the server has no answer").into())
    }

    /// Runs a statement without keeping it.
    pub(super) async fn rows(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        let (client, deadline) = (self.client()?, self.deadline());
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
        // Whatever becomes of it, the transaction is over.
        self.flags.in_transaction.store(false, Ordering::Relaxed);
        self.run("COMMIT").await
    }

    fn client(&self) -> Attempt<&Object> {
        let gone = || Failure::from(Error::internal("a connection was given back while it was in use"));
        self.object.as_ref().ok_or_else(gone)
    }

    /// Each statement has the time anew: what takes many of them may take longer than one.
    fn deadline(&self) -> Option<Instant> {
        self.statement_timeout.map(|timeout| Instant::now() + timeout)
    }

    /// Waits no longer than there is time. What the server does with the statement is not known then: it must not be
    /// cancelled, since a cancelled wait for a synchronous standby ends like a commit.
    async fn within<T>(
        &self,
        deadline: Option<Instant>,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Attempt<T> {
        // Who drops this while it waits leaves the count as it is, and the connection is closed with the lease.
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
        // Within a transaction it may well be that there is much to do, which says nothing of the network.
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

    /// What a transaction has done is nothing as long as nobody has asked to commit it.
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

/// The failure of what cannot have been done yet: it is safe to try again.
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
                // The others go the same way, and finding out one by one would take a deadline each.
                self.connections.forget_idle();
            }
        } else if *self.flags.in_transaction.get_mut() {
            // It is on its way once it was polled; its answer interests nobody.
            let _ = object.batch_execute("ROLLBACK").now_or_never();
        }
    }
}
