//! The arguments of the maintenance commands: watch, seal, verify, prune, reseal and schema.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::{self, Span, Start};
use super::{AddressArgs, named};

pub(super) const WATCH_EXAMPLES: &str = "\
Examples:
  scratchbook watch --app shop
  scratchbook watch --app shop --user alice --prefix user:cart
  scratchbook watch --last
  scratchbook watch --json -a shop --from beginning --until-idle > feed.jsonl
  scratchbook watch --json -a shop --until-idle \\
    --from \"$(tail -n 1 feed.jsonl | jq -r .cursor)\"";

pub(super) const VERIFY_EXAMPLES: &str = "\
Examples:
  scratchbook verify
  scratchbook verify --app shop
  scratchbook verify --session shop/alice/s1
  scratchbook verify --against 2026-11-24.jsonl 2026-11-25.jsonl";

pub(super) const SEAL_EXAMPLES: &str = "\
Examples:
  scratchbook seal --to 2026-11-24.jsonl
  scratchbook seal --to 2026-11-25.jsonl --since 2026-11-24.jsonl";

pub(super) const PRUNE_EXAMPLES: &str = "\
Examples:
  scratchbook prune --expired
  scratchbook prune --app shop --older-than 90d --keep-last 100 --dry-run
  scratchbook prune --expired --older-than 30d --log-older-than 30d --yes";

pub(super) const RESEAL_EXAMPLES: &str = "\
Examples:
  scratchbook reseal --keyring keyring.json
  scratchbook reseal --keyring keyring.json --app shop --user alice";

#[derive(Debug, Args)]
pub(crate) struct SealArgs {
    /// The new file
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Seal only what was committed after this seal [default: everything that is stored]
    #[arg(long, value_name = "FILE")]
    pub(crate) since: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// Compare what is stored with these files of `scratchbook seal`, and do nothing else
    #[arg(long, value_name = "FILE", num_args = 1.., value_parser = values::seal_file,
        conflicts_with_all = ["app", "user", "session", "last"])]
    pub(crate) against: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// Show only changes of keys that begin with this text. Keys of users and apps begin with user: and app:, such as
    /// user:cart
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// Where to start: beginning, now, or a cursor that watch has printed
    #[arg(long, value_name = "PLACE", default_value = "now", value_parser = values::from)]
    pub(crate) from: Start,
    /// End after this many lines [default: no limit]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// End after this time without a new commit, such as 30s. Without SPAN, the time is 1s [default: do not end]
    #[arg(long, value_name = "SPAN", num_args = 0..=1, require_equals = true, default_missing_value = "1s",
        value_parser = values::span)]
    pub(crate) until_idle: Option<Span>,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Prune only this app and its users [default: the whole database]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Prune only this user of the app [default: all users]
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
    /// Delete all expired sessions of the database
    #[arg(long, conflicts_with = "app")]
    pub(crate) expired: bool,
    /// Prune events that are older than this, such as 30d, 12h or "1 week". In each session, pruning stops before the
    /// first newer event
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    pub(crate) older_than: Option<Span>,
    /// Keep at least this many of the last events in each session. Without --older-than, all other events are pruned
    #[arg(long, value_name = "N")]
    pub(crate) keep_last: Option<u64>,
    /// In the state logs of users and apps, prune overwritten values that are older than this
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    pub(crate) log_older_than: Option<Span>,
    /// Only count what would be pruned
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation. If standard input is not a terminal, the option is required, except with --dry-run,
    /// or if only --expired is to be pruned
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Check a schema file and, with --app, the state in the database
    ///
    /// The schema file is a JSON object. The field `version` is a whole number. The fields `session`, `user` and `app`
    /// are JSON Schemas, one for the state of each scope. In these fields, keys have no prefix. The field `keys` is an
    /// object with a JSON Schema for each single key. In this field, keys have their prefix.
    ///
    /// The exit code is 1 if the state violates the schema. Other commands check their writes if you give them --schema
    /// FILE.
    #[command(after_help = "\
Examples:
  scratchbook schema check shop.json
  scratchbook schema check shop.json --app shop
  scratchbook --schema shop.json state set --app shop --user alice cart={}")]
    Check(SchemaCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SchemaCheckArgs {
    /// The schema file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Check the state of this app, its users and their sessions [default: check only the file]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Check only the state of this user and their sessions [default: all users]
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
}
