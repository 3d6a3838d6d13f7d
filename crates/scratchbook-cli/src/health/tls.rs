//! TLS for the request to a server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use scratchbook::{Error, Result};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The certificates that are accepted.
pub(super) enum Trust {
    /// Certificates signed by these authorities, from a PEM file or the system.
    Authorities(Option<PathBuf>),
    /// Any certificate. This is for the server on this machine: the request goes to an address that the server's
    /// certificate does not name. The request contains no secret, and only the status of the response is used.
    Anybody,
}

/// Returns a connection to a host over a stream.
pub(super) fn connect(
    config: ClientConfig,
    host: &str,
    stream: TcpStream,
) -> Result<impl Future<Output = io::Result<TlsStream<TcpStream>>>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|e| Error::invalid(format!("'{host}' is not the name of a host")).with_source(e))?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream))
}

/// Returns the TLS configuration, with the certificates that are accepted.
pub(super) fn config(trust: &Trust) -> Result<ClientConfig> {
    // The provider is explicit, because the process may have no default provider or several providers.
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("no version of TLS can be spoken").with_source(e))?;
    let config = match trust {
        Trust::Authorities(file) => config.with_root_certificates(authorities(file.as_deref())?),
        Trust::Anybody => config.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
    };
    Ok(config.with_no_client_auth())
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore> {
    let mut trusted = RootCertStore::empty();
    let Some(file) = file else {
        // Invalid certificates of the system are ignored.
        let _ = trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(trusted);
    };
    let name = file.display();
    let unreadable = |e| Error::invalid(format!("--ca: '{name}' cannot be read: {e}"));
    for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
        let certificate = certificate.map_err(unreadable)?;
        trusted.add(certificate).map_err(|e| Error::invalid(format!("--ca: '{name}': {e}")))?;
    }
    if trusted.is_empty() {
        return Err(Error::invalid(format!("--ca: '{name}' holds no certificate")));
    }
    Ok(trusted)
}

/// Accepts every certificate whose key the server has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
