//! Encryption, by the modes of `sslmode`.

use mysql_async::SslOpts;
use rustls::{CertificateError, crypto};

use super::error;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_database::{CertificateCheck, DatabaseOptions, TlsMode, describe_tls, trusted_certificates};

/// Returns the driver's options, or `None` for no encryption.
pub(super) fn options(options: &DatabaseOptions) -> Result<Option<SslOpts>> {
    if options.tls == TlsMode::Disable {
        return Ok(None);
    }
    // The driver uses the process's default crypto provider. Without a default, rustls panics if the features of the
    // whole program enable two providers. A provider that is already installed stays.
    if crypto::CryptoProvider::get_default().is_none() {
        let _ = crypto::ring::default_provider().install_default();
    }
    let ssl = SslOpts::default();
    if CertificateCheck::of(options) == CertificateCheck::Nothing {
        return Ok(Some(ssl.with_danger_accept_invalid_certs(true)));
    }
    let roots: Vec<_> = trusted_certificates(options)?.iter().map(|root| root.to_vec().into()).collect();
    if roots.is_empty() {
        let what = "no trusted authority is known; name a file of certificates with sslrootcert";
        return Err(Error::new(ErrorKind::FailedPrecondition, what));
    }
    Ok(Some(ssl.with_root_certs(roots).with_disable_built_in_roots(true)))
}

/// Returns options that check only the chain, if a wrong name was the only error.
///
/// The driver ignores a wrong name only if the error's text contains `NotValidForName`, which rustls no longer writes.
/// The text still contains the name that the driver looked for, and this name can be chosen.
pub(super) fn without_name(ssl: &SslOpts, error: &mysql_async::Error) -> Option<SslOpts> {
    let rustls::Error::InvalidCertificate(
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
    ) = error::cause::<rustls::Error>(error)?
    else {
        return None;
    };
    let ssl = ssl.clone().with_danger_skip_domain_validation(true);
    Some(ssl.with_danger_tls_hostname_override(Some("NotValidForName")))
}

/// Returns whether the driver cannot use a certificate that others can: webpki has no error of its own for it.
pub(super) fn is_refused_by_driver(error: &mysql_async::Error) -> bool {
    let other = |error: &rustls::Error| {
        matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::BadEncoding))
    };
    error::cause(error).is_some_and(other)
}

/// Returns whether a connection without encryption may succeed after this error: the server does not support
/// encryption, or the handshake failed. A server that refuses the login itself, for example the password, would refuse
/// it again.
pub(super) fn may_do_without(error: &mysql_async::Error) -> bool {
    use mysql_async::{DriverError, Error};
    matches!(error, Error::Io(_) | Error::Driver(DriverError::NoClientSslFlagFromServer))
}

/// Describes a failed handshake in words.
pub(super) fn describe(error: &rustls::Error) -> Error {
    Error::new(ErrorKind::FailedPrecondition, describe_tls(error)).with_source(error.clone())
}
