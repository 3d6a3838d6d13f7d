//! google-adk's DatabaseSessionService in PostgreSQL.

use std::process::Command;

use super::python::python;
use super::{ImportTarget, follow};
use crate::fails;

/// Creates a database on the shared server. Returns its URL for google-adk and its URL for us.
pub(crate) fn database(name: &str) -> (String, String) {
    let server = scratchbook_test_servers::postgres().unwrap_or_else(|error| panic!("{error}"));
    let statement = format!(
        "import asyncio, asyncpg, sys\n\
         async def main():\n\
         \x20   connection = await asyncpg.connect(sys.argv[1])\n\
         \x20   await connection.execute('DROP DATABASE IF EXISTS {name}')\n\
         \x20   await connection.execute('CREATE DATABASE {name}')\n\
         \x20   await connection.close()\n\
         asyncio.run(main())"
    );
    let made = Command::new(python()).args(["-c", &statement, &server]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (address, _) = server.rsplit_once('/').unwrap();
    (format!("{}/{name}", address.replacen("postgresql://", "postgresql+asyncpg://", 1)), format!("{address}/{name}"))
}

#[test]
fn database_session_service_is_imported_as_it_reports_itself() {
    let target = ImportTarget::new();
    let (theirs, _) = database("adk_import");
    follow(&target, "database", &theirs);
}

/// Imports into a scratchbook database on the server.
#[test]
fn sqlite_session_service_is_imported_into_ours() {
    let (_, uri) = database("adk_into_ours");
    let target = ImportTarget { uri, ..ImportTarget::new() };
    follow(&target, "sqlite", &target.path("theirs.db"));
}

#[test]
fn the_error_of_a_server_does_not_show_the_password() {
    let target = ImportTarget::new();
    let (_, uri) = database("adk_refused");
    let said = fails(6, target.command(&["import", "--from", "adk-database", &uri]));
    assert!(said.contains("no sessions of google-adk's"), "{said}");
    let (address, _) = uri.rsplit_once('/').unwrap();
    let said = fails(3, target.command(&["import", "--from", "adk-database", &format!("{address}/no_such_database")]));
    assert!(said.contains("no_such_database"), "{said}");
    let (scheme, rest) = uri.split_once("://").unwrap();
    let (_, place) = rest.rsplit_once('@').unwrap();
    let wrong = format!("{scheme}://nobody:s3cret@{place}");
    let said = fails(8, target.command(&["import", "--from", "adk-database", &wrong]));
    assert!(said.contains("nobody@") && !said.contains("s3cret"), "{said}");
    let silent = "postgresql://me:s3cret@127.0.0.1:1/agents";
    let said = fails(10, target.command(&["import", "--from", "adk-database", silent]));
    assert!(said.contains("127.0.0.1:1") && !said.contains("s3cret"), "{said}");
}
