//! Parses the command line, and reports errors in it.

use std::ffi::{OsStr, OsString};

use clap::Error;
use clap::error::ErrorKind;
use serde_json::json;

use crate::args::{Cli, DASHES};
use crate::config::{self, ParseFailure, Setting};
use crate::failure;

/// Parses the command line. If it is invalid or asks for help, prints the error or the help and returns the exit code.
pub(crate) fn parse(arguments: &[OsString]) -> Result<(Cli, Vec<Setting>), u8> {
    config::parse(arguments).map_err(|parse_failure| {
        let error = match parse_failure {
            ParseFailure::Usage(error) => error,
            ParseFailure::File(failure) => {
                failure::report(&failure, wants_json(arguments));
                return failure.exit_code();
            }
        };
        if !error.use_stderr() {
            // This is --help or --version. It is not a failure if the reader closes the pipe.
            let _ = error.print();
            return 0;
        }
        let hint = hint(&error, arguments);
        if wants_json(arguments) {
            let text = error.render().to_string();
            let message = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            let message = hint.map_or_else(|| message.to_owned(), |hint| format!("{message}\n\n{hint}"));
            failure::print_json(&json!({"kind": "invalid_argument", "message": message, "causes": []}));
        } else {
            let _ = error.print();
            if let Some(hint) = hint {
                // If standard error is closed too, the hint cannot be printed.
                let _ = std::io::Write::write_fmt(&mut anstream::stderr(), format_args!("\n{hint}\n"));
            }
        }
        2
    })
}

/// Returns the hint for keys that begin with '-'. The parser takes such keys for unknown options or, as in `-dash=1`,
/// for known ones.
fn hint(error: &Error, arguments: &[OsString]) -> Option<&'static str> {
    let takes_keys = arguments.iter().any(|arg| arg == "state" || arg == "create");
    let is_option = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict);
    (takes_keys && is_option).then_some(DASHES)
}

fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|arg| *arg != "--").any(|arg| *arg == OsStr::new("--json"))
}
