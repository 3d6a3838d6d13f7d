//! The clients that come with the servers, with options that the crate's own `ask` does not take.

use std::process::{Command, Output};

use scratchbook_test_servers::MariaDb;

/// Returns what `psql` prints for a statement, or its error.
pub(crate) fn psql(uri: &str, sql: &str) -> Result<String, String> {
    let mut command = Command::new("psql");
    command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", uri, "-c", sql]);
    printed(command.output().unwrap())
}

/// Returns what `mariadb` prints for a statement with these options, or its error. No password is added.
pub(crate) fn mariadb_with(server: &MariaDb, options: &[&str], sql: &str) -> Result<String, String> {
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "-h", "127.0.0.1", "-u", "scratchbook", "-D", "scratchbook", "-N", "-B"]);
    command.arg("-P").arg(server.port().to_string()).args(options).args(["-e", sql]);
    printed(command.output().unwrap())
}

fn printed(output: Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
