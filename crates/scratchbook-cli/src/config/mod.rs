//! The options of `scratchbook serve` from four places: the command line, the environment, a file, and defaults.
//!
//! Each is defined once, as an option of the command. The parser of the command line knows the first two places; what
//! a file says becomes the default of the option, so that its values are read by the same rules.
//!
//! `file.rs` reads a file; `effective.rs` says what is used and why, `shown.rs` without passwords.

mod effective;
mod file;
mod shown;

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::environment;
use crate::failure::Failure;

pub(crate) use effective::{Setting, print};

/// The name of the command whose options these are.
const SERVE: &str = "serve";

/// Options of every command that a server takes from the environment too, as its own, and their variables.
const GLOBAL_VARIABLES: [(&str, &str); 4] = [
    ("database", environment::DATABASE),
    ("deadline", environment::DEADLINE),
    ("keyring", environment::KEYRING),
    ("plain_values", environment::PLAIN_VALUES),
];

/// Commands, and options of every command that mean nothing to them.
const WITHOUT: [(&str, &str); 10] = [
    (SERVE, "schema"),
    ("token", "database"),
    ("token", "schema"),
    ("token", "deadline"),
    ("token", "keyring"),
    ("token", "plain_values"),
    ("migrate", "keyring"),
    ("migrate", "plain_values"),
    ("backup", "keyring"),
    ("backup", "plain_values"),
];

/// Why a command line cannot be followed.
#[derive(Debug)]
pub(crate) enum Misread {
    /// It cannot be understood, or asks for help.
    Usage(clap::Error),
    /// The file it names cannot be used.
    File(Failure),
}

impl From<clap::Error> for Misread {
    fn from(error: clap::Error) -> Self {
        Self::Usage(error)
    }
}

/// Reads the command line and, for a server, the environment and the file.
pub(crate) fn parse() -> Result<(Cli, Vec<Setting>), Misread> {
    let command = WITHOUT.into_iter().fold(Cli::command(), |command, (name, id)| hide(command, name, id));
    let command = command.mut_subcommand(SERVE, |serve| serve.mut_args(unless_empty));
    let mut matches = command.clone().try_get_matches()?;
    let mut from_file = Vec::new();
    let file = matches.subcommand_matches(SERVE).map(|serve| serve.get_one::<PathBuf>("config").cloned());
    if let Some(file) = file {
        let mut command = GLOBAL_VARIABLES
            .into_iter()
            .fold(command, |command, (id, name)| command.mut_arg(id, |arg| unless_empty(arg.env(name))));
        if let Some(file) = file {
            (command, from_file) = file::apply(command, &file).map_err(|e| Misread::File(e.into()))?;
        }
        matches = command.try_get_matches()?;
    }
    let settings = matches.subcommand_matches(SERVE).map(|serve| effective::settings(serve, &from_file));
    Ok((Cli::from_arg_matches(&matches)?, settings.unwrap_or_default()))
}

/// Leaves an option of every command out of the help of one, and of those below it.
fn hide(command: clap::Command, name: &str, id: &str) -> clap::Command {
    // A command is given the options of every command that it has not already.
    let hidden = command.get_arguments().find(|arg| arg.get_id() == id).map(|arg| arg.clone().hide(true));
    command.mut_subcommand(name, |command| command.args(hidden))
}

/// A variable that is set to nothing is not set: that is how files for containers leave one out.
fn unless_empty(arg: clap::Arg) -> clap::Arg {
    let is_empty = arg.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()));
    // The parser cannot be told to forget a variable; one without a name has no value.
    if is_empty { arg.env("").hide_env(true) } else { arg }
}

/// The options that can be set: all but those that are about this one call.
fn options(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    let global = command.get_arguments().filter(|arg| {
        let id = arg.get_id().as_str();
        GLOBAL_VARIABLES.iter().any(|(known, _)| *known == id)
    });
    let serve = command.find_subcommand(SERVE).into_iter().flat_map(clap::Command::get_arguments);
    let of_call = ["help", "version", "config", "print_config", "json", "schema"];
    global.chain(serve.filter(move |arg| !of_call.contains(&arg.get_id().as_str())))
}
