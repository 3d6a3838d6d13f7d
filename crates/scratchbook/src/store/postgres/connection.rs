//! Connections: a pool that adds no round trips, and what a call may do on one of them, within its time.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Connect, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error;
use super::statements::Statement;
use super::{tls, uri};
use crate::error::{Error, ErrorKind, Result};
use crate::store::database::{Attempt, DatabaseOptions, DatabaseUri, Done, Failure};

/// How long a server that is just starting is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections of a service.
pub(super) struct Connections {
    pool: Pool,
    place: String,
    timeouts: Timeouts,
    statement_timeout: Duration,
}

impl Connections {
    /// Makes the first connection, which says what the server is.
    pub(super) async fn open(uri: &DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let connector = Connector {
            tls: tls::connector(options)?,
            settings: uri::settings(options),
            without_settings: AtomicBool::new(false),
        };
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(uri::config(uri, options)?, connector, config);
        let pool = Pool::builder(manager).max_size(options.pool_size.max(1)).runtime(Runtime::Tokio1).build();
        let timeouts =
            Timeouts { wait: Some(options.statement_timeout), create: Some(options.connect_timeout), recycle: None };
        let connections = Self {
            pool: pool.map_err(|e| Error::internal("no pool of connections").with_source(e))?,
            place: uri.to_string(),
            timeouts,
            statement_timeout: options.statement_timeout,
        };
        let first = connections.first(Instant::now() + options.connect_timeout);
        first.await.map_err(|failure| failure.error)?;
        Ok(connections)
    }

    /// The URI without its password.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// A connection for one call.
    pub(super) async fn lease(&self) -> Attempt<Lease<'_>> {
        let mut lease = self.lease_without_deadline().await?;
        lease.deadline = Some(Instant::now() + self.statement_timeout);
        Ok(lease)
    }

    /// A connection for what may take as long as it takes. Waiting for a lock still ends, by the server's setting.
    pub(super) async fn lease_without_deadline(&self) -> Attempt<Lease<'_>> {
        let object = self.pool.timeout_get(&self.timeouts).await;
        let object = object.map_err(|e| error::of_pool(&self.place, e, &self.timeouts))?;
        let deadline = None;
        Ok(Lease { connections: self, object: Some(object), deadline, flags: Flags::default() })
    }

    /// Asks again for as long as there is time, but only a server that says itself that it will be ready soon. What it
    /// said last is told when the time is over, rather than that it is over.
    async fn first(&self, deadline: Instant) -> Attempt<()> {
        let mut said = None;
        loop {
            match timeout_at(deadline, self.greet()).await {
                Ok(Err(failure)) if error::is_starting(&failure) => said = Some(failure),
                Ok(greeted) => return greeted,
                Err(_) => return Err(said.unwrap_or_else(|| self.late())),
            }
            if timeout_at(deadline, tokio::time::sleep(PAUSE)).await.is_err() {
                return Err(said.unwrap_or_else(|| self.late()));
            }
        }
    }

    fn late(&self) -> Failure {
        let seconds = self.timeouts.create.unwrap_or_default().as_secs_f64();
        let message = format!("{}: no connection within {seconds} s; check host and port", self.place);
        Failure::new(Done::Unreached, Error::new(ErrorKind::Unavailable, message))
    }

    /// Looks whether this is a server that we can work with.
    async fn greet(&self) -> Attempt<()> {
        let lease = self.lease().await?;
        let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
            current_setting('server_encoding')";
        let row = lease.ask(sql, &[]).await?;
        let (number, version, encoding): (i32, String, String) = (row.get(0), row.get(1), row.get(2));
        let refused =
            |what: String| Failure::from(Error::new(ErrorKind::FailedPrecondition, format!("{}: {what}", self.place)));
        if number < 130_000 {
            return Err(refused(format!("the server is PostgreSQL {version}; scratchbook needs 13 or newer")));
        }
        if encoding != "UTF8" {
            return Err(refused(format!("the database has the encoding {encoding}; make one with ENCODING 'UTF8'")));
        }
        Ok(())
    }
}

/// Makes connections with the settings that the statements need.
struct Connector {
    tls: MakeRustlsConnect,
    settings: String,
    /// PgBouncer lets no settings through unless it is told to.
    without_settings: AtomicBool,
}

type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + 'a>>;

impl Connect for Connector {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let config = config.clone();
        Box::pin(async move {
            if !self.without_settings.load(Ordering::Relaxed) {
                let mut with_settings = config.clone();
                // The user's come last, so they count.
                let own = config.get_options().unwrap_or_default();
                with_settings.options(format!("{} {own}", self.settings));
                match self.connect_with(&with_settings).await {
                    Err(e) if refuses_settings(&e) => self.without_settings.store(true, Ordering::Relaxed),
                    connected => return connected,
                }
            }
            self.connect_with(&config).await
        })
    }
}

impl Connector {
    async fn connect_with(&self, config: &Config) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        let (client, connection) = config.connect(self.tls.clone()).await?;
        let task = tokio::spawn(async move {
            // Whoever waits for an answer is told; the reason may quote what was sent.
            if connection.await.is_err() {
                tracing::debug!("a connection to PostgreSQL has ended");
            }
        });
        Ok((client, task))
    }
}

fn refuses_settings(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::PROTOCOL_VIOLATION && error.message().contains("startup parameter")
            || *error.code() == SqlState::UNDEFINED_OBJECT && error.message().contains("configuration parameter")
    })
}

/// A connection while a call has it. Nothing on it outlives the call: a transaction that was left open is rolled
/// back, and a connection of which nobody knows what it is doing is closed.
pub(super) struct Lease<'a> {
    connections: &'a Connections,
    /// Taken when it is dropped.
    object: Option<Object>,
    deadline: Option<Instant>,
    flags: Flags,
}

#[derive(Default)]
struct Flags {
    in_transaction: AtomicBool,
    broken: AtomicBool,
    silent: AtomicBool,
}

impl Lease<'_> {
    /// Runs a statement, which is prepared once a connection.
    pub(super) async fn query(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        let client = self.client()?;
        let prepared = self.within(client.prepare_typed_cached(&statement.sql, statement.types)).await;
        self.within(client.query(&prepared.map_err(not_done)?, params)).await
    }

    /// Runs a statement that gives one row, without keeping it.
    pub(super) async fn ask(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Attempt<Row> {
        let client = self.client()?;
        self.within(client.query_one(sql, params)).await
    }

    /// Runs a statement without keeping it.
    pub(super) async fn rows(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Attempt<Vec<Row>> {
        let client = self.client()?;
        self.within(client.query(sql, params)).await
    }

    /// Runs statements without parameters.
    pub(super) async fn run(&self, sql: &str) -> Attempt<()> {
        let client = self.client()?;
        self.within(client.batch_execute(sql)).await
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

    /// Waits no longer than there is time. What the server does with the statement is not known then: it must not be
    /// cancelled, since a cancelled wait for a synchronous standby ends like a commit.
    async fn within<T>(&self, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Attempt<T> {
        let Some(deadline) = self.deadline else {
            return work.await.map_err(|e| self.failure(e));
        };
        match timeout_at(deadline, work).await {
            Ok(done) => done.map_err(|e| self.failure(e)),
            Err(_) => {
                self.flags.broken.store(true, Ordering::Relaxed);
                self.flags.silent.store(true, Ordering::Relaxed);
                let seconds = self.connections.statement_timeout.as_secs_f64();
                let message = format!(
                    "{}: no answer within {seconds} s; check the server and the network, or raise statement_timeout_ms",
                    self.connections.place
                );
                Err(self.judged(Failure::new(Done::Unknown, Error::new(ErrorKind::Unavailable, message))))
            }
        }
    }

    fn failure(&self, error: tokio_postgres::Error) -> Failure {
        let broken = error::ends_connection(&error);
        self.flags.broken.fetch_or(broken, Ordering::Relaxed);
        self.judged(error::of_statement(&self.connections.place, &error))
    }

    /// What a transaction has done is nothing as long as nobody has asked to commit it.
    fn judged(&self, failure: Failure) -> Failure {
        if self.flags.in_transaction.load(Ordering::Relaxed) { not_done(failure) } else { failure }
    }
}

/// The failure of what cannot have been done yet: it is safe to try again.
fn not_done(failure: Failure) -> Failure {
    match failure.done {
        Done::Unknown => Failure::new(Done::Unreached, failure.error),
        _ => failure,
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else {
            return;
        };
        if *self.flags.broken.get_mut() {
            drop(Object::take(object));
            if *self.flags.silent.get_mut() {
                // The others go the same way, and finding out one by one would take a deadline each.
                self.connections.pool.retain(|_, _| false);
            }
        } else if *self.flags.in_transaction.get_mut() {
            // It is on its way once it was polled; its answer interests nobody.
            let _ = object.batch_execute("ROLLBACK").now_or_never();
        }
    }
}
