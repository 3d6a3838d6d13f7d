//! The arguments of `scratchbook token`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use scratchbook_server::Right;

use super::named;
use super::values::{self, PointInTime};

pub(super) const NEW_EXAMPLES: &str = "\
Examples:
  scratchbook token new --name shop-backend --app shop --rights read,write,app
  scratchbook token new --name alice -a shop -u alice --expires 2027-01-01
  scratchbook token new --name metrics --rights admin";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token for a client
    ///
    /// The command prints the token and an entry for a token file. Keep the token: it is not stored anywhere, and the
    /// entry contains only its hash. Add the entry to the file that `scratchbook serve --tokens FILE` reads. To revoke
    /// the token, remove the entry. The server reads a changed file without a restart.
    #[command(after_help = NEW_EXAMPLES)]
    New(NewTokenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NewTokenArgs {
    /// The name of the token in logs
    #[arg(long, short, value_parser = named)]
    pub(crate) name: String,
    /// Restrict the token to this app [default: all apps]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Restrict the token to this user [default: all users]
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// The rights of the token, separated by commas: read, write, app (writes keys of the app), admin (operates on all
    /// users)
    #[arg(long, value_name = "RIGHT,...", value_delimiter = ',', default_value = "read,write",
        value_parser = Right::from_str)]
    pub(crate) rights: Vec<Right>,
    /// The time at which the token expires, such as 2027-01-01. A time without an offset is in UTC [default: never]
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) expires: Option<PointInTime>,
}
