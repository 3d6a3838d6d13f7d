//! TLS, with rustls as the client.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use scratchbook::ErrorKind;
use scratchbook_server::Tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::{LoginFiles, LoopbackServer, demo, get};

/// A certificate for `localhost` in two files.
struct Certificate {
    der: CertificateDer<'static>,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn new(files: &LoginFiles) -> Self {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = files.write("tls.crt", cert.pem());
        let key = files.write("tls.key", signing_key.serialize_pem());
        Self { der: cert.der().clone(), certificate, key }
    }

    fn tls(&self) -> Tls {
        Tls::new(&self.certificate, &self.key)
    }
}

/// Requests `/health` as a client that trusts this certificate.
async fn health(
    running: &LoopbackServer,
    trusted: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, running.connect().await).await?;
    assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn tls_is_spoken_in_its_two_versions_and_nothing_else() {
    let files = LoginFiles::new();
    let certificate = Certificate::new(&files);
    let (_, server) = demo().await;
    let running = LoopbackServer::start(server.tls(certificate.tls()).build().unwrap()).await;
    // A client that does not continue its handshake does not delay others.
    let _silent = running.connect().await;
    for version in [&TLS12, &TLS13] {
        let answer = health(&running, &certificate.der, version).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    let plain = running.exchange(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(!plain.contains("HTTP"), "{plain}");
    let stranger = Certificate::new(&LoginFiles::new());
    assert!(health(&running, &stranger.der, &TLS13).await.is_err());
}

#[tokio::test]
async fn a_new_certificate_counts_without_a_restart() {
    let files = LoginFiles::new();
    let first = Certificate::new(&files);
    let (_, server) = demo().await;
    let running = LoopbackServer::start(server.tls(first.tls()).build().unwrap()).await;
    health(&running, &first.der, &TLS13).await.unwrap();
    let second = Certificate::new(&files);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    health(&running, &second.der, &TLS13).await.unwrap();
    // If a new file cannot be used, the old certificate stays in use.
    fs::write(&second.key, "no key").unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    health(&running, &second.der, &TLS13).await.unwrap();
}

#[tokio::test]
async fn files_that_are_wrong_are_refused_with_the_reason() {
    let (files, others) = (LoginFiles::new(), LoginFiles::new());
    let (own, other) = (Certificate::new(&files), Certificate::new(&others));
    let (empty, text) = (files.write("empty", ""), files.write("text", "not PEM"));
    let broken = files.write("broken", "-----BEGIN PRIVATE KEY-----\n?secret?\n-----END PRIVATE KEY-----\n");
    let invalid = ErrorKind::InvalidArgument;
    for (certificate, key, kind, reason) in [
        (&own.certificate, &other.key, invalid, "the key of another certificate"),
        (&own.key, &own.certificate, invalid, "there is no certificate in"),
        (&own.certificate, &own.certificate, invalid, "there is no private key in"),
        (&empty, &own.key, invalid, "there is no certificate in"),
        (&text, &own.key, invalid, "there is no certificate in"),
        (&own.certificate, &text, invalid, "there is no private key in"),
        (&own.certificate, &broken, invalid, "is not well-formed PEM"),
        (&files.folder.path().join("none"), &own.key, ErrorKind::NotFound, "cannot read the TLS certificate"),
    ] {
        let (_, server) = demo().await;
        let error = server.tls(Tls::new(certificate, key)).build().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn the_own_origin_is_that_of_tls() {
    let files = LoginFiles::new();
    let (_, server) = demo().await;
    let router = server.tls(Certificate::new(&files).tls()).build().unwrap().router();
    for (origin, status) in [("https://localhost:8000", 200), ("http://localhost:8000", 403)] {
        let answer = get(&router, "/list-apps", &[("host", "localhost:8000"), ("origin", origin)]).await;
        assert_eq!(answer.status, status, "{origin}");
    }
}
