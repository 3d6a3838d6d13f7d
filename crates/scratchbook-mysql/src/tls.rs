//! Encryption, by the modes of `sslmode`.

use mysql_async::SslOpts;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, crypto};

use super::error::{self, refused_tls};
use scratchbook_core::error::{Error, Result};
use scratchbook_database::{DatabaseOptions, TlsMode};

/// Returns the driver's options, or `None` for no encryption.
pub(super) async fn options(mode: &TlsMode, options: &DatabaseOptions, place: &str) -> Result<Option<SslOpts>> {
    if *mode == TlsMode::Disable {
        return Ok(None);
    }
    // The driver uses the process's default crypto provider. Without a default, rustls panics if the features of the
    // whole program enable two providers. A provider that is already installed stays.
    if crypto::CryptoProvider::get_default().is_none() {
        let _ = crypto::ring::default_provider().install_default();
    }
    let ssl = SslOpts::default();
    if matches!(mode, TlsMode::Prefer | TlsMode::Require) {
        return Ok(Some(ssl.with_danger_accept_invalid_certs(true)));
    }
    let roots = match &options.root_certificate {
        Some(path) => {
            let what = || format!("{place}: sslrootcert={}: the file cannot be read", path.display());
            let bytes = tokio::fs::read(path).await.map_err(|e| refused_tls(what()).with_source(e))?;
            vec![bytes.into()]
        }
        None => rustls_native_certs::load_native_certs().certs.into_iter().map(|cert| cert.to_vec().into()).collect(),
    };
    if roots.is_empty() {
        let what = "the system has no certificates of trusted authorities; name a file with sslrootcert";
        return Err(refused_tls(format!("{place}: {what}")));
    }
    Ok(Some(ssl.with_root_certs(roots).with_disable_built_in_roots(true)))
}

/// Returns a name that the server's certificate is valid for, if a wrong name was the only error.
///
/// `verify-ca` connects again under this name. The driver's own option for this does not work, because it searches
/// errors for words that rustls no longer uses.
pub(super) fn presented_name(error: &mysql_async::Error) -> Option<String> {
    let rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) =
        error::cause::<rustls::Error>(error)?
    else {
        return None;
    };
    // The forms are `DnsName("db.example.com")` and `IpAddress(127.0.0.1)`.
    let inner = presented.iter().filter_map(|name| name.split_once('(')?.1.strip_suffix(')'));
    let mut names = inner.map(|name| name.trim_matches('"').replacen("*.", "any.", 1));
    names.find(|name| ServerName::try_from(name.as_str()).is_ok())
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
    let what = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate is of no authority that is trusted; name the right one with sslrootcert"
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })
            if presented.is_empty() =>
        {
            "the server's certificate has no names (subjectAltName), without which it cannot be checked; give it a \
             certificate that has one, or sslmode=require"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "the server's certificate is for another name; use that name, or sslmode=verify-ca",
        rustls::Error::InvalidCertificate(_) => "the server's certificate is not valid",
        _ => "the server and we cannot agree on encryption",
    };
    refused_tls(what.to_owned()).with_source(error.clone())
}
