//! TLS 1.2 and 1.3, with rustls and ring.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scratchbook::{Error, Result};
use tokio_rustls::TlsAcceptor;

use crate::reload::{self, Reloaded};

/// A certificate and its key in two PEM files. The files are read again when they change.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
}

/// The TLS configuration.
#[derive(Debug)]
pub(crate) struct Certificates {
    config: Reloaded<ServerConfig>,
}

impl Tls {
    /// Sets the files of the certificate chain and of its private key.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// # Errors
    ///
    /// The errors of reading a file; `InvalidArgument` if a file has the wrong contents, or the key does not belong to
    /// the certificate.
    pub(crate) fn open(self) -> Result<Certificates> {
        let Self { certificate, key } = self;
        let paths = vec![certificate.clone(), key.clone()];
        Ok(Certificates { config: Reloaded::new(paths, move || config(&certificate, &key))? })
    }
}

impl Certificates {
    /// Returns the acceptor for the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.get())
    }

    /// # Errors
    ///
    /// The errors of [`Tls::open`]; the previous certificate stays in use.
    pub(crate) fn reload(&self) -> Result<()> {
        self.config.reload()
    }
}

fn config(certificate: &Path, key: &Path) -> Result<ServerConfig> {
    let chain = certificates(certificate)?;
    let secret = private_key(key)?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("ring does not know the versions of TLS").with_source(e))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|e| {
            let (key, certificate) = (key.display(), certificate.display());
            let why = match e {
                rustls::Error::InconsistentKeys(_) => "it is the key of another certificate".to_owned(),
                _ => e.to_string(),
            };
            let message = format!("the key '{key}' does not go with the certificate '{certificate}': {why}");
            Error::invalid(message).with_source(e)
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = reload::read("the TLS certificate", path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|e| not_pem("certificate", path, e))?;
    if chain.is_empty() {
        let path = path.display();
        let message = format!("there is no certificate in '{path}'; it takes PEM, 'BEGIN CERTIFICATE'");
        return Err(Error::invalid(message));
    }
    Ok(chain)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let bytes = reload::read("the TLS key", path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| match e {
        pem::Error::NoItemsFound => {
            let path = path.display();
            let message =
                format!("there is no private key in '{path}'; it takes PEM, 'BEGIN PRIVATE KEY', unencrypted");
            Error::invalid(message)
        }
        e => not_pem("key", path, e),
    })
}

fn not_pem(what: &str, path: &Path, error: pem::Error) -> Error {
    // The error is dropped, since it may quote the file, which may contain a key.
    let _ = error;
    Error::invalid(format!("the TLS {what} '{}' is not well-formed PEM", path.display()))
}
