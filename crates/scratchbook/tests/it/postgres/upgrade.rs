//! `tests/fixtures/postgres/v1.sql` is the output of `pg_dump` for a database with the tables of version 1 that was filled
//! like the fixtures of all stores. Every later version opens it.

use std::path::PathBuf;

use scratchbook::{Store, connect};

use super::server::client;
use crate::fixtures::{check, fill, fixture};

/// The schema that the dump creates.
const SCHEMA: &str = "scratchbook_fixture";

async fn open(server: &str) -> Store {
    connect(&format!("{server}?schema={SCHEMA}")).await.unwrap()
}

#[tokio::test]
async fn tables_of_version_1_are_upgraded_in_place_and_read_as_they_were() {
    let uri = scratchbook_test_servers::postgres().unwrap();
    let server = client(&uri).await;
    let dump = fixture("postgres/v1.sql");
    server.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; {dump}")).await.unwrap();
    let store = open(&uri).await;
    check(&store).await;
    store.sessions.close().await.unwrap();
    server.batch_execute(&format!("DROP SCHEMA {SCHEMA} CASCADE")).await.unwrap();
}

/// Rewrites the file if `SCRATCHBOOK_WRITE_FIXTURES` is set; this needs `pg_dump` in the path. Use it only for a version
/// that was never published.
#[tokio::test]
async fn the_fixture_is_written_when_that_is_asked_for() {
    if std::env::var_os("SCRATCHBOOK_WRITE_FIXTURES").is_none() {
        return;
    }
    let server = scratchbook_test_servers::postgres().unwrap();
    client(&server).await.batch_execute(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await.unwrap();
    let store = open(&server).await;
    fill(&store).await;
    let mut dump = std::process::Command::new("pg_dump");
    dump.args(["--inserts", "--no-owner", "--no-privileges", "--schema", SCHEMA, &server]);
    let dump = dump.output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    // This leaves out commands for psql, and settings that other versions of the server do not have.
    let kept = |line: &&str| !line.starts_with(['\\', '-']) && !line.starts_with("SET ") && !line.is_empty();
    let text: String =
        String::from_utf8(dump.stdout).unwrap().lines().filter(kept).flat_map(|line| [line, "\n"]).collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/postgres/v1.sql");
    std::fs::write(path, text).unwrap();
}
