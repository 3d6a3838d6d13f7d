//! Errors of connecting: they are described in words, come within a bounded time, and do not show the password.

use std::error::Error as StdError;
use std::time::{Duration, Instant};

use scratchbook::store::{DatabaseOptions, MySqlSessionService, TlsMode};
use scratchbook::{CreateSessionConfig, Error, ErrorKind, SessionService, connect};
use scratchbook_test_servers::{MariaDb, MySqlOptions};
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
    let server = MariaDb::start(&MySqlOptions::default().with_fast_disk().with_tls()).unwrap();
    let other = MariaDb::start(&MySqlOptions::default().with_fast_disk().with_tls_only()).unwrap();
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
        MariaDb::start(&MySqlOptions::default().with_fast_disk().with_tls().with_line("bind-address = 0.0.0.0"))
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
    let options = MySqlOptions::default().with_fast_disk().with_tls().with_line("tls_version = TLSv1.1");
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
