//! The arguments of `scratchbook token`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use scratchbook_server::Right;

use super::named;
use super::values::{self, PointInTime};

pub(super) const NEW_EXAMPLES: &str = "\
Examples:
  scratchbook token new --name shop-backend --app shop --rights read,write,app
  scratchbook token new --name alice --app shop --user alice --expires 2027-01-01
  scratchbook token new --name metrics --rights read";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token for a client
    ///
    /// Prints the token, which is stored nowhere, and its entry, which holds its hash. Add the entry to the FILE of
    /// `scratchbook serve --tokens FILE`; to revoke the token, remove it from the file. Neither needs a restart.
    #[command(after_help = NEW_EXAMPLES)]
    New(NewTokenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NewTokenArgs {
    /// The token's name in logs
    #[arg(long, short, value_parser = named)]
    pub(crate) name: String,
    /// Restrict the token to this app [default: all apps]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Restrict the token to this user [default: all users]
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// The token's rights: read, write, app (write the app's keys), admin (operations on all users)
    #[arg(long, value_name = "RIGHT,...", value_delimiter = ',', default_value = "read,write",
        value_parser = Right::from_str)]
    pub(crate) rights: Vec<Right>,
    /// When the token expires
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) expires: Option<PointInTime>,
}
