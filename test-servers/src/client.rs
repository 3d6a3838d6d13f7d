//! The command-line clients that come with the servers, for setting up data and looking at it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::product::Program;
use crate::{Error, Result};

/// Returns what `psql` prints for a statement.
pub(crate) fn psql(program: &Path, uri: &str, sql: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", uri, "-c", sql]);
    printed(command, "psql")
}

/// Returns what `mariadb` or `mysql` prints for a statement.
pub(crate) fn mysql(program: &Program, name: &str, port: u16, password: &str, sql: &str) -> Result<String> {
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).args(["--no-defaults", "-N", "-B", "-h", "127.0.0.1", "-P", &port.to_string()]);
    command.args(["-u", name, "-D", name, "-e", sql]).env("MYSQL_PWD", password);
    printed(command, "the client")
}

fn printed(mut command: Command, name: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| Error::io(name, &error))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(Error::new(text(&output.stderr))) }
}
