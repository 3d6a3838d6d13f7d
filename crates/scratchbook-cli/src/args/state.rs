//! The arguments of `scratchbook state`.

use clap::{Args, Subcommand};

use super::{AddressArgs, DASHES, values};

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print the state of a session (with the user's and the app's keys), of a user, or of an app
    #[command(after_help = DASHES)]
    Get(GetArgs),
    /// Set keys of a session, which appends an event, or of a user or an app
    ///
    /// A VALUE is JSON or else a plain string: 3, true, null, '["a"]', hello. A VALUE that begins with [, { or a double
    /// quote must be valid JSON; --string takes every VALUE as a string.
    #[command(after_help = DASHES)]
    Set(SetArgs),
    /// Add to numbers atomically; a missing key counts as 0
    ///
    /// Integers give an integer, or an error if it does not fit in 64 bits.
    #[command(after_help = DASHES)]
    Increment(IncrementArgs),
    /// Append values to lists; a missing key counts as an empty list
    ///
    /// A VALUE is read as in set. A key can be repeated.
    #[command(after_help = DASHES)]
    Append(AppendArgs),
    /// Merge JSON objects into values by JSON Merge Patch (RFC 7386); null removes a member
    ///
    /// A value that is missing or no object counts as an empty object; a patch that is no object replaces the value.
    #[command(after_help = DASHES)]
    Merge(MergeArgs),
    /// Remove keys; missing keys are reported
    #[command(after_help = DASHES)]
    Unset(UnsetArgs),
    /// List keys with their values in byte order, page by page
    #[command(after_help = "\
Examples:
  scratchbook state list --app shop --user alice --prefix cart
  scratchbook state list --last --prefix user:")]
    List(ListStateArgs),
    /// Print the state of a session after an event; 0 is its creation
    #[command(after_help = "\
Example:
  scratchbook state at --session shop/alice/s1 12")]
    At(AtArgs),
    /// Print the changes of a session's state between two events, in either direction
    #[command(after_help = "\
Example:
  scratchbook state diff --session shop/alice/s1 0 12")]
    Diff(DiffArgs),
    /// Print the writes to a key and their authors, the latest first
    #[command(after_help = "\
Examples:
  scratchbook state history --session shop/alice/s1 step
  scratchbook state history --app shop --user alice theme --limit 5")]
    History(HistoryArgs),
    /// Print who last wrote each key of a session's state
    #[command(after_help = "\
Example:
  scratchbook state blame --last")]
    Blame(BlameArgs),
}

impl StateCommand {
    /// Returns the app, if the arguments name it.
    pub(super) fn app(&self) -> Option<&str> {
        match self {
            Self::Get(GetArgs { owner, .. })
            | Self::Set(SetArgs { owner, .. })
            | Self::Increment(IncrementArgs { owner, .. })
            | Self::Append(AppendArgs { owner, .. })
            | Self::Merge(MergeArgs { owner, .. })
            | Self::Unset(UnsetArgs { owner, .. })
            | Self::List(ListStateArgs { owner, .. })
            | Self::History(HistoryArgs { owner, .. })
            | Self::At(AtArgs { session: owner, .. })
            | Self::Diff(DiffArgs { session: owner, .. })
            | Self::Blame(BlameArgs { session: owner }) => owner.app(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// Only these keys, which must exist; with a session, write user: or app: before keys of the user or the app (user:theme)
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// For scripts: print only the value of the one KEY, a string without quotes
    #[arg(long, conflicts_with = "json", requires = "keys")]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    #[command(flatten)]
    pub(crate) values: Assignments,
    #[command(flatten)]
    pub(crate) writing: WriteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct IncrementArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The key and how much to add, 1 by default; N can be negative or a decimal (count, count=5, user:credit=-0.5)
    #[arg(value_name = "KEY[=N]", required = true)]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) writing: WriteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The key and the value to append
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub(crate) items: Vec<String>,
    /// Take every VALUE as a string
    #[arg(long)]
    pub(crate) string: bool,
    #[command(flatten)]
    pub(crate) writing: WriteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The key and the patch (profile={"city": "Rome", "zip": null})
    #[arg(value_name = "KEY=PATCH", required = true)]
    pub(crate) patches: Vec<String>,
    #[command(flatten)]
    pub(crate) writing: WriteOptions,
}

/// The author and the conditions of a write.
#[derive(Debug, Args)]
pub(crate) struct WriteOptions {
    /// Write only if the key has this value at the moment of the commit; can be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) expect: Vec<String>,
    /// Write only if the key is absent at the moment of the commit; can be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) expect_absent: Vec<String>,
    /// The author of the write
    #[arg(long, default_value = "user")]
    pub(crate) author: String,
}

/// Keys and their values.
#[derive(Debug, Args)]
pub(crate) struct Assignments {
    /// The key and the value to set; the key ends at the first '='. With --session, write its prefix (user:theme=dark)
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Take every VALUE as a string
    #[arg(long)]
    pub(crate) string: bool,
    /// A JSON object with more keys and values to set, for keys with '=' and for programs; - reads standard input
    #[arg(long, value_name = "JSON")]
    pub(crate) delta: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UnsetArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The keys to remove; with a session, write user: or app: before keys of the user or the app (user:theme)
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// The author of the write
    #[arg(long, default_value = "user")]
    pub(crate) author: String,
}

#[derive(Debug, Args)]
pub(crate) struct ListStateArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// Only keys that begin with this; with a session, write user: or app: before keys of the user or the app (user:cart)
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// The maximum number of keys, 1 to 1000
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue after the page that returned this token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    #[command(flatten)]
    pub(crate) session: AddressArgs,
    /// The number of the event
    #[arg(value_name = "SEQ", value_parser = values::event_number)]
    pub(crate) seq: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) session: AddressArgs,
    /// The number of the first event, 0 for the creation
    #[arg(value_name = "BEFORE", value_parser = values::event_number)]
    pub(crate) before: u64,
    /// The number of the second event
    #[arg(value_name = "AFTER", value_parser = values::event_number)]
    pub(crate) after: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The key; with --session, write its prefix (user:theme)
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// The maximum number of writes
    #[arg(long, short, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct BlameArgs {
    #[command(flatten)]
    pub(crate) session: AddressArgs,
}
