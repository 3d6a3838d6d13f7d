//! Certificates that the driver refuses and MySQL's own clients accept, and a socket in the file system.

use std::path::{Path, PathBuf};

use scratchbook::store::{DatabaseOptions, MySqlSessionService, TlsMode};
use scratchbook::{CreateSessionConfig, ErrorKind, SessionService};
use scratchbook_test_servers::MySqlOptions;

use super::server::OwnServer;

pub(super) async fn open(uri: &str, mode: TlsMode, root: Option<&Path>) -> scratchbook::Result<MySqlSessionService> {
    let mut options = DatabaseOptions::default().with_tls(mode);
    options.root_certificate = root.map(Into::into);
    MySqlSessionService::open(uri, options).await
}

/// Starts a server with a certificate of the fixtures, which takes only encrypted connections.
fn server_with(certificate: &str, folder: &Path) -> OwnServer {
    let mut options = MySqlOptions::default().with_fast_disk().with_line("require_secure_transport = ON");
    // The server runs as another user.
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (setting, file) in [("ssl_cert", certificate), ("ssl_key", "openssl.key")] {
        let to = folder.join(file);
        std::fs::copy(tls_fixture(file), &to).unwrap();
        options = options.with_line(format!("{setting} = {}", to.display()));
    }
    OwnServer::start(&options).unwrap()
}

fn tls_fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/postgres/tls").join(file)
}

/// The driver refuses the certificates of version 1 and of an authority itself; MySQL's own clients accept them.
#[tokio::test]
async fn certificates_of_openssl_are_checked_as_with_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let authority = tls_fixture("openssl_authority.pem");
    for certificate in ["version_1.pem", "name_in_cn.pem", "own_authority.pem"] {
        let server = server_with(certificate, folder.path());
        let uri = server.uri().replacen("127.0.0.1", "localhost", 1);
        let is_own = certificate == "own_authority.pem";
        let right = if is_own { tls_fixture(certificate) } else { authority.clone() };
        let wrong = tls_fixture("other_authority.pem");
        for (mode, root) in [
            (TlsMode::Prefer, None),
            (TlsMode::Require, None),
            (TlsMode::Require, Some(&*right)),
            (TlsMode::VerifyCa, Some(&*right)),
        ] {
            let service = open(&uri, mode, root).await.unwrap_or_else(|e| panic!("{certificate} {mode:?}: {e}"));
            let session = service.create_session("app", "bob", CreateSessionConfig::default()).await.unwrap();
            let big = "x".repeat(300_000);
            let artifact = scratchbook::content::Part::text(big.as_str());
            scratchbook::artifact::ArtifactService::save_artifact(
                &service,
                session.key(),
                "a",
                artifact,
                Default::default(),
            )
            .await
            .unwrap();
            service.close().await.unwrap();
        }
        for mode in [TlsMode::Require, TlsMode::VerifyCa] {
            let error = open(&uri, mode, Some(&*wrong)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{certificate} {mode:?}: {error}");
        }
        let full = open(&uri, TlsMode::VerifyFull, Some(&*right)).await;
        if is_own {
            full.unwrap().close().await.unwrap();
        } else {
            let error = full.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
            assert!(error.to_string().contains("subjectAltName=DNS:localhost"), "{certificate}: {error}");
        }
        let wrong_password = uri.replacen(server.password(), "wrong", 1);
        let error = open(&wrong_password, TlsMode::Require, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{certificate}: {error}");
    }
}

#[tokio::test]
async fn a_socket_in_the_file_system_is_used_without_encryption() {
    let server = OwnServer::start(&MySqlOptions::default().with_fast_disk()).unwrap();
    let socket = server.folder().join("s");
    let uri = format!("mysql://scratchbook:{}@/scratchbook?unix_socket={}", server.password(), socket.display());
    for mode in ["prefer", "verify-full"] {
        let service = MySqlSessionService::connect(&format!("{uri}&sslmode={mode}")).await.unwrap();
        service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    }
    let nowhere = uri.replacen("unix_socket=", "unix_socket=/nowhere", 1);
    let error = MySqlSessionService::connect(&nowhere).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("unix_socket=/nowhere"), "{error}");
}
