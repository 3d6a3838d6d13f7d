//! A pool of connections that adds no round trips.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deadpool_postgres::{Connect, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime, Timeouts};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::{CancelToken, Client, Config};

use super::connector::{Connector, Learnt};
use super::lease::Lease;
use super::listen::Notices;
use super::{error, uri};
use scratchbook_core::error::{Error, ErrorKind, Result};
pub(crate) use scratchbook_database::{Attempt, CommitFate, DatabaseOptions, DatabaseUri, Failure};

/// The pause between two attempts while a server is starting.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the server has to accept a cancellation.
const CANCEL: Duration = Duration::from_secs(5);

/// The connections of a service.
pub(super) struct Connections {
    pool: Pool,
    place: String,
    timeouts: Timeouts,
    statement_timeout: Duration,
    learnt: Arc<Learnt>,
    /// How to make a connection that listens for commits.
    listening: (Connector, Config),
}

impl Connections {
    /// Makes the first connection and checks the server on it.
    pub(super) async fn open(uri: &DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let learnt = Arc::new(Learnt::default());
        learnt.schema.store(options.schema.is_some(), Ordering::Relaxed);
        let connector = Connector::new(options, Arc::clone(&learnt))?;
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let address = uri::config(uri, options)?;
        let listening = (Connector::new(options, Arc::clone(&learnt))?, address.clone());
        let manager = Manager::from_connect(address, connector, config);
        let pool = Pool::builder(manager).max_size(options.pool_size.max(1)).runtime(Runtime::Tokio1);
        // Consecutive calls use the same connection, because its backend has the tables and plans in its cache.
        let pool = pool.queue_mode(QueueMode::Lifo).build();
        let timeouts =
            Timeouts { wait: Some(options.statement_timeout), create: Some(options.connect_timeout), recycle: None };
        let connections = Self {
            pool: pool.map_err(|e| Error::internal("no pool of connections").with_source(e))?,
            place: uri.to_string(),
            timeouts,
            statement_timeout: options.statement_timeout,
            learnt,
            listening,
        };
        let first = connections.first(Instant::now() + options.connect_timeout);
        first.await.map_err(|failure| failure.error)?;
        Ok(connections)
    }

    /// Returns the URI without its password.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Records that the schema of the tables is known, so that the search path is no longer needed to find the tables.
    /// New connections get a search path that contains no schema in which others could create objects.
    pub(super) fn know_schema(&self) {
        let known = self.learnt.schema.swap(true, Ordering::Relaxed);
        if !known && !self.learnt.without_settings.load(Ordering::Relaxed) {
            self.forget_idle();
        }
    }

    /// Closes the idle connections.
    pub(super) fn forget_idle(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Makes a connection outside the pool, and returns it with the notices that arrive on it.
    pub(super) async fn listener(&self) -> std::result::Result<(Client, Arc<Notices>), tokio_postgres::Error> {
        let (connector, address) = &self.listening;
        let (client, _) = connector.connect(address).await?;
        Ok((client, connector.notices()))
    }

    /// Asks the server to cancel the running statement of a connection. The request may fail to arrive.
    pub(super) fn cancel(&self, token: CancelToken) {
        // Without a runtime there are no connections any more.
        if let Ok(runtime) = Handle::try_current() {
            let tls = self.listening.0.tls();
            runtime.spawn(async move {
                if !matches!(timeout(CANCEL, token.cancel_query(tls)).await, Ok(Ok(()))) {
                    tracing::debug!("could not cancel a read whose call was dropped");
                }
            });
        }
    }

    /// Takes a connection for one call.
    pub(super) async fn lease(&self) -> Attempt<Lease<'_>> {
        self.lease_for(Some(self.statement_timeout)).await
    }

    /// Takes a connection for a call that only reads. If the call is dropped, the server cancels its statement.
    pub(super) async fn lease_to_read(&self) -> Attempt<Lease<'_>> {
        Ok(self.lease().await?.only_reading())
    }

    /// Takes a connection without a statement timeout. The wait for a lock is still limited, by a setting of the
    /// server.
    pub(super) async fn lease_without_deadline(&self) -> Attempt<Lease<'_>> {
        self.lease_for(None).await
    }

    async fn lease_for(&self, statement_timeout: Option<Duration>) -> Attempt<Lease<'_>> {
        let object = self.pool.timeout_get(&self.timeouts).await;
        let object = object.map_err(|e| error::of_pool(&self.place, e, &self.timeouts))?;
        Ok(Lease::new(self, object, statement_timeout))
    }

    /// Makes the first connection. Retries until the deadline, but only if the server reports that it will be ready
    /// soon. After the deadline the server's last message is returned, instead of a timeout.
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
        Failure::new(CommitFate::NotSent, Error::new(ErrorKind::Unavailable, message))
    }

    /// Checks that the server is supported.
    async fn greet(&self) -> Attempt<()> {
        let lease = self.lease().await?;
        let sql = "SELECT pg_catalog.current_setting('server_version_num')::int, \
            pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_encoding')";
        let row = lease.ask(sql, &[]).await?;
        let (number, version, encoding): (i32, String, String) = (row.get(0), row.get(1), row.get(2));
        let refused = |what: String| {
            let error = Error::new(ErrorKind::FailedPrecondition, format!("{}: {what}", self.place));
            Failure::new(CommitFate::NeverApplied, error)
        };
        if number < 130_000 {
            return Err(refused(format!("the server is PostgreSQL {version}; scratchbook needs 13 or newer")));
        }
        if encoding != "UTF8" {
            return Err(refused(format!("the database has the encoding {encoding}; make one with ENCODING 'UTF8'")));
        }
        Ok(())
    }
}
