//! The command, for the tests of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(scratchbook_cli::run(std::env::args_os()))
}
