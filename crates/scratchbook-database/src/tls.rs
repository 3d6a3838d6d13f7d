//! Encryption as libpq has it: which checks of the server's certificate each `sslmode` makes, and how a failed one is
//! described.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{self, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, ServerName, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_cert::certificate::{Certificate, Version};
use x509_cert::der::{Decode, Encode, EncodeValue};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::options::{DatabaseOptions, TlsMode};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Which checks the server's certificate has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateCheck {
    /// None: the connection is encrypted, with whatever server.
    Nothing,
    /// A trusted authority issued it.
    Chain,
    /// A trusted authority issued it for this host.
    ChainAndName,
}

impl CertificateCheck {
    /// Returns the checks that the options ask for.
    pub fn of(options: &DatabaseOptions) -> Self {
        match options.tls {
            // As in libpq, the chain is checked if authorities are given.
            TlsMode::Require if options.root_certificate.is_some() => Self::Chain,
            TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => Self::Nothing,
            TlsMode::VerifyCa => Self::Chain,
            TlsMode::VerifyFull => Self::ChainAndName,
        }
    }
}

/// Returns a configuration that makes the checks of the options.
pub fn client_config(options: &DatabaseOptions) -> Result<ClientConfig> {
    // The provider is explicit, because rustls panics if the program has no default provider and several candidates.
    let provider = Arc::new(ring::default_provider());
    let check = CertificateCheck::of(options);
    let trusted = if check == CertificateCheck::Nothing { Vec::new() } else { trusted_certificates(options)? };
    let mut chain = None;
    if check != CertificateCheck::Nothing {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let no_authority = "no trusted authority is known; name a file of certificates with sslrootcert";
        chain = Some(verifier.map_err(|e| Error::new(ErrorKind::FailedPrecondition, no_authority).with_source(e))?);
    }
    let algorithms = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("TLS 1.2 and 1.3 are missing in this build").with_source(e))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { check, trusted, chain, algorithms }));
    Ok(config.with_no_client_auth())
}

/// Returns the certificates of the file that the options name, or else the system's.
pub fn trusted_certificates(options: &DatabaseOptions) -> Result<Vec<CertificateDer<'static>>> {
    let file = options.root_certificate.as_ref().filter(|file| file.as_os_str() != "system");
    let Some(file) = file else {
        return Ok(rustls_native_certs::load_native_certs().certs);
    };
    let unreadable = |why: String| {
        let message = format!("sslrootcert={}: {why}; it must be a file of certificates in PEM", file.display());
        Error::new(ErrorKind::FailedPrecondition, message)
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(|e| unreadable(e.to_string()))?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(|e| unreadable(e.to_string()))?;
    if certificates.is_empty() {
        return Err(unreadable("there is no certificate in it".to_owned()));
    }
    Ok(certificates)
}

/// Says what is wrong with an encrypted connection, and what to change.
pub fn describe(error: &rustls::Error) -> String {
    use CertificateError as E;
    let rustls::Error::InvalidCertificate(error) = error else {
        return format!("the server and the client do not agree on encryption ({error}); see sslmode");
    };
    match error {
        E::UnknownIssuer => {
            "the server's certificate is not from a trusted authority; name its authority's file with sslrootcert"
                .to_owned()
        }
        E::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            let host = expected.to_str();
            let kind = if matches!(expected, ServerName::IpAddress(_)) { "IP" } else { "DNS" };
            format!(
                "the server's certificate has no subjectAltName, and a name in its CN alone does not count; issue it \
                 again with subjectAltName={kind}:{host}, or use sslmode=verify-ca, which checks only its authority"
            )
        }
        E::NotValidForNameContext { expected, presented } => format!(
            "the server's certificate is for another name, {}, not for {}; use its name as the host, or \
             sslmode=verify-ca, which checks only its authority",
            presented.join(", "),
            expected.to_str()
        ),
        E::Expired | E::ExpiredContext { .. } | E::NotValidYet | E::NotValidYetContext { .. } => {
            format!("the server's certificate has expired, or is not valid yet ({error}); issue it again")
        }
        // rustls has no variant for this error of webpki.
        E::Other(why) if why.to_string() == "CaUsedAsEndEntity" => {
            "the server's certificate is the certificate of an authority; put this certificate \
             itself into the file that sslrootcert names, or give the server one with basicConstraints=CA:FALSE"
                .to_owned()
        }
        E::Other(why) => format!(
            "the server's certificate cannot be checked ({why}); if it is of version 1, name the authority that signed \
             it with sslrootcert, or issue it again as version 3"
        ),
        error => format!("the server's certificate is not valid: {error}"),
    }
}

/// Runs the requested checks. The signatures of the handshake are always checked.
///
/// OpenSSL accepts two kinds of certificates that webpki refuses, and both are common on databases: certificates of
/// version 1, which `openssl x509 -req` makes, and a certificate of an authority that is the server's own certificate,
/// which `openssl req -x509` makes. They are checked here.
#[derive(Debug)]
struct Verifier {
    check: CertificateCheck,
    trusted: Vec<CertificateDer<'static>>,
    /// `None` if nothing is checked.
    chain: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
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
        use CertificateError as E;
        use rustls::Error::InvalidCertificate;
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        let is_trusted_itself = self.trusted.iter().any(|trusted| trusted == end_entity);
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked last, after the chain was found valid.
            Err(InvalidCertificate(E::NotValidForName | E::NotValidForNameContext { .. }))
                if self.check == CertificateCheck::Chain =>
            {
                return Ok(ServerCertVerified::assertion());
            }
            Err(InvalidCertificate(_)) if is_trusted_itself => {}
            Err(InvalidCertificate(_)) if self.is_version_1_of_trusted(end_entity, now) => {}
            verified => return verified,
        }
        let unreadable = |_| InvalidCertificate(E::BadEncoding);
        let certificate = Certificate::from_der(end_entity).map_err(unreadable)?;
        if !is_valid_at(&certificate, now) {
            return Err(InvalidCertificate(E::Expired));
        }
        if self.check == CertificateCheck::ChainAndName {
            if certificate.tbs_certificate.version == Version::V1 {
                let expected = server_name.to_owned();
                return Err(InvalidCertificate(E::NotValidForNameContext { expected, presented: Vec::new() }));
            }
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(certificate) = version_1(certificate) else {
            return crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms);
        };
        let of_scheme = self.algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signature.scheme);
        let key = &certificate.tbs_certificate.subject_public_key_info;
        if verifies(key, of_scheme.flat_map(|(_, algorithms)| *algorithms), message, signature.signature()) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(certificate) = version_1(certificate) else {
            return crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms);
        };
        let key = certificate.tbs_certificate.subject_public_key_info.to_der();
        let key = SubjectPublicKeyInfoDer::from(key.map_err(|_| CertificateError::BadEncoding)?);
        crypto::verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl Verifier {
    /// Returns whether a certificate of version 1 was signed by an authority that is trusted. Such a certificate has no
    /// extensions, so there is nothing else in it to obey but its dates.
    fn is_version_1_of_trusted(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
        let Some(certificate) = version_1(certificate) else { return false };
        let Ok(signed) = certificate.tbs_certificate.to_der() else { return false };
        let signature = certificate.signature.raw_bytes();
        let name = content(&certificate.signature_algorithm);
        self.trusted.iter().filter_map(|trusted| Certificate::from_der(trusted).ok()).any(|authority| {
            let key = &authority.tbs_certificate.subject_public_key_info;
            let algorithms = self.algorithms.all.iter().filter(|known| known.signature_alg_id().as_ref() == name);
            authority.tbs_certificate.subject == certificate.tbs_certificate.issuer
                && is_valid_at(&authority, now)
                && verifies(key, algorithms, &signed, signature)
        })
    }
}

fn version_1(certificate: &CertificateDer<'_>) -> Option<Certificate> {
    let certificate = Certificate::from_der(certificate).ok()?;
    (certificate.tbs_certificate.version == Version::V1).then_some(certificate)
}

fn is_valid_at(certificate: &Certificate, now: UnixTime) -> bool {
    let validity = &certificate.tbs_certificate.validity;
    let seconds = validity.not_before.to_unix_duration().as_secs()..=validity.not_after.to_unix_duration().as_secs();
    seconds.contains(&now.as_secs())
}

/// Returns whether a key made a signature by one of the algorithms.
fn verifies<'a>(
    key: &SubjectPublicKeyInfoOwned,
    mut algorithms: impl Iterator<Item = &'a &'static dyn SignatureVerificationAlgorithm>,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let kind = content(&key.algorithm);
    algorithms.any(|algorithm| {
        algorithm.public_key_alg_id().as_ref() == kind
            && algorithm.verify_signature(key.subject_public_key.raw_bytes(), message, signature).is_ok()
    })
}

/// Returns the DER of an algorithm without the tag and length around it, which is the form that rustls compares.
fn content(algorithm: &AlgorithmIdentifierOwned) -> Vec<u8> {
    let mut content = Vec::new();
    // Writing to memory cannot fail; what could not be encoded would match nothing.
    let _ = algorithm.encode_value(&mut content);
    content
}
