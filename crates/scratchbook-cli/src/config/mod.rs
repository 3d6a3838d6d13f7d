//! The options of `scratchbook serve` from four places: the command line, the environment, a file, and defaults.
//!
//! Each option is defined once, as an option of the command. The parser of the command line reads the first two places.
//! A value in the file becomes the default of its option, so the same rules apply to it.
//!
//! `file.rs` reads the file, `effective.rs` shows the settings in effect, and `shown.rs` removes passwords from URIs.

mod effective;
mod file;
mod shown;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::FromArgMatches;

use crate::args::{self, Cli};
use crate::environment;
use crate::failure::CommandFailure;

pub(crate) use effective::{Setting, print};

/// The command that has these options.
const SERVE: &str = "serve";

/// Global options that a server takes from the environment as well, with their variables.
const GLOBAL_VARIABLES: [(&str, &str); 4] = [
    ("database", environment::DATABASE),
    ("deadline", environment::DEADLINE),
    ("keyring", environment::KEYRING),
    ("plain_values", environment::PLAIN_VALUES),
];

/// An error in the command line.
#[derive(Debug)]
pub(crate) enum ParseFailure {
    /// The command line is invalid, or asks for help.
    Usage(clap::Error),
    /// The config file is invalid.
    File(CommandFailure),
}

impl From<clap::Error> for ParseFailure {
    fn from(error: clap::Error) -> Self {
        Self::Usage(error)
    }
}

/// Parses the command line and, for a server, the environment and the config file. Returns a server's settings, too.
pub(crate) fn parse(arguments: &[OsString]) -> Result<(Cli, Vec<Setting>), ParseFailure> {
    let command = args::command().mut_subcommand(SERVE, |serve| serve.mut_args(unless_empty));
    let mut matches = command.clone().try_get_matches_from(arguments)?;
    let mut from_file = Vec::new();
    let file = matches.subcommand_matches(SERVE).map(|serve| serve.get_one::<PathBuf>("config").cloned());
    if let Some(file) = file {
        let mut command = GLOBAL_VARIABLES
            .into_iter()
            .fold(command, |command, (id, name)| command.mut_arg(id, |arg| unless_empty(arg.env(name))));
        if let Some(file) = file {
            (command, from_file) = file::apply(command, &file).map_err(|e| ParseFailure::File(e.into()))?;
        }
        matches = command.try_get_matches_from(arguments)?;
    }
    let settings = matches.subcommand_matches(SERVE).map(|serve| effective::settings(serve, &from_file));
    Ok((Cli::from_arg_matches(&matches)?, settings.unwrap_or_default()))
}

/// Treats an empty variable as not set, since container files cannot leave a variable out.
fn unless_empty(arg: clap::Arg) -> clap::Arg {
    let is_empty = arg.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()));
    // clap cannot remove a variable from an option, so the variable is replaced by one without a name, which is never
    // set.
    if is_empty { arg.env("").hide_env(true) } else { arg }
}

/// Returns the options that can be set in the environment and the file: all except those that concern a single call.
fn options(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    let global = command.get_arguments().filter(|arg| {
        let id = arg.get_id().as_str();
        GLOBAL_VARIABLES.iter().any(|(known, _)| *known == id)
    });
    let serve = command.find_subcommand(SERVE).into_iter().flat_map(clap::Command::get_arguments);
    let of_call = ["help", "version", "config", "print_config", "json", "schema"];
    global.chain(serve.filter(move |arg| !of_call.contains(&arg.get_id().as_str())))
}
