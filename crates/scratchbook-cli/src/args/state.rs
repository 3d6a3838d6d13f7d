//! What can be written after `scratchbook state`.

use clap::{Args, Subcommand};

use super::{DASHES, SessionAddress, StateAddress};

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print values: of a session (with its user's and app's keys), of a user, or of an app
    #[command(after_help = DASHES)]
    Get(GetArgs),
    /// Set keys: of a session through an event, of a user or an app outside of any session
    ///
    /// A VALUE is JSON, or else a plain string: 3, true, null, '["a"]', hello. What starts like JSON's lists,
    /// objects or strings has to be JSON; --string takes any VALUE as a string.
    #[command(after_help = DASHES)]
    Set(SetArgs),
    /// Add to numbers, in one commit that counts whoever else adds; a key that is absent counts as 0
    ///
    /// Of whole numbers comes a whole number, or an error where it does not fit 64 bits.
    #[command(after_help = DASHES)]
    Increment(IncrementArgs),
    /// Put values at the end of lists; a key that is absent counts as an empty one
    ///
    /// A VALUE is read as by set. A key may be given several times.
    #[command(after_help = DASHES)]
    Append(AppendArgs),
    /// Merge JSON objects into maps, as JSON Merge Patch (RFC 7386) says: null takes a member out
    ///
    /// What is no map, or absent, counts as an empty one; a patch that is no object replaces the value.
    #[command(after_help = DASHES)]
    Merge(MergeArgs),
    /// Remove keys, the same way; one that is not there is told
    #[command(after_help = DASHES)]
    Unset(UnsetArgs),
    /// List keys with their values, page by page, in byte order
    #[command(after_help = "\
Examples:
  scratchbook state list --app shop --user alice --prefix cart
  scratchbook state list --app shop --user alice --session s1 --prefix user:")]
    List(ListStateArgs),
    /// Print a session's merged state as it stood after an event, 0 for its creation
    #[command(after_help = "\
Example:
  scratchbook state at --app shop --user alice --session s1 12")]
    At(AtArgs),
    /// Print what changed in a session's merged state between two of its events, either way round
    #[command(after_help = "\
Example:
  scratchbook state diff --app shop --user alice --session s1 0 12")]
    Diff(DiffArgs),
    /// Print what was written to a key and by whom, the latest first
    #[command(after_help = "\
Examples:
  scratchbook state history --app shop --user alice --session s1 step
  scratchbook state history --app shop --user alice theme --limit 5")]
    History(HistoryArgs),
    /// Print who wrote each key of a session's merged state
    #[command(after_help = "\
Example:
  scratchbook state blame --app shop --user alice --session s1")]
    Blame(BlameArgs),
}

impl StateCommand {
    /// The app.
    pub(super) fn app(&self) -> &str {
        match self {
            Self::Get(GetArgs { owner, .. })
            | Self::Set(SetArgs { owner, .. })
            | Self::Increment(IncrementArgs { owner, .. })
            | Self::Append(AppendArgs { owner, .. })
            | Self::Merge(MergeArgs { owner, .. })
            | Self::Unset(UnsetArgs { owner, .. })
            | Self::List(ListStateArgs { owner, .. })
            | Self::History(HistoryArgs { owner, .. }) => &owner.app,
            Self::At(AtArgs { session, .. })
            | Self::Diff(DiffArgs { session, .. })
            | Self::Blame(BlameArgs { session }) => &session.app,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    /// Only these keys, which must be there; with --session their prefix counts (user:theme)
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Print the value of the one KEY alone, a string without quotes: for scripts
    #[arg(long, conflicts_with = "json", requires = "keys")]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    #[command(flatten)]
    pub(crate) values: Assignments,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Debug, Args)]
pub(crate) struct IncrementArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    /// What to add to; by 1, or by N, which may be negative or a decimal (count, count=5, user:credit=-0.5)
    #[arg(value_name = "KEY[=N]", required = true)]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    /// What to append, one value each
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub(crate) items: Vec<String>,
    /// Take every VALUE as a string
    #[arg(long)]
    pub(crate) string: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    /// What to merge (profile={"city": "Rome", "zip": null})
    #[arg(value_name = "KEY=PATCH", required = true)]
    pub(crate) patches: Vec<String>,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

/// Who writes, and on what condition.
#[derive(Debug, Args)]
pub(crate) struct Writing {
    /// Write only if the key has this value at that moment, or else nothing at all; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) expect: Vec<String>,
    /// Write only if the key is absent at that moment; may be given several times
    #[arg(long, value_name = "KEY")]
    pub(crate) expect_absent: Vec<String>,
    /// Who is said to have written it
    #[arg(long, default_value = "user")]
    pub(crate) author: String,
}

/// Keys and their values.
#[derive(Debug, Args)]
pub(crate) struct Assignments {
    /// What to set; up to the first '=' it is the key, of a session with its prefix (user:theme=dark)
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Take every VALUE as a string
    #[arg(long)]
    pub(crate) string: bool,
    /// A JSON object of keys and values to set as well, for keys with '=' and for programs; - reads it from
    /// standard input
    #[arg(long, value_name = "JSON")]
    pub(crate) delta: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UnsetArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    /// The keys to remove; with --session their prefix counts (user:theme)
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// Who is said to have removed it
    #[arg(long, default_value = "user")]
    pub(crate) author: String,
}

#[derive(Debug, Args)]
pub(crate) struct ListStateArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    /// Only keys that begin so; with --session their scope counts (user:cart)
    #[arg(long, short, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    /// How many keys at most, 1 to 1000
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Go on after the page that ended with this token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    /// The number of the event
    #[arg(value_name = "SEQ")]
    pub(crate) seq: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    /// The number of the event before, 0 for the creation
    #[arg(value_name = "BEFORE")]
    pub(crate) before: u64,
    /// The number of the event after
    #[arg(value_name = "AFTER")]
    pub(crate) after: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) owner: StateAddress,
    /// The key; with --session its prefix counts (user:theme)
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// How many writes at most
    #[arg(long, short, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct BlameArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
}
