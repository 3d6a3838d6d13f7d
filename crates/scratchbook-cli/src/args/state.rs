//! The arguments of `scratchbook state`.

use clap::{Args, Subcommand};

use super::{AddressArgs, values};

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print the state of a session, a user or an app
    ///
    /// The state of a session includes the keys of its user and its app.
    #[command(after_help = with_dashes!("\
Examples:
  scratchbook state get --session shop/alice/s1
  scratchbook state get --app shop --user alice --raw theme
  scratchbook state get --app shop -- -dash"))]
    Get(GetArgs),
    /// Set keys in the state of a session, a user or an app
    ///
    /// Setting keys of a session appends an event to the session. A VALUE is JSON, such as 3, true, null or '["a"]'. A
    /// VALUE that is not valid JSON, such as hello, is a string. But a VALUE that begins with [, { or a double quote
    /// must be valid JSON, unless --string is given.
    #[command(after_help = with_dashes!("\
Examples:
  scratchbook state set --session shop/alice/s1 step=2 user:theme=dark
  scratchbook state set --app shop --user alice limits='{\"max\": 3}'
  scratchbook state set --app shop -- -dash=1"))]
    Set(SetArgs),
    /// Add to numbers atomically; a missing key counts as 0
    ///
    /// The sum of two integers is an integer. If it does not fit in 64 bits, the command fails.
    #[command(after_help = with_dashes!("\
Examples:
  scratchbook state increment --session shop/alice/s1 step
  scratchbook state increment --app shop --user alice visits points=5
  scratchbook state increment --app shop -- -dash=1"))]
    Increment(IncrementArgs),
    /// Append values to lists; a missing key counts as an empty list
    ///
    /// A VALUE is JSON or a string, as in `scratchbook state set`. To append several values to one key, repeat the key.
    #[command(after_help = with_dashes!("\
Examples:
  scratchbook state append --session shop/alice/s1 cart=book cart=pen
  scratchbook state append --app shop --user alice seen='{\"item\": \"book\"}'
  scratchbook state append --app shop -- -dash=1"))]
    Append(AppendArgs),
    /// Merge JSON objects into values with JSON Merge Patch (RFC 7386); null removes a member
    ///
    /// A missing key, or a value that is not an object, counts as an empty object. A PATCH that is not an object
    /// replaces the value.
    #[command(after_help = with_dashes!("\
Examples:
  scratchbook state merge --session shop/alice/s1 draft='{\"zip\": null}'
  scratchbook state merge --app shop --user alice profile='{\"city\": \"Rome\"}'
  scratchbook state merge --app shop -- -dash='{\"a\": 1}'"))]
    Merge(MergeArgs),
    /// Remove keys; missing keys are reported
    #[command(after_help = with_dashes!("\
Examples:
  scratchbook state unset --session shop/alice/s1 draft user:theme
  scratchbook state unset --app shop --user alice theme
  scratchbook state unset --app shop -- -dash"))]
    Unset(UnsetArgs),
    /// List keys and their values in pages, in the byte order of the keys
    #[command(after_help = "\
Examples:
  scratchbook state list --app shop --user alice --prefix cart
  scratchbook state list --last --prefix user:")]
    List(ListStateArgs),
    /// Print the state that a session had after an event
    #[command(after_help = "\
Example:
  scratchbook state at --session shop/alice/s1 12")]
    At(AtArgs),
    /// Print the differences between the states of a session at two events
    #[command(after_help = "\
Example:
  scratchbook state diff --session shop/alice/s1 0 12")]
    Diff(DiffArgs),
    /// Print the writes to a key and their authors, the latest first
    #[command(after_help = "\
Examples:
  scratchbook state history --session shop/alice/s1 step
  scratchbook state history --session shop/alice/s1 --at 12 user:theme
  scratchbook state history --app shop --user alice theme --limit 5")]
    History(HistoryArgs),
    /// Print the last writer of each key in the state of a session
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
    /// The keys to print, which must exist. If you name a session, the keys of its user and app need their prefix, such
    /// as user:theme [default: all keys]
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Print only the value, and print a string without quotes, for scripts. The option requires exactly one KEY
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
    /// The key and the number to add, such as count=5 or user:credit=-0.5. Without =N, the command adds 1
    #[arg(value_name = "KEY[=N]", required = true)]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) writing: WriteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The key and the value to append, such as cart='"book"'
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub(crate) items: Vec<String>,
    /// Read every VALUE as a string and not as JSON
    #[arg(long)]
    pub(crate) string: bool,
    #[command(flatten)]
    pub(crate) writing: WriteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The key and the JSON object to merge into its value, such as profile={"city": "Rome", "zip": null}
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
    /// The name that is stored as the author of the write
    #[arg(long, default_value = "user")]
    pub(crate) author: String,
}

/// Keys and their values.
#[derive(Debug, Args)]
pub(crate) struct Assignments {
    /// The key and the value to set, separated by the first '='. If you name a session, the keys of its user and app
    /// need their prefix, such as user:theme=dark
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Read every VALUE as a string and not as JSON
    #[arg(long)]
    pub(crate) string: bool,
    /// A JSON object with more keys and values to set, for programs and for keys that contain '='. A - stands for
    /// standard input
    #[arg(long, value_name = "JSON")]
    pub(crate) delta: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UnsetArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The keys to remove. If you name a session, the keys of its user and app need their prefix, such as user:theme
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// The name that is stored as the author of the write
    #[arg(long, default_value = "user")]
    pub(crate) author: String,
}

#[derive(Debug, Args)]
pub(crate) struct ListStateArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// List only keys that begin with this text. If you name a session, the keys of its user and app begin with their
    /// prefix, such as user:cart
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// The maximum number of keys to list, from 1 to 1000
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// List the next page, with the TOKEN that the previous page printed
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    #[command(flatten)]
    pub(crate) session: AddressArgs,
    /// The number of the event. 0 is the creation of the session
    #[arg(value_name = "SEQ", value_parser = values::event_number)]
    pub(crate) seq: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) session: AddressArgs,
    /// The number of the first event. 0 is the creation of the session
    #[arg(value_name = "BEFORE", value_parser = values::event_number)]
    pub(crate) before: u64,
    /// The number of the second event. It can be lower than the first
    #[arg(value_name = "AFTER", value_parser = values::event_number)]
    pub(crate) after: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) owner: AddressArgs,
    /// The key. If you name a session, the keys of its user and app need their prefix, such as user:theme
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// The maximum number of writes to print
    #[arg(long, short, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print only the writes up to this event of the session; 0 is the creation of the session [default: all writes]
    #[arg(long, value_name = "SEQ", value_parser = values::event_number)]
    pub(crate) at: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct BlameArgs {
    #[command(flatten)]
    pub(crate) session: AddressArgs,
}
