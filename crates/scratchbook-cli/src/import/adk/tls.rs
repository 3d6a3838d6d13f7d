//! Connects to PostgreSQL, encrypted according to `sslmode`. An encrypted connection checks the server's certificate.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use scratchbook::store::without_password;
use scratchbook::{Error, Result};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::postgres::failed;

/// The timeout for connecting, unless the URI sets one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AdkTlsMode {
    Disable,
    /// The connection is encrypted if the server supports this and its certificate is valid.
    Prefer,
    Require,
}

/// Connects to the database of a URI.
pub(super) async fn connect(uri: &str) -> Result<Client> {
    let name = without_password(uri);
    let (mut config, mode, root) = read(uri)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if mode != AdkTlsMode::Disable {
        let encrypted = MakeRustlsConnect::new(tls(root.as_deref())?);
        match config.ssl_mode(SslMode::Require).connect(encrypted).await {
            Ok((client, connection)) => return Ok(driven(client, connection)),
            // An error from the server itself would also occur without encryption, so there is no second attempt.
            Err(error) if mode == AdkTlsMode::Require || error.code().is_some() => {
                let hint = "; name the authority of its certificate with sslrootcert=FILE";
                let hint = if error.code().is_none() { hint } else { "" };
                return Err(failed(&name, &error, hint));
            }
            Err(_) => {}
        }
    }
    let (client, connection) =
        config.ssl_mode(SslMode::Disable).connect(NoTls).await.map_err(|e| failed(&name, &e, ""))?;
    Ok(driven(client, connection))
}

/// Runs a connection in the background until its client is dropped.
fn driven(client: Client, connection: impl Future + Send + 'static) -> Client {
    tokio::spawn(async move {
        // The client reports errors of the connection.
        let _ = connection.await;
    });
    client
}

/// Reads the parameters of a URI that concern TLS, and leaves the rest to the driver.
fn read(uri: &str) -> Result<(Config, AdkTlsMode, Option<String>)> {
    let (address, parameters) = uri.split_once('?').unwrap_or((uri, ""));
    let (mut mode, mut root, mut rest) = (AdkTlsMode::Prefer, None, Vec::new());
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            // asyncpg calls this parameter `ssl`.
            Some(("sslmode" | "ssl", "disable")) => mode = AdkTlsMode::Disable,
            Some(("sslmode" | "ssl", "allow" | "prefer")) => mode = AdkTlsMode::Prefer,
            Some(("sslmode" | "ssl", "require" | "verify-ca" | "verify-full" | "true")) => mode = AdkTlsMode::Require,
            Some(("sslrootcert", path)) => root = Some(path.to_owned()),
            _ => rest.push(parameter),
        }
    }
    let plain = if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
    let config = plain.parse().map_err(|e: tokio_postgres::Error| {
        // The cause may quote a part of the URI.
        let name = without_password(uri);
        Error::invalid(format!("{name}: {e}; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"))
    })?;
    Ok((config, mode, root))
}

fn tls(root: Option<&str>) -> Result<ClientConfig> {
    let mut trusted = RootCertStore::empty();
    match root {
        Some(path) => {
            let unreadable = |e| Error::invalid(format!("sslrootcert: {path} cannot be read: {e}"));
            for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                let certificate = certificate.map_err(unreadable)?;
                trusted.add(certificate).map_err(|e| Error::invalid(format!("sslrootcert: {path}: {e}")))?;
            }
        }
        // Invalid certificates of the system are ignored.
        None => drop(trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    // The provider is explicit, because the process may have none or several.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("no version of TLS can be spoken").with_source(e))?;
    Ok(config.with_root_certificates(trusted).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use scratchbook::ErrorKind;

    use super::*;

    #[test]
    fn a_uri_says_how_it_is_encrypted() {
        let mode = |uri: &str| read(uri).map(|(_, mode, root)| (mode, root));
        let uri = "postgresql://me:s3cret@db/agents";
        assert_eq!(mode(uri).unwrap(), (AdkTlsMode::Prefer, None));
        assert_eq!(mode(&format!("{uri}?ssl=disable&application_name=x")).unwrap(), (AdkTlsMode::Disable, None));
        let root = Some("ca.pem".to_owned());
        assert_eq!(
            mode(&format!("{uri}?sslmode=verify-full&sslrootcert=ca.pem")).unwrap(),
            (AdkTlsMode::Require, root)
        );
        for bad in ["?sslmode=s3cret", "?unknown=s3cret"] {
            let error = mode(&format!("{uri}{bad}")).unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidArgument && !error.to_string().contains("s3cret"), "{error}");
        }
        assert!(tls(Some("no such file")).unwrap_err().to_string().contains("no such file"));
    }
}
