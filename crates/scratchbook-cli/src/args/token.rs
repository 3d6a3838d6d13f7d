//! What can be written after `scratchbook token`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use scratchbook_server::Right;

use super::named;
use super::values::{self, Moment};

pub(super) const NEW_EXAMPLES: &str = "\
Examples:
  scratchbook token new --name shop-backend --app shop --rights read,write,app
  scratchbook token new --name alice --app shop --user alice --expires 2027-01-01
  scratchbook token new --name metrics --rights read";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token to log in by
    ///
    /// Prints the token, which is kept nowhere, and its entry for the file of `scratchbook serve --tokens FILE`, which
    /// holds its hash. A token ends when its entry is taken from the file: no restart is needed.
    #[command(after_help = NEW_EXAMPLES)]
    New(NewTokenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NewTokenArgs {
    /// What it is called in logs
    #[arg(long, short, value_parser = named)]
    pub(crate) name: String,
    /// Only this app; all, if none is named
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Only this user; all, if none is named
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// What it may: read, write, app (to write keys of the whole app), admin (what concerns all users)
    #[arg(long, value_name = "RIGHT,...", value_delimiter = ',', default_value = "read,write",
        value_parser = Right::from_str)]
    pub(crate) rights: Vec<Right>,
    /// When it ends
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) expires: Option<Moment>,
}
