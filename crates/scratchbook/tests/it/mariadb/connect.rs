//! Errors of connecting: they are described in words, come within a bounded time, and do not show the password.

use std::error::Error as StdError;
use std::time::{Duration, Instant};

use scratchbook::store::{DatabaseOptions, MySqlSessionService, TlsMode};
use scratchbook::{CreateSessionConfig, Error, ErrorKind, SessionService, connect};
use scratchbook_test_servers::{MariaDb, MariaDbOptions};
use tokio::net::TcpListener;

use super::server::TestDatabase;

const SECRET: &str = "s3cr3t-p4ssw0rd";

/// Returns the error of opening a URI. The error has to come soon and must not show the password.
async fn refused(uri: &str) -> Error {
    let started = Instant::now();
    let error = MySqlSessionService::connect(uri).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5), "{error} after {:?}", started.elapsed());
    let mut shown = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        shown += &format!(" {cause} {cause:?}");
        source = cause.source();
    }
    assert!(!shown.contains(SECRET), "{shown}");
    let password =
        uri.split_once("//").and_then(|(_, rest)| rest.split_once('@')).and_then(|(who, _)| who.split_once(':'));
    if let Some((_, password)) = password {
        assert!(!shown.contains(password), "{shown}");
    }
    error
}

/// Returns the URI with one part replaced.
fn with(uri: &str, part: &str, other: &str) -> String {
    let changed = uri.replacen(part, other, 1);
    assert_ne!(changed, uri);
    changed
}

fn password(uri: &str) -> &str {
    uri.split_once("//").unwrap().1.split_once(':').unwrap().1.split_once('@').unwrap().0
}

#[tokio::test]
async fn a_wrong_user_or_password_is_unauthenticated() {
    let uri = TestDatabase::new().await.uri();
    for wrong in [with(&uri, password(&uri), SECRET), with(&uri, "//scratchbook:", "//nobody:")] {
        let error = refused(&wrong).await;
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
        assert!(error.to_string().contains("@127.0.0.1:"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_database_is_not_found() {
    let uri = TestDatabase::new().await.uri();
    let error = refused(&format!("{uri}_none")).await;
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn a_user_without_rights_is_not_permitted() {
    let database = TestDatabase::new().await;
    database.sql(&format!("CREATE USER {}_poor IDENTIFIED BY '{SECRET}'", database.name())).await;
    let uri = with(&database.uri(), "//scratchbook:", &format!("//{}_poor:", database.name()));
    let uri = with(&uri, password(&uri), SECRET);
    let error = refused(&uri).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_says_nothing_is_unavailable_in_time() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = free.local_addr().unwrap();
    drop(free);
    for place in [gone.to_string(), silent.local_addr().unwrap().to_string(), "10.255.255.1:3306".to_owned()] {
        let error = refused(&format!("mysql://me:{SECRET}@{place}/x?connect_timeout=1")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(&place), "{error}");
    }
    let error = refused(&format!("mysql://me:{SECRET}@no-such-host.invalid/x?connect_timeout=2")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn drivers_are_ignored_and_unknown_parameters_are_refused() {
    let database = TestDatabase::new().await;
    for scheme in ["mysql+aiomysql://", "mariadb://", "mariadb+asyncmy://"] {
        let uri = format!("{}?charset=utf8mb4&pool_size=2", with(&database.uri(), "mysql://", scheme));
        connect(&uri).await.unwrap().sessions.close().await.unwrap();
    }
    let error = refused(&format!("{}?poolsize=2", database.uri())).await;
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("'poolsize'") && error.to_string().contains("'pool_size'"), "{error}");
}

#[tokio::test]
async fn debug_shows_no_password() {
    let uri = TestDatabase::new().await.uri();
    let service = MySqlSessionService::connect(&uri).await.unwrap();
    let shown = format!("{service:?}");
    assert!(shown.contains("mysql://scratchbook@127.0.0.1") && !shown.contains(password(&uri)), "{shown}");
}

async fn open(
    uri: &str,
    mode: TlsMode,
    authority: Option<&std::path::Path>,
) -> scratchbook::Result<MySqlSessionService> {
    let mut options = DatabaseOptions::default();
    (options.tls, options.root_certificate) = (mode, authority.map(Into::into));
    let service = MySqlSessionService::open(uri, options).await?;
    service.create_session("app", "alice", CreateSessionConfig::default()).await?;
    Ok(service)
}

#[tokio::test]
async fn encryption_is_checked_as_far_as_was_asked_for() {
    let server = MariaDb::start(&MariaDbOptions::default().with_fast_disk().with_tls()).unwrap();
    let other = MariaDb::start(&MariaDbOptions::default().with_fast_disk().with_tls_only()).unwrap();
    let (uri, right, wrong) = (server.uri(), server.authority(), other.authority());
    for mode in [TlsMode::Disable, TlsMode::Prefer, TlsMode::Require] {
        open(&uri, mode, None).await.unwrap().close().await.unwrap();
    }
    open(&uri, TlsMode::VerifyFull, right).await.unwrap().close().await.unwrap();
    open(&uri, TlsMode::VerifyCa, right).await.unwrap().close().await.unwrap();
    for mode in [TlsMode::VerifyFull, TlsMode::VerifyCa] {
        let error = open(&uri, mode, wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("authority"), "{error}");
    }
    // This server accepts only encrypted connections.
    open(&other.uri(), TlsMode::Require, None).await.unwrap().close().await.unwrap();
    open(&other.uri(), TlsMode::Prefer, None).await.unwrap().close().await.unwrap();
    // MySQL reports this; MariaDB returns the same error as for a wrong password.
    let error = open(&other.uri(), TlsMode::Disable, None).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::FailedPrecondition | ErrorKind::Unauthenticated), "{error}");
    assert!(error.to_string().contains("sslmode=require"), "{error}");
}

#[tokio::test]
async fn a_name_the_certificate_does_not_have_is_refused_by_verify_full_alone() {
    let server =
        MariaDb::start(&MariaDbOptions::default().with_fast_disk().with_tls().with_line("bind-address = 0.0.0.0"))
            .unwrap();
    let elsewhere = with(&server.uri(), "127.0.0.1", "127.0.0.2");
    open(&elsewhere, TlsMode::VerifyCa, server.authority()).await.unwrap().close().await.unwrap();
    let error = open(&elsewhere, TlsMode::VerifyFull, server.authority()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("another name"), "{error}");
}

/// The server's encryption is too old for us. With `prefer`, the connection continues without encryption, as in libpq.
#[tokio::test]
async fn a_handshake_that_fails_stops_only_who_insists() {
    let options = MariaDbOptions::default().with_fast_disk().with_tls().with_line("tls_version = TLSv1.1");
    let server = MariaDb::start(&options).unwrap();
    open(&server.uri(), TlsMode::Prefer, None).await.unwrap();
    let error = open(&server.uri(), TlsMode::Require, None).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::FailedPrecondition | ErrorKind::Unavailable), "{error}");
}

#[tokio::test]
async fn a_server_without_encryption_serves_who_does_not_insist() {
    let uri = TestDatabase::new().await.uri();
    open(&uri, TlsMode::Prefer, None).await.unwrap();
    for mode in [TlsMode::Require, TlsMode::VerifyCa, TlsMode::VerifyFull] {
        let error = open(&uri, mode, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
    }
}

/// Starts a server with a certificate of the fixtures, which takes only encrypted connections.
fn server_with(certificate: &str, folder: &std::path::Path) -> MariaDb {
    let mut options = MariaDbOptions::default().with_fast_disk().with_line("require_secure_transport = ON");
    // The server runs as another user.
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (setting, file) in [("ssl_cert", certificate), ("ssl_key", "openssl.key")] {
        let to = folder.join(file);
        std::fs::copy(tls_fixture(file), &to).unwrap();
        options = options.with_line(format!("{setting} = {}", to.display()));
    }
    MariaDb::start(&options).unwrap()
}

fn tls_fixture(file: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/postgres/tls").join(file)
}

/// The driver refuses the certificates of version 1 and of an authority itself; MySQL's own clients accept them.
#[tokio::test]
async fn certificates_of_openssl_are_checked_as_with_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let authority = tls_fixture("openssl_authority.pem");
    for certificate in ["version_1.pem", "name_in_cn.pem", "own_authority.pem"] {
        let server = server_with(certificate, folder.path());
        let uri = with(&server.uri(), "127.0.0.1", "localhost");
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
        let password = with(&uri, password(&uri), "wrong");
        let error = open(&password, TlsMode::Require, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{certificate}: {error}");
    }
}

#[tokio::test]
async fn a_socket_in_the_file_system_is_used_without_encryption() {
    let server = MariaDb::start(&MariaDbOptions::default().with_fast_disk()).unwrap();
    let socket = server.folder().join("s");
    let uri = format!("mysql://scratchbook:{}@/scratchbook?unix_socket={}", server.password(), socket.display());
    for mode in ["prefer", "verify-full"] {
        let service = MySqlSessionService::connect(&format!("{uri}&sslmode={mode}")).await.unwrap();
        service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    }
    let error = refused(&with(&uri, "unix_socket=", "unix_socket=/nowhere")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("unix_socket=/nowhere"), "{error}");
}

#[tokio::test]
async fn after_a_changed_password_calls_go_on_with_the_connections_that_work() {
    let database = TestDatabase::new().await;
    let user = format!("{}_role", database.name());
    let grant = format!("CREATE USER {user} IDENTIFIED BY '{SECRET}'; GRANT ALL ON *.* TO {user}");
    database.sql(&grant).await;
    let uri = with(&database.uri(), "//scratchbook:", &format!("//{user}:"));
    let uri = format!("{}?pool_size=4", with(&uri, password(&uri), SECRET));
    let service = MySqlSessionService::connect(&uri).await.unwrap();
    let session = service.create_session("app", "alice", CreateSessionConfig::default()).await.unwrap();
    database.sql(&format!("ALTER USER {user} IDENTIFIED BY 'another'")).await;
    let config = scratchbook::GetSessionConfig::default();
    for _ in 0..4 {
        let reads = (0..16).map(|_| service.get_session(session.key(), &config));
        assert!(futures_util::future::join_all(reads).await.iter().all(Result::is_ok));
    }
    let degraded = service.check_writable().await.unwrap();
    assert!(degraded[0].contains("3 of 4 connections") && !degraded[0].contains(&user), "{degraded:?}");
    service.close().await.unwrap();
    database.sql(&format!("DROP USER {user}")).await;
}
