//! The arguments of `serve`, `health` and `token` in a program without the feature `serve`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

pub(crate) const SERVE_HELP: &str = "";
pub(crate) const HEALTH_EXAMPLES: &str = "";

/// Arguments that the command ignores.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Arguments that the command ignores.
#[derive(Debug, Args)]
pub(crate) struct NewTokenArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Arguments that the command ignores.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    New(NewTokenArgs),
}
