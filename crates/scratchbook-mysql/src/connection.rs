//! A pool of connections, each of which is lent to one call at a time.
//!
//! The pool is our own: a list and a semaphore. In the driver's pool, a task returns connections some time after a
//! call, so consecutive calls would open new ones. The driver's pool also resets connections, which costs a round trip
//! and loses the prepared statements.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::time::timeout;

use super::connector::dial;
use super::error::{self, Stage, failure};
use super::lease::{Lease, give_up};
use super::relay::Relay;
use scratchbook_database::{Attempt, Capacity, CertificateCheck, DatabaseOptions, Idempotency};

/// After this time without use, a connection is pinged before it is used.
const IDLE: Duration = Duration::from_secs(10);
/// Like `IDLE`, but shorter, for calls that are not idempotent and so are not retried.
const IDLE_BEFORE_ONCE: Duration = Duration::from_millis(100);

/// The timeout of a ping.
const PING: Duration = Duration::from_secs(1);

/// The connections of a service.
pub(super) struct Connections {
    options: Opts,
    check: CertificateCheck,
    /// Carries the connections if the driver cannot encrypt them.
    _relay: Option<Relay>,
    pub(super) place: Arc<str>,
    idle: Mutex<Vec<Idle>>,
    pub(super) capacity: Arc<Capacity>,
    /// How many calls hold a connection.
    pub(super) leased: AtomicUsize,
    connect_timeout: Duration,
    pub(super) statement_timeout: Duration,
}

pub(super) struct Idle {
    pub(super) connection: Conn,
    /// When the connection became idle; `None` if another connection was lost since then.
    pub(super) since: Option<Instant>,
}

impl Connections {
    /// Creates a pool with one connection.
    pub(super) fn new(
        driver: Opts,
        relay: Option<Relay>,
        place: Arc<str>,
        first: Conn,
        options: &DatabaseOptions,
    ) -> Self {
        Self {
            options: driver,
            check: CertificateCheck::of(options),
            _relay: relay,
            place,
            idle: Mutex::new(vec![Idle { connection: first, since: Some(Instant::now()) }]),
            capacity: Capacity::new(options.pool_size),
            leased: AtomicUsize::new(0),
            connect_timeout: options.connect_timeout,
            statement_timeout: options.statement_timeout,
        }
    }

    /// Returns the server's address, without the password.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Takes a connection for one call, which has to end within the statement timeout.
    pub(super) async fn lease(&self, idempotency: Idempotency) -> Attempt<Lease<'_>> {
        if self.capacity.is_due() {
            let capacity = Arc::clone(&self.capacity);
            let made = timeout(self.connect_timeout, dial(self.options.clone(), self.check));
            tokio::spawn(async move {
                if let Ok(Ok((connection, _))) = made.await {
                    capacity.regain();
                    give_up(connection);
                }
            });
        }
        loop {
            let permit = self.capacity.acquire(&self.place, self.statement_timeout).await?;
            let made = match self.reuse(idempotency).await {
                Some(connection) => Ok(connection),
                None => self.connect().await,
            };
            let failure = match made {
                Ok(connection) => return Ok(Lease::new(self, connection, permit)),
                Err(failure) => failure,
            };
            let idle = self.idle().len();
            if (idle == 0 && self.leased.load(Ordering::Relaxed) == 0) || self.capacity.is_closed() {
                return Err(failure);
            }
            // Other connections work, so this call waits for one of them.
            self.capacity.lose(permit, idle, &failure.error);
        }
    }

    pub(super) fn degraded(&self) -> Option<String> {
        self.capacity.degraded()
    }

    async fn reuse(&self, idempotency: Idempotency) -> Option<Conn> {
        let fresh = if idempotency == Idempotency::NotIdempotent { IDLE_BEFORE_ONCE } else { IDLE };
        loop {
            let Idle { mut connection, since } = self.idle().pop()?;
            if since.is_some_and(|since| since.elapsed() < fresh) {
                return Some(connection);
            }
            match timeout(PING.min(self.connect_timeout), connection.ping()).await {
                Ok(Ok(())) => return Some(connection),
                // The other connections are closed too: they have been idle at least as long, and pinging each of them
                // would cost as much time again.
                _ => {
                    give_up(connection);
                    self.drop_idle();
                }
            }
        }
    }

    async fn connect(&self) -> Attempt<Conn> {
        let made = timeout(self.connect_timeout, dial(self.options.clone(), self.check)).await;
        let made = made.map_err(|_| error::unreached(&self.place, self.connect_timeout.as_secs_f64()))?;
        made.map(|(connection, _)| connection).map_err(|error| failure(&self.place, Stage::Connecting, &error))
    }

    /// Closes all idle connections.
    pub(super) fn drop_idle(&self) {
        let idle = std::mem::take(&mut *self.idle());
        idle.into_iter().for_each(|idle| give_up(idle.connection));
    }

    pub(super) fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the idle connections and refuses new calls.
    pub(super) async fn close(&self) {
        self.capacity.close();
        let idle = std::mem::take(&mut *self.idle());
        for Idle { connection, .. } in idle {
            // The server may be gone already.
            let _ = timeout(Duration::from_secs(1), connection.disconnect()).await;
        }
    }
}
