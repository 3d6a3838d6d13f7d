//! The errors of databases that cannot be opened, and how long they take.

use std::error::Error as _;
use std::time::{Duration, Instant};

use scratchbook::store::PostgresSessionService;
use scratchbook::{ErrorKind, connect};
use scratchbook_test_servers::{Postgres, PostgresOptions};

use super::server::{TestSchema, client, everything};

/// Opens a database that cannot be opened. Checks that the error comes in time, has this kind and does not show the
/// password. Returns its text with its causes.
async fn refused(uri: &str, kind: ErrorKind, most: Duration) -> String {
    let start = Instant::now();
    let error = PostgresSessionService::connect(uri).await.unwrap_err();
    assert!(start.elapsed() < most, "{uri}: {:?}", start.elapsed());
    assert_eq!(error.kind(), kind, "{uri}: {error:?}");
    for secret in ["s3cret", scratchbook_test_servers::postgres().unwrap().split([':', '@']).nth(2).unwrap()] {
        assert!(!everything(&error).contains(secret), "{}", everything(&error));
    }
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns the server's URI with one part replaced.
fn changed(from: &str, to: &str) -> String {
    let uri = scratchbook_test_servers::postgres().unwrap();
    assert!(uri.contains(from), "{uri} has no {from}");
    uri.replacen(from, to, 1)
}

fn password() -> String {
    scratchbook_test_servers::postgres().unwrap().split([':', '@']).nth(2).unwrap().to_owned()
}

#[tokio::test]
async fn a_wrong_password_a_wrong_user_and_a_missing_database_are_told_apart() {
    let soon = Duration::from_secs(5);
    let error = refused(&changed(&password(), "s3cret"), ErrorKind::Unauthenticated, soon).await;
    assert_eq!(error.matches("password authentication failed").count(), 1, "{error}");
    refused(&changed("//scratchbook:", "//nobody:"), ErrorKind::Unauthenticated, soon).await;
    let error =
        refused(&format!("{}_not", scratchbook_test_servers::postgres().unwrap()), ErrorKind::NotFound, soon).await;
    assert!(error.contains("create it") && error.matches("does not exist").count() == 1, "{error}");
}

#[tokio::test]
async fn an_unreachable_and_a_silent_host_end_in_time() {
    let soon = Duration::from_secs(4);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("postgresql://me:s3cret@127.0.0.1:{free}/db?connect_timeout=1");
    let error = refused(&uri, ErrorKind::Unavailable, soon).await;
    assert!(error.contains(&format!("me@127.0.0.1:{free}/db")), "{error}");
    assert_eq!(error.matches("os error").count(), 1, "{error}");
    refused("postgresql://me:s3cret@10.255.255.1/db?connect_timeout=1", ErrorKind::Unavailable, soon).await;
    refused("postgresql://me:s3cret@no-such-host.invalid/db?connect_timeout=1", ErrorKind::Unavailable, soon).await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("postgresql://me:s3cret@{}/db?connect_timeout=1", silent.local_addr().unwrap());
    refused(&uri, ErrorKind::Unavailable, soon).await;
}

#[tokio::test]
async fn with_several_hosts_the_one_that_answers_is_found() {
    let schema = TestSchema::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri =
        schema.uri("&target_session_attrs=read-write").replacen("127.0.0.1", &format!("127.0.0.1:{free},127.0.0.1"), 1);
    let service = PostgresSessionService::connect(&uri).await.unwrap();
    assert!(format!("{service:?}").contains(&format!("scratchbook@127.0.0.1:{free},127.0.0.1")), "{service:?}");
    assert!(!format!("{service:?}").contains(&password()), "{service:?}");
}

#[tokio::test]
async fn a_first_host_that_accepts_and_stays_silent_leaves_time_for_the_next() {
    let schema = TestSchema::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = schema.uri("&connect_timeout=6");
    let uri = uri.replacen("127.0.0.1", &format!("{},127.0.0.1", silent.local_addr().unwrap()), 1);
    PostgresSessionService::connect(&uri).await.unwrap();
}

#[tokio::test]
async fn parameters_and_drivers_are_read() {
    let schema = TestSchema::new();
    let uri =
        schema.uri("&pool_size=2&statement_timeout_ms=5000&retry_timeout_ms=1000&connect_timeout=5&sslmode=disable");
    let uri = uri.replacen("postgresql://", "postgresql+asyncpg://", 1);
    let store = connect(&format!("{uri}&application_name=a%20test&options=-c%20work_mem%3D7MB")).await.unwrap();
    let applications = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a test'";
    assert_eq!(schema.number(applications).await, 1);
    store.sessions.close().await.unwrap();
    for bad in [
        "&options=-c%20work_mem%3Dmuch",
        "&options=-c%20no_such_setting%3D1",
        "&pool_size=0",
        "&poolsize=1",
        "&sslmode=maybe",
        "&schema=a-b",
        "&migrate=yes",
        "&statement_timeout_ms=x",
    ] {
        let error = connect(&schema.uri(bad)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}: {error}");
    }
}

#[tokio::test]
async fn a_database_of_another_encoding_is_refused() {
    let schema = TestSchema::new();
    let name = format!("{}_latin1", schema.name());
    let create = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let admin = client(schema.server()).await;
    admin.batch_execute(&create).await.unwrap();
    let uri = format!("{}/{name}", &schema.server()[..schema.server().rfind('/').unwrap()]);
    let error = refused(&uri, ErrorKind::FailedPrecondition, Duration::from_secs(5)).await;
    assert!(error.contains("LATIN1") && error.contains("UTF8"), "{error}");
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}

#[tokio::test]
async fn a_server_without_connections_left_is_exhausted() {
    let options = PostgresOptions::default().with_fast_disk().with_setting("max_connections", "5");
    let server = Postgres::start(&options.with_setting("superuser_reserved_connections", "0")).unwrap();
    let uri = server.uri();
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(client(&uri).await);
    }
    let error = PostgresSessionService::connect(&format!("{uri}?connect_timeout=3")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error:?}");
    // The server is asked again until the timeout.
    let opening = tokio::spawn(async move { PostgresSessionService::connect(&uri).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(held);
    opening.await.unwrap().unwrap();
}
