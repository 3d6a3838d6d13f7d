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
pub(crate) use scratchbook_database::{Attempt, Capacity, CommitFate, DatabaseOptions, DatabaseUri, Failure};

/// The pause between two attempts while a server is starting.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the server has to accept a cancellation.
const CANCEL: Duration = Duration::from_secs(5);

/// The connections of a service.
pub(super) struct Connections {
    pool: Pool,
    capacity: Arc<Capacity>,
    place: String,
    timeouts: Timeouts,
    statement_timeout: Duration,
    learnt: Arc<Learnt>,
    /// How to make a connection outside the pool, such as one that listens for commits.
    outside: Arc<(Connector, Config)>,
}

impl Connections {
    /// Makes the first connection and checks the server on it.
    pub(super) async fn open(uri: &DatabaseUri, options: &DatabaseOptions) -> Result<Self> {
        let learnt = Arc::new(Learnt::default());
        learnt.schema.store(options.schema.is_some(), Ordering::Relaxed);
        let connector = Connector::new(options, Arc::clone(&learnt))?;
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let address = uri::config(uri, options)?;
        let outside = Arc::new((Connector::new(options, Arc::clone(&learnt))?, address.clone()));
        let manager = Manager::from_connect(address, connector, config);
        let pool = Pool::builder(manager).max_size(options.pool_size.max(1)).runtime(Runtime::Tokio1);
        // Consecutive calls use the same connection, because its backend has the tables and plans in its cache.
        let pool = pool.queue_mode(QueueMode::Lifo).build();
        let timeouts =
            Timeouts { wait: Some(options.statement_timeout), create: Some(options.connect_timeout), recycle: None };
        let connections = Self {
            pool: pool.map_err(|e| Error::internal("no pool of connections").with_source(e))?,
            capacity: Capacity::new(options.pool_size),
            place: uri.to_string(),
            timeouts,
            statement_timeout: options.statement_timeout,
            learnt,
            outside,
        };
        let first = connections.first(Instant::now() + options.connect_timeout);
        first.await.map_err(|failure| failure.error)?;
        Ok(connections)
    }

    /// Returns the URI without its password.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn degraded(&self) -> Option<String> {
        self.capacity.degraded()
    }

    pub(super) fn close(&self) {
        self.capacity.close();
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
    pub(super) async fn listener(&self) -> Result<(Client, Arc<Notices>), Box<dyn std::error::Error + Send + Sync>> {
        let (connector, address) = &*self.outside;
        let (client, _) = timeout(self.connect_timeout(), connector.connect(address)).await??;
        Ok((client, connector.notices()))
    }

    /// Asks the server to cancel the running statement of a connection. The request may fail to arrive.
    pub(super) fn cancel(&self, token: CancelToken) {
        // Without a runtime there are no connections any more.
        if let Ok(runtime) = Handle::try_current() {
            let tls = self.outside.0.tls();
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
        if self.capacity.is_due() {
            let capacity = Arc::clone(&self.capacity);
            let outside = Arc::clone(&self.outside);
            let connect_timeout = self.connect_timeout();
            tokio::spawn(async move {
                let (connector, address) = &*outside;
                if let Ok(Ok(_)) = timeout(connect_timeout, connector.connect(address)).await {
                    capacity.regain();
                }
            });
        }
        loop {
            let permit = self.capacity.acquire(&self.place, self.statement_timeout).await?;
            let error = match self.pool.timeout_get(&self.timeouts).await {
                Ok(object) => return Ok(Lease::new(self, object, permit, statement_timeout)),
                Err(error) => error,
            };
            let failure = error::of_pool(&self.place, error, &self.timeouts);
            // Other connections work, so this call waits for one of them.
            if self.pool.status().size == 0 || self.pool.is_closed() {
                return Err(failure);
            }
            let idle = self.pool.retain(|_, _| true).retained;
            self.capacity.lose(permit, idle, &failure.error);
        }
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

    fn connect_timeout(&self) -> Duration {
        self.timeouts.create.unwrap_or_default()
    }

    fn late(&self) -> Failure {
        let seconds = self.connect_timeout().as_secs_f64();
        let message = format!("{}: no connection within {seconds} s; check host and port", self.place);
        Failure::new(CommitFate::NotSent, Error::new(ErrorKind::Unavailable, message))
    }

    /// Checks that the server is supported.
    async fn greet(&self) -> Attempt<()> {
        let lease = self.lease().await?;
        let sql = "SELECT pg_catalog.current_setting('server_version_num')::int, \
            pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_encoding'), \
            pg_catalog.version()";
        let row = lease.ask(sql, &[]).await?;
        let number: i32 = row.get(0);
        let version: String = row.get(1);
        let encoding: String = row.get(2);
        let product: String = row.get(3);
        let refused = |what: String| {
            let error = Error::new(ErrorKind::FailedPrecondition, format!("{}: {what}", self.place));
            Failure::new(CommitFate::NeverApplied, error)
        };
        // Its `server_version` is that of a PostgreSQL.
        if product.contains("CockroachDB") {
            let what = "the server is CockroachDB, which lacks what the tables need; see docs/scale-databases.md";
            return Err(refused(what.to_owned()));
        }
        if number < 130_000 {
            return Err(refused(format!("the server is PostgreSQL {version}; scratchbook needs 13 or newer")));
        }
        if encoding != "UTF8" {
            return Err(refused(format!("the database has the encoding {encoding}; make one with ENCODING 'UTF8'")));
        }
        Ok(())
    }
}
