//! The URI: our own parameters and the driver's.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use scratchbook_core::error::{Error, Result};
pub(crate) use scratchbook_database::{DatabaseOptions, DatabaseUri, LOCK_TIMEOUT, TlsMode};

/// The parameters that the driver supports.
const DRIVER: &[&str] = &[
    "application_name",
    "channel_binding",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

const KNOWN: &str = "'schema', 'pool_size', 'connect_timeout', 'statement_timeout_ms', 'retry_timeout_ms', 'sslmode', \
    'sslrootcert', 'migrate', and libpq's 'application_name', 'options', 'target_session_attrs' and the like";

/// Parses a URI. The parameters that are left in it are the driver's.
pub(super) fn read(uri: &str) -> Result<(DatabaseUri, DatabaseOptions)> {
    let mut uri = DatabaseUri::parse(uri)?;
    if !matches!(uri.scheme.as_str(), "postgresql" | "postgres") {
        let scheme = &uri.scheme;
        return Err(Error::invalid(format!("the scheme '{scheme}' is not PostgreSQL's; it is 'postgresql'")));
    }
    if let Some(ssl) = uri.take("ssl") {
        uri.parameters.insert(0, ("sslmode".to_owned(), ssl_mode(ssl)));
    }
    let mut options = DatabaseOptions::from_uri(&mut uri)?;
    options.schema = uri.take("schema").filter(|schema| !schema.is_empty());
    let driver = DRIVER.iter().filter_map(|name| Some(((*name).to_owned(), uri.take(name)?))).collect();
    uri.finish(KNOWN)?;
    uri.parameters = driver;
    config(&uri, &options)?;
    Ok((uri, options))
}

/// Translates asyncpg's `ssl` parameter.
fn ssl_mode(ssl: String) -> String {
    match ssl.as_str() {
        "true" | "on" | "1" => "require".to_owned(),
        "false" | "off" | "0" => "disable".to_owned(),
        _ => ssl,
    }
}

/// Returns the driver's configuration.
pub(super) fn config(uri: &DatabaseUri, options: &DatabaseOptions) -> Result<Config> {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let parameters: Vec<_> = uri.parameters.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    let text = format!("postgresql://{}?{}", uri.address, parameters.join("&"));
    // The driver's own error could quote a secret.
    let mut config: Config = text.parse().map_err(|_| {
        Error::invalid(format!(
            "{uri}: the address or a parameter cannot be read; it is \
             postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters percent-encoded"
        ))
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        config.host("localhost");
    }
    if config.get_application_name().is_none() {
        config.application_name("scratchbook");
    }
    config.connect_timeout(options.connect_timeout);
    find_dead_connections(&mut config, uri);
    // A socket in the file system needs no encryption.
    let local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    config.ssl_mode(match options.tls {
        _ if local => SslMode::Disable,
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
    });
    Ok(config)
}

/// Sets timeouts that find dead connections: if a firewall has dropped a connection, or the server has lost its power,
/// the connection is merely silent.
fn find_dead_connections(config: &mut Config, uri: &DatabaseUri) {
    const SILENT: Duration = Duration::from_secs(10);
    // The driver has a default of its own, so its configuration does not show whether the URI sets the value.
    if !uri.parameters.iter().any(|(name, _)| name == "keepalives_idle") {
        config.keepalives_idle(Duration::from_secs(30));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(SILENT);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENT);
    }
}

/// Returns the settings of a connection from its start, as the `options` of the startup message.
///
/// - Plans: a statement is planned once per connection. The plan uses the index that has the order of the rows. In a
///   small table a scan, or reading all rows and sorting them, may look cheaper, but the table may grow before the
///   statement is planned again.
/// - The statements rely on READ COMMITTED: each one sees the commits before it.
/// - The wait for a lock ends before our own timeout, so that the server does not keep working for a connection that is
///   gone. A transaction left open by a process that vanished ends in the same way.
pub(super) fn settings(options: &DatabaseOptions) -> String {
    let millis = |time: Duration| time.as_millis().clamp(1, i32::MAX as u128);
    format!(
        "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off \
         -c enable_sort=off -c jit=off \
         -c default_transaction_isolation=read\\ committed \
         -c lock_timeout={} -c idle_in_transaction_session_timeout={}",
        millis(LOCK_TIMEOUT.min(options.statement_timeout * 3 / 4)),
        millis(options.statement_timeout),
    )
}

#[cfg(test)]
mod tests {
    use super::{config, read};
    use scratchbook_database::TlsMode;

    #[test]
    fn parameters_are_ours_or_the_drivers_or_refused() {
        let text =
            "postgresql+asyncpg://me:s%40cret@db:5433/agents?ssl=true&schema=sb&pool_size=3&application_name=x%20y";
        let (uri, options) = read(text).unwrap();
        assert_eq!((options.tls, options.pool_size, options.schema.as_deref()), (TlsMode::Require, 3, Some("sb")));
        let config = config(&uri, &options).unwrap();
        assert_eq!(config.get_application_name(), Some("x y"));
        assert_eq!((config.get_keepalives_idle().as_secs(), config.get_keepalives_retries()), (30, Some(3)));
        assert_eq!((config.get_ports(), config.get_password()), (&[5433][..], Some(&b"s@cret"[..])));
        for bad in [
            "mysql://db/x",
            "postgresql://db/x?poolsize=3",
            "postgresql://db/x?ssl=maybe",
            "postgresql://db:port/x?password=s3cret",
            "postgresql://me:s3cret@db/x?keepalives=s3cret",
        ] {
            let error = read(bad).unwrap_err();
            assert_eq!(error.kind(), scratchbook_core::error::ErrorKind::InvalidArgument, "{error}");
            assert!(!format!("{error}{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
