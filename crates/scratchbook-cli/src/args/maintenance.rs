//! What can be written after the commands that look after what is kept: watch, verify, prune, reseal, schema.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::named;
use super::values::{self, Span, Start};

pub(super) const WATCH_EXAMPLES: &str = "\
Examples:
  scratchbook watch --app shop
  scratchbook watch --app shop --user alice --prefix user:cart
  scratchbook watch --json --app shop --from beginning --until-idle > feed.jsonl
  scratchbook watch --json --app shop --from \"$(tail -n 1 feed.jsonl | jq -r .cursor)\" --until-idle";

pub(super) const VERIFY_EXAMPLES: &str = "\
Examples:
  scratchbook verify
  scratchbook verify --app shop --user alice --session s1";

pub(super) const PRUNE_EXAMPLES: &str = "\
Examples:
  scratchbook prune --expired
  scratchbook prune --app shop --older-than 90d --keep-last 100 --dry-run
  scratchbook prune --expired --older-than 30d --log-older-than 30d";

pub(super) const RESEAL_EXAMPLES: &str = "\
Examples:
  scratchbook reseal --keyring keyring.json
  scratchbook reseal --keyring keyring.json --app shop --user alice";

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// Only this user: the user's sessions and keys
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// Only the events of this session
    #[arg(long, short, requires = "user")]
    pub(crate) session: Option<String>,
    /// Only what changes a key that begins so, scope and all: user:cart, app:, step
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// From where on: beginning, now, or a cursor
    #[arg(long, value_name = "PLACE", default_value = "now", value_parser = values::from)]
    pub(crate) from: Start,
    /// End after so many lines
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// End when nothing has come for so long: a second, or SPAN
    #[arg(long, value_name = "SPAN", num_args = 0..=1, require_equals = true, default_missing_value = "1s",
        value_parser = values::span)]
    pub(crate) until_idle: Option<Span>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this app with its users; the whole database, if none is named
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Only this user of the app
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
    /// Only this session of the user
    #[arg(long, short, requires = "user")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResealArgs {
    /// Only this app with its users; the whole database, if none is named
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Only this user of the app
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
    /// Only this session of the user
    #[arg(long, short, requires = "user")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Only this app with its users; the whole database, if none is named
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Only this user of the app
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
    /// Delete all expired sessions of the database
    #[arg(long, conflicts_with = "app")]
    pub(crate) expired: bool,
    /// Of each session, prune the events up to the first one that is not as old as this: 30d, 12h, "1 week"
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    pub(crate) older_than: Option<Span>,
    /// Of each session, keep the last so many events; without --older-than all others are pruned
    #[arg(long, value_name = "N")]
    pub(crate) keep_last: Option<u64>,
    /// Prune what was overwritten in the logs of users' and apps' state, up to the first change that is not as old
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    pub(crate) log_older_than: Option<Span>,
    /// Count what would be pruned, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Say whether a file is a schema for state, and with --app which keys in the database break it
    ///
    /// The file is a JSON object: `version`, a whole number; `session`, `user` and `app`, each a JSON Schema of all
    /// keys of that scope, by their names without prefix; and `keys`, JSON Schemas by key. Exits with 1 where keys
    /// break it. --schema FILE has the writes of other commands checked.
    #[command(after_help = "\
Examples:
  scratchbook schema check shop.json
  scratchbook schema check shop.json --app shop
  scratchbook --schema shop.json state set --app shop --user alice cart={}")]
    Check(SchemaCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SchemaCheckArgs {
    /// The schema
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Also the state of this app, its users and their sessions
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Only the state of this user of the app
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
}
