//! The tests of MariaDB that depend on the server, on MySQL.

#[path = "../mariadb/certificates.rs"]
mod certificates;
#[path = "../mariadb/migrate.rs"]
mod migrate;
pub(crate) mod server;
#[path = "../mariadb/wire.rs"]
mod wire;

/// The certificates that MySQL makes for itself have no subjectAltName.
#[tokio::test]
async fn a_certificate_that_mysql_made_itself_is_accepted_by_verify_ca() {
    use scratchbook::store::TlsMode;
    let server = server::OwnServer::start(&scratchbook_test_servers::MySqlOptions::default().with_fast_disk()).unwrap();
    let authority = server.folder().join("data/ca.pem");
    certificates::open(&server.uri(), TlsMode::VerifyCa, Some(&authority)).await.unwrap();
    let error = certificates::open(&server.uri(), TlsMode::VerifyFull, Some(&authority)).await.unwrap_err();
    assert!(error.to_string().contains("subjectAltName=IP:127.0.0.1"), "{error}");
}
