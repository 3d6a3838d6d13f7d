//! Connections: how one is made, and the pool of them.
//!
//! The pool is our own: a list and a semaphore. The driver's hands a connection back by way of a task, so that a caller who
//! comes right after another opens a new one; and it resets each on its way, which costs a round trip and the prepared
//! statements.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Opts, OptsBuilder, Row, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{timeout, timeout_at};

use super::error::{self, Stage, failure, leaves_connection};
use super::options::Target;
use super::tls;
use crate::error::{Error, ErrorKind, Result};
use crate::store::database::{Attempt, DatabaseOptions, Done, Failure, TlsMode};

/// After so long without use a connection is asked whether it still is one.
const IDLE: Duration = Duration::from_secs(10);
/// The same, before a call that must not be done twice and so is not tried again.
const IDLE_BEFORE_ONCE: Duration = Duration::from_millis(100);

/// How many statements a connection keeps prepared; there are fewer in all.
const STATEMENTS: usize = 64;

/// The largest packet of the protocol. What we send is measured against the server's own bound.
const MAX_PACKET: usize = 1 << 30;

/// What the server is.
#[derive(Debug)]
pub(super) struct Server {
    /// How large a command it takes, in bytes.
    pub(super) max_packet: usize,
}

/// What is to become of a call if its connection turns out to be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// It is tried again.
    Again,
    /// It is not, so that the connection is looked at first.
    Once,
}

/// The connections of a service.
pub(super) struct Connections {
    options: Opts,
    place: Arc<str>,
    idle: Mutex<Vec<Idle>>,
    permits: Arc<Semaphore>,
    connect_timeout: Duration,
    statement_timeout: Duration,
}

struct Idle {
    connection: Conn,
    /// `None` where another connection was lost since.
    since: Option<Instant>,
}

/// Reaches a server and finds out what it is.
pub(super) async fn open(target: Target, options: &DatabaseOptions) -> Result<(Server, Connections)> {
    let (place, seconds) = (Arc::<str>::from(target.place.as_str()), options.connect_timeout.as_secs_f64());
    let opened = timeout(options.connect_timeout, open_untimed(target, options)).await;
    opened.unwrap_or_else(|_| Err(error::unreached(&place, seconds))).map_err(|failure| failure.error)
}

async fn open_untimed(target: Target, options: &DatabaseOptions) -> Attempt<(Server, Connections)> {
    let place = Arc::<str>::from(target.place.as_str());
    let builder = OptsBuilder::default()
        .ip_or_hostname(target.host)
        .tcp_port(target.port)
        .user(target.user)
        .pass(target.password)
        .db_name(Some(target.database))
        .prefer_socket(false)
        .stmt_cache_size(STATEMENTS)
        .max_allowed_packet(Some(MAX_PACKET))
        .wait_timeout(Some(0));
    let (mut connection, builder) = first(builder, options, &place).await?;
    let (server, setup) = describe(&mut connection, options, &place).await?;
    connection.query_drop(&setup).await.map_err(|error| failure(&place, Stage::Connecting, &error))?;
    let connections = Connections {
        options: builder.setup(vec![setup]).into(),
        place,
        idle: Mutex::new(vec![Idle { connection, since: Some(Instant::now()) }]),
        permits: Arc::new(Semaphore::new(options.pool_size.clamp(1, Semaphore::MAX_PERMITS))),
        connect_timeout: options.connect_timeout,
        statement_timeout: options.statement_timeout,
    };
    Ok((server, connections))
}

/// The first connection, which finds out how far encryption goes.
async fn first(builder: OptsBuilder, options: &DatabaseOptions, place: &str) -> Attempt<(Conn, OptsBuilder)> {
    let Some(ssl) = tls::options(&options.tls, options, place).await? else {
        return connected(builder, place).await;
    };
    let encrypted = builder.clone().ssl_opts(ssl.clone());
    match Conn::new(encrypted.clone()).await {
        Ok(connection) => Ok((connection, encrypted)),
        Err(error) if options.tls == TlsMode::Prefer && tls::is_missing(&error) => connected(builder, place).await,
        Err(error) => match tls::presented_name(&error).filter(|_| options.tls == TlsMode::VerifyCa) {
            Some(name) => connected(builder.ssl_opts(ssl.with_danger_tls_hostname_override(Some(name))), place).await,
            None => Err(failure(place, Stage::Connecting, &error)),
        },
    }
}

async fn connected(builder: OptsBuilder, place: &str) -> Attempt<(Conn, OptsBuilder)> {
    let connection = Conn::new(builder.clone()).await;
    Ok((connection.map_err(|error| failure(place, Stage::Connecting, &error))?, builder))
}

/// What the server is, and what every connection says first.
async fn describe(connection: &mut Conn, options: &DatabaseOptions, place: &str) -> Attempt<(Server, String)> {
    let failed = |error: mysql_async::Error| failure(place, Stage::Connecting, &error);
    let sql = "SELECT VERSION(), @@max_allowed_packet";
    let found: Option<(String, u64)> = connection.query_first(sql).await.map_err(failed)?;
    let (version, packet) = found.ok_or_else(|| Error::internal(format!("{place}: the server has no version")))?;
    check_version(&version, place)?;
    let cluster: Option<(String, String)> =
        connection.query_first("SHOW VARIABLES LIKE 'wsrep_on'").await.map_err(failed)?;
    // In a Galera cluster a read may otherwise see less than what was just written by way of another node.
    let sync = if cluster.is_some_and(|(_, on)| on == "ON") { ", wsrep_sync_wait = 1" } else { "" };
    // Waiting for a lock ends before our own patience does, so that it is known what was done: nothing.
    let wait = (options.statement_timeout.as_secs() * 3 / 4).max(1);
    let setup = format!(
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         group_concat_max_len = 1048576, innodb_lock_wait_timeout = {wait}{sync}"
    );
    Ok((Server { max_packet: usize::try_from(packet).unwrap_or(MAX_PACKET) }, setup))
}

fn check_version(version: &str, place: &str) -> Result<()> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0_u32));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (product, least) = if version.contains("MariaDB") { ("MariaDB", (10, 11)) } else { ("MySQL", (8, 0)) };
    if found >= least {
        return Ok(());
    }
    let message = format!("{place}: {product} {version}; it has to be {} {}.{} or newer", product, least.0, least.1);
    Err(Error::new(ErrorKind::FailedPrecondition, message))
}

impl Connections {
    /// Where they lead, without the password.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// A connection for one call, which has to end within the statement timeout.
    pub(super) async fn lease(&self, care: Care) -> Attempt<Lease<'_>> {
        let permit = timeout(self.statement_timeout, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| self.busy())?.map_err(|_| Failure::from(crate::store::closed()))?;
        let connection = match self.reuse(care).await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Lease {
            pool: self,
            connection: Some(connection),
            _permit: permit,
            end: Instant::now() + self.statement_timeout,
            unkept: false,
        })
    }

    async fn reuse(&self, care: Care) -> Option<Conn> {
        let fresh = if care == Care::Once { IDLE_BEFORE_ONCE } else { IDLE };
        loop {
            let Idle { mut connection, since } = self.idle().pop()?;
            if since.is_some_and(|since| since.elapsed() < fresh) {
                return Some(connection);
            }
            match timeout(self.connect_timeout, connection.ping()).await {
                Ok(Ok(())) => return Some(connection),
                _ => give_up(connection),
            }
        }
    }

    async fn connect(&self) -> Attempt<Conn> {
        let made = timeout(self.connect_timeout, Conn::new(self.options.clone())).await;
        let made = made.map_err(|_| error::unreached(&self.place, self.connect_timeout.as_secs_f64()))?;
        made.map_err(|error| failure(&self.place, Stage::Connecting, &error))
    }

    fn busy(&self) -> Failure {
        let seconds = self.statement_timeout.as_secs_f64();
        let what = format!("{}: no connection became free within {seconds} s; raise pool_size", self.place);
        Failure::new(Done::Unreached, Error::new(ErrorKind::ResourceExhausted, what))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections that are idle, and lets no more be had.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        for Idle { connection, .. } in idle {
            // Its server may be gone already.
            let _ = timeout(Duration::from_secs(1), connection.disconnect()).await;
        }
    }
}

/// A connection that serves one call. It goes back when it is known to be as it was, else it is given up.
pub(super) struct Lease<'a> {
    pool: &'a Connections,
    /// `None` while a statement is under way and after one that left it unusable.
    connection: Option<Conn>,
    _permit: OwnedSemaphorePermit,
    end: Instant,
    /// It has a transaction or a lock that goes with it.
    unkept: bool,
}

impl Lease<'_> {
    /// Runs a statement, prepared once a connection, and gives the rows of its first result.
    pub(super) async fn rows(&mut self, sql: &str, values: Vec<Value>) -> Attempt<Vec<Row>> {
        let mut held = self.hold()?;
        let done = timeout_at(self.end.into(), execute(&mut held.connection, sql, values)).await;
        self.settle(held, done)
    }

    /// Runs a statement as text.
    pub(super) async fn query(&mut self, sql: &str) -> Attempt<Vec<Row>> {
        let mut held = self.hold()?;
        let done = timeout_at(self.end.into(), query(&mut held.connection, sql)).await;
        self.settle(held, done)
    }

    /// The value that `LAST_INSERT_ID(...)` was given by the statement before.
    pub(super) fn last_insert_id(&self) -> u64 {
        self.connection.as_ref().and_then(Conn::last_insert_id).unwrap_or_default()
    }

    /// Begins a transaction, which is undone unless it is committed.
    pub(super) async fn begin(&mut self) -> Attempt<()> {
        self.give_up_unless_kept();
        self.query("START TRANSACTION").await.map(drop)
    }

    /// Commits it.
    pub(super) async fn commit(&mut self) -> Attempt<()> {
        self.query("COMMIT").await?;
        self.keep();
        Ok(())
    }

    /// From now on the connection is not used again, unless it is kept.
    pub(super) fn give_up_unless_kept(&mut self) {
        self.unkept = true;
    }

    /// The connection is as it was.
    pub(super) fn keep(&mut self) {
        self.unkept = false;
    }

    /// Gives this call so much time from now on.
    pub(super) fn extend(&mut self, time: Duration) {
        self.end = Instant::now() + time;
    }

    /// Takes the connection for a statement. A call that is dropped in the middle of one leaves an answer on its way,
    /// so the connection goes with it.
    fn hold(&mut self) -> Attempt<Held> {
        match self.connection.take() {
            Some(connection) => Ok(Held { connection: Some(connection) }),
            None => Err(Error::internal("a statement on a connection that was given up").into()),
        }
    }

    fn settle<T>(
        &mut self,
        mut held: Held,
        done: std::result::Result<mysql_async::Result<T>, tokio::time::error::Elapsed>,
    ) -> Attempt<T> {
        let Ok(done) = done else {
            return Err(error::too_slow(&self.pool.place, self.pool.statement_timeout.as_secs_f64()));
        };
        if done.as_ref().map_or_else(leaves_connection, |_| true) {
            self.connection = held.connection.take();
        } else if !matches!(done, Err(mysql_async::Error::Server(_))) {
            // Whatever it was, the others may have met it too.
            self.pool.idle().iter_mut().for_each(|idle| idle.since = None);
        }
        done.map_err(|error| failure(&self.pool.place, Stage::Working, &error))
    }
}

async fn execute(connection: &mut Option<Conn>, sql: &str, values: Vec<Value>) -> mysql_async::Result<Vec<Row>> {
    let connection = connection.as_mut().ok_or(DriverError::ConnectionClosed).map_err(mysql_async::Error::Driver)?;
    let mut result = connection.exec_iter(sql, values).await?;
    let rows = result.collect().await?;
    // What follows, up to the end of a procedure: an error there is an error of the call.
    result.drop_result().await?;
    Ok(rows)
}

async fn query(connection: &mut Option<Conn>, sql: &str) -> mysql_async::Result<Vec<Row>> {
    let connection = connection.as_mut().ok_or(DriverError::ConnectionClosed).map_err(mysql_async::Error::Driver)?;
    connection.query(sql).await
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.unkept || self.pool.permits.is_closed() {
            return give_up(connection);
        }
        self.pool.idle().push(Idle { connection, since: Some(Instant::now()) });
    }
}

/// Gives a connection up when it is dropped.
struct Held {
    connection: Option<Conn>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            give_up(connection);
        }
    }
}

/// Drops a connection at once: the driver would first read what is still on its way. The server undoes what it had
/// begun.
fn give_up(connection: Conn) {
    let _ = connection.disconnect().now_or_never();
}

#[cfg(test)]
mod tests {
    use super::check_version;

    #[test]
    fn old_servers_are_refused() {
        for good in ["8.0.36", "8.4.0-log", "9.1.0", "10.11.14-MariaDB-0+deb12u2", "11.4.2-MariaDB"] {
            assert!(check_version(good, "db").is_ok(), "{good}");
        }
        for bad in ["5.7.44-log", "10.6.18-MariaDB", "5.5.68-MariaDB"] {
            let error = check_version(bad, "db").unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("or newer"), "{error}");
        }
    }
}
