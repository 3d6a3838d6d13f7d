//! Certificates for a server, made when it is set up: its own authority, and a certificate that the authority signs.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

use crate::folder::Folder;
use crate::{Error, Result, port};

/// Which connections a server takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum TlsOffer {
    /// Only unencrypted ones.
    #[default]
    Off,
    /// Encrypted and unencrypted ones.
    Offered,
    /// Only encrypted ones.
    Required,
}

/// Where the certificates of a server are.
#[derive(Debug)]
pub(crate) struct CertificateFiles {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Makes an authority and lets it sign a certificate for `localhost` and 127.0.0.1.
pub(crate) fn make(folder: &Folder) -> Result<CertificateFiles> {
    let (authority, certificate, key) = sign().map_err(|error| Error::new(format!("certificates: {error}")))?;
    Ok(CertificateFiles {
        authority: folder.write("ca.pem", &authority)?,
        certificate: folder.write("server.pem", &certificate)?,
        key: folder.write("server.key", &key)?,
    })
}

fn sign() -> std::result::Result<(String, String, String), rcgen::Error> {
    let mut of_authority = CertificateParams::default();
    // Each authority has its own name. A client that trusts another authority then reports an unknown authority, not a
    // wrong signature.
    let name = format!("scratchbook tests {:016x}", port::random());
    of_authority.distinguished_name.push(DnType::CommonName, name);
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    of_authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate()?)?;
    let mut of_server = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    of_server.distinguished_name.push(DnType::CommonName, "localhost");
    let key = KeyPair::generate()?;
    let certificate = of_server.signed_by(&key, &authority)?;
    Ok((authority.pem(), certificate.pem(), key.serialize_pem()))
}
