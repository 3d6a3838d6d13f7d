//! Runs a command with the addresses of database servers in its environment, for tests that are not in Rust. For each
//! kind of server that the environment does not name, a server is started, which ends with the command.
//!
//! ```sh
//! cargo run --locked -p scratchbook-test-servers --bin with-servers -- python -m pytest bindings/python
//! ```
//!
//! If a server is not installed, standard error says so, and its variable is not set.

use std::process::{Command, ExitCode};

use scratchbook_test_servers::{MYSQL_VARIABLE, POSTGRES_VARIABLE, mysql, postgres};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: with-servers COMMAND [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let mut command = Command::new(&program);
    command.args(words);
    for (variable, uri) in [(POSTGRES_VARIABLE, postgres()), (MYSQL_VARIABLE, mysql())] {
        match uri {
            Ok(uri) => drop(command.env(variable, uri)),
            Err(error) => eprintln!("{variable} is not set: {error}"),
        }
    }
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("{} did not start: {error}", program.to_string_lossy());
            ExitCode::FAILURE
        }
    }
}
