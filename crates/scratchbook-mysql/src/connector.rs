//! Making a connection: its address, its encryption and its settings.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio::time::timeout;

use super::connection::Connections;
use super::error::{self, Stage, failure};
use super::relay::Relay;
use super::tls;
use super::uri::DatabaseAddress;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_database::{Attempt, CertificateCheck, DatabaseOptions, LOCK_TIMEOUT, TlsMode, client_config};

/// How many prepared statements a connection keeps; this crate has fewer.
const STATEMENTS: usize = 64;

/// The largest packet of the protocol. Our commands are checked against the server's own limit.
const MAX_PACKET: usize = 1 << 30;

/// Properties of the server.
#[derive(Debug)]
pub(super) struct ServerProperties {
    /// The maximum size of a command, in bytes.
    pub(super) max_packet: usize,
}

/// Connects to a server and reads its properties.
pub(super) async fn open(
    target: DatabaseAddress,
    options: &DatabaseOptions,
) -> Result<(ServerProperties, Connections)> {
    let place = Arc::<str>::from(target.place.as_str());
    let seconds = options.connect_timeout.as_secs_f64();
    let opened = timeout(options.connect_timeout, open_untimed(target, options)).await;
    opened.unwrap_or_else(|_| Err(error::unreached(&place, seconds))).map_err(|failure| failure.error)
}

async fn open_untimed(target: DatabaseAddress, options: &DatabaseOptions) -> Attempt<(ServerProperties, Connections)> {
    let place = Arc::<str>::from(target.place.as_str());
    let builder = OptsBuilder::default()
        .ip_or_hostname(target.host)
        .tcp_port(target.port)
        .user(target.user)
        .pass(target.password)
        .db_name(Some(target.database))
        .socket(target.socket.clone())
        .prefer_socket(false)
        .stmt_cache_size(STATEMENTS)
        .max_allowed_packet(Some(MAX_PACKET))
        .wait_timeout(Some(0));
    // A socket in the file system needs no encryption.
    let mode = if target.socket.is_some() { TlsMode::Disable } else { options.tls };
    let (mut connection, builder, relay) = first(builder, &options.clone().with_tls(mode), &place).await?;
    let (server, setup) = describe(&mut connection, &place).await?;
    connection.query_drop(&setup).await.map_err(|error| failure(&place, Stage::Connecting, &error))?;
    let connections = Connections::new(builder.setup(vec![setup]).into(), relay, place, connection, options);
    Ok((server, connections))
}

/// Makes the first connection, which determines whether encryption is used, and whose.
async fn first(
    builder: OptsBuilder,
    options: &DatabaseOptions,
    place: &str,
) -> Attempt<(Conn, OptsBuilder, Option<Relay>)> {
    let failed = |error: mysql_async::Error| failure(place, Stage::Connecting, &error);
    let ssl = tls::options(options).map_err(|error| error.context(place))?;
    let mut error = match dial(builder.clone().ssl_opts(ssl).into(), CertificateCheck::of(options)).await {
        Ok((connection, opts)) => return Ok((connection, OptsBuilder::from_opts(opts), None)),
        Err(error) => error,
    };
    if tls::is_refused_by_driver(&error) {
        let config = client_config(options).map_err(|error| error.context(place))?;
        let opts = Opts::from(builder.clone());
        let relay = Relay::start(opts.ip_or_hostname().to_owned(), opts.tcp_port(), config);
        let relay = relay.map_err(|error| failed(mysql_async::Error::Io(error.into())))?;
        let builder = builder.clone().socket(Some(relay.socket().to_string_lossy()));
        match Conn::new(builder.clone()).await {
            Ok(connection) => return Ok((connection, builder, Some(relay))),
            Err(end) => error = relay.failure().map_or(end, |failure| mysql_async::Error::Io(failure.into())),
        }
    }
    if options.tls == TlsMode::Prefer && tls::may_do_without(&error) {
        let connection = Conn::new(builder.clone()).await.map_err(failed)?;
        return Ok((connection, builder, None));
    }
    Err(failed(error))
}

/// Connects. If only the chain is to be checked, and only the server's name is wrong, connects again without this check.
pub(super) async fn dial(opts: Opts, check: CertificateCheck) -> mysql_async::Result<(Conn, Opts)> {
    let error = match Conn::new(opts.clone()).await {
        Ok(connection) => return Ok((connection, opts)),
        Err(error) => error,
    };
    let ssl = opts.ssl_opts().filter(|_| check == CertificateCheck::Chain);
    let Some(ssl) = ssl.and_then(|ssl| tls::without_name(ssl, &error)) else {
        return Err(error);
    };
    let opts = Opts::from(OptsBuilder::from_opts(opts).ssl_opts(ssl));
    Ok((Conn::new(opts.clone()).await?, opts))
}

/// Returns the server's properties, and the settings for every connection.
async fn describe(connection: &mut Conn, place: &str) -> Attempt<(ServerProperties, String)> {
    let failed = |error: mysql_async::Error| failure(place, Stage::Connecting, &error);
    let sql = "SELECT VERSION(), @@max_allowed_packet";
    let found: Option<(String, u64)> = connection.query_first(sql).await.map_err(failed)?;
    let no_version = || Error::internal(format!("{place}: the server has no version")).for_operator();
    let (version, packet) = found.ok_or_else(no_version)?;
    check_version(&version, place).map_err(Error::for_operator)?;
    let cluster: Option<(String, String)> =
        connection.query_first("SHOW VARIABLES LIKE 'wsrep_on'").await.map_err(failed)?;
    // Without this setting, a read in a Galera cluster may miss what was just written through another node. A stronger
    // setting of the server stays.
    let is_cluster = cluster.is_some_and(|(_, on)| on == "ON");
    if is_cluster {
        tracing::warn!(
            database = place,
            "this server is a node of a Galera cluster: let all processes write to one node; a cluster that is written \
             to on several nodes can lose acknowledged writes"
        );
    }
    let sync = if is_cluster { ", wsrep_sync_wait = @@GLOBAL.wsrep_sync_wait | 1" } else { "" };
    // The wait for a lock of a row or a table ends before our own timeout, so that we know that nothing was applied.
    // The other settings reset values that may have been changed globally on the server: a COMMIT that chains or
    // disconnects, or a limit on rows.
    let wait = LOCK_TIMEOUT.as_secs();
    let setup = format!(
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         group_concat_max_len = 1048576, innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}, \
         completion_type = 0, sql_select_limit = DEFAULT, sql_safe_updates = 0{sync}"
    );
    Ok((ServerProperties { max_packet: usize::try_from(packet).unwrap_or(MAX_PACKET) }, setup))
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
