//! Encryption, and checks of the server's certificate.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_database::{DatabaseOptions, TlsMode};

/// Which checks the server's certificate has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CertificateCheck {
    Nothing,
    Chain,
    ChainAndName,
}

pub(super) fn connector(options: &DatabaseOptions) -> Result<MakeRustlsConnect> {
    let check = match options.tls {
        // As in libpq, the chain is checked if authorities are given.
        TlsMode::Require if options.root_certificate.is_some() => CertificateCheck::Chain,
        TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => CertificateCheck::Nothing,
        TlsMode::VerifyCa => CertificateCheck::Chain,
        TlsMode::VerifyFull => CertificateCheck::ChainAndName,
    };
    // The provider is explicit, because rustls panics if the program has no default provider and several candidates.
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier { check, chain: chain(check, &provider, options)?, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("no version of TLS can be had").with_source(e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn chain(
    check: CertificateCheck,
    provider: &Arc<CryptoProvider>,
    options: &DatabaseOptions,
) -> Result<Option<Arc<WebPkiServerVerifier>>> {
    if check == CertificateCheck::Nothing {
        return Ok(None);
    }
    let roots = Arc::new(roots(options)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
    let none = "no trusted authority is known; name a file with certificates by 'sslrootcert'";
    verifier.map(Some).map_err(|e| Error::new(ErrorKind::FailedPrecondition, none).with_source(e))
}

fn roots(options: &DatabaseOptions) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let file = options.root_certificate.as_ref().filter(|file| file.as_os_str() != "system");
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unreadable = |e: &dyn std::fmt::Display| {
        let message = format!("sslrootcert={}: {e}; it is a file of certificates in PEM", file.display());
        Error::new(ErrorKind::FailedPrecondition, message)
    };
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| unreadable(&e))? {
        roots.add(certificate.map_err(|e| unreadable(&e))?).map_err(|e| unreadable(&e))?;
    }
    Ok(roots)
}

/// Runs the requested checks. The signatures of the handshake are always checked.
#[derive(Debug)]
struct Verifier {
    check: CertificateCheck,
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::Error::InvalidCertificate;
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is checked last, after the chain was found valid.
            Err(InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == CertificateCheck::Chain => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
