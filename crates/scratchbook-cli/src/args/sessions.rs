//! The arguments of `scratchbook sessions`.

use clap::{Args, Subcommand};
use scratchbook::{Error, Result};

use super::values::{self, Label, PointInTime, Span};
use super::{Address, AddressArgs, Assignments, SessionArgs, named, parts};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Create a session, and the database file if it does not exist
    ///
    /// Each KEY=VALUE sets a key in the initial state. A key that begins with user: or app: belongs to the user or the
    /// app.
    #[command(
        override_usage = "scratchbook sessions create [OPTIONS] -a <APP> -u <USER> [KEY=VALUE]...",
        after_help = with_dashes!("\
Examples:
  scratchbook sessions create --app shop --user alice
  scratchbook sessions create -a shop -u alice -s s1 step=1 user:theme=dark
  scratchbook sessions create -a shop -u alice -- -dash=1")
    )]
    Create(CreateArgs),
    /// List the sessions of one app or of all apps, the most recently updated first
    #[command(after_help = "\
Examples:
  scratchbook sessions list
  scratchbook sessions list --app shop --user alice
  scratchbook sessions list --app shop --title parcel --label status=open")]
    List(ListArgs),
    /// Show the state of a session, by scope, and its last events, by invocation
    #[command(after_help = "\
Examples:
  scratchbook sessions show shop/alice/s1
  scratchbook sessions show 019aa3b2 --events 50
  scratchbook sessions show --last")]
    Show(ShowArgs),
    /// Delete sessions, their events and their own state, but not the state of the user and the app
    ///
    /// The command asks for confirmation unless --yes is given. With --yes, the ids must be complete: if a script runs
    /// a second time, the beginning of an id could match another session.
    #[command(after_help = "\
Examples:
  scratchbook sessions delete shop/alice/s1 shop/alice/s2
  scratchbook sessions delete --app shop --user alice --session s1 --yes")]
    Delete(DeleteArgs),
    /// Rewind a session to its state before an invocation, by appending an event
    ///
    /// An invocation is one run of an agent. `scratchbook sessions show` prints the ids of invocations. The command
    /// restores the earlier values of the session's own keys, and removes keys that did not exist then. For each
    /// artifact that has changed, it saves the earlier content as a new version. The keys of the user and the app do
    /// not change, and no event is deleted.
    #[command(
        override_usage = "scratchbook sessions rewind [OPTIONS] [SESSION] <INVOCATION>",
        after_help = "\
Examples:
  scratchbook sessions rewind shop/alice/s1 e-0d8f2c
  scratchbook sessions rewind --last e-0d8f2c"
    )]
    Rewind(RewindArgs),
    /// Fork a session: create a new session of the same user with the same events and state
    ///
    /// The new session also has a copy of the artifacts with all their versions. Both sessions share the keys of the
    /// user and the app.
    #[command(after_help = "\
Examples:
  scratchbook sessions fork shop/alice/s1
  scratchbook sessions fork shop/alice/s1 --at 12 --id what-if")]
    Fork(ForkArgs),
    /// Change the title and the labels of a session, but not its update time
    #[command(
        override_usage = "\
scratchbook sessions update [OPTIONS] [SESSION]
           <--title TEXT|--label KEY=VALUE|--remove-label KEY>...",
        after_help = "\
Examples:
  scratchbook sessions update shop/alice/s1 --title 'Lost parcel'
  scratchbook sessions update shop/alice/s1 --label status=open
  scratchbook sessions update --last --title '' --remove-label status"
    )]
    Update(UpdateArgs),
    /// Set the time at which a session expires
    ///
    /// A session behaves as if it were deleted from the moment it expires. `scratchbook prune --expired` frees the
    /// space of expired sessions.
    #[command(
        override_usage = "scratchbook sessions expire [OPTIONS] <--in|--at|--never> [SESSION]",
        after_help = "\
Examples:
  scratchbook sessions expire shop/alice/s1 --in 30d
  scratchbook sessions expire shop/alice/s1 --at 2027-01-01T00:00:00Z
  scratchbook sessions expire shop/alice/s1 --never"
    )]
    Expire(ExpireArgs),
}

impl SessionsCommand {
    /// Returns the app, if the arguments name it.
    pub(super) fn app(&self) -> Option<&str> {
        match self {
            Self::Create(args) => Some(&args.app),
            Self::List(args) => args.app.as_deref(),
            Self::Delete(args) => args.app.as_deref(),
            Self::Rewind(args) => args.app(),
            Self::Show(ShowArgs { session, .. })
            | Self::Fork(ForkArgs { session, .. })
            | Self::Update(UpdateArgs { session, .. })
            | Self::Expire(ExpireArgs { session, .. }) => session.app(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: String,
    /// The session's id [default: a generated id]
    #[arg(long, short, value_parser = named)]
    pub(crate) session: Option<String>,
    /// Let the session expire after this time, such as 30d, 12h or "1 week" [default: never]
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    pub(crate) time_to_live: Option<Span>,
    /// A title, for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// A label, for programs; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<Label>,
    #[command(flatten)]
    pub(crate) values: Assignments,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// List only the sessions of this app [default: all apps]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// List only the sessions of this user [default: all users]
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// List only sessions whose title contains this text, ignoring case
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// List only sessions with this label. If the option is repeated, a session must have all of these labels
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<Label>,
    /// List the least recently updated session first
    #[arg(long)]
    pub(crate) oldest_first: bool,
    /// The default, which scripts may still ask for
    #[arg(long, hide = true, conflicts_with = "oldest_first")]
    pub(crate) newest_first: bool,
    /// The maximum number of sessions to list, from 1 to 1000
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// List the next page, with the TOKEN that the previous page printed. The option requires --app
    #[arg(long, value_name = "TOKEN", requires = "app")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Show this many of the latest events
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    pub(crate) events: usize,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The sessions to delete, each as APP/USER/SESSION or an id, of which the beginning is enough
    #[arg(value_name = "SESSION", value_parser = named, required_unless_present_any = ["sessions", "last"])]
    pub(crate) named: Vec<String>,
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// A session to delete, as APP/USER/SESSION or an id; can be repeated. With both --app and --user, the id must be
    /// complete
    #[arg(long = "session", short, value_name = "SESSION", value_parser = named)]
    pub(crate) sessions: Vec<String>,
    /// Delete the most recently updated session of --app and --user, or of all apps and users without these options
    #[arg(long, conflicts_with_all = ["named", "sessions"])]
    pub(crate) last: bool,
    /// Do not ask for confirmation. The option is required if standard input is not a terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RewindArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// The session, and the id of the first invocation to undo. Leave out the session if an option names it
    #[arg(value_name = "INVOCATION", value_parser = named, num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,
}

impl DeleteArgs {
    /// Returns the sessions, each with its name on the command line.
    pub(crate) fn addresses(&self) -> Result<Vec<(String, Address)>> {
        let (app, user) = (self.app.clone(), self.user.clone());
        let options = AddressArgs { app, user, session: None, last: self.last };
        if self.last {
            return Ok(vec![("--last".to_owned(), options.required()?)]);
        }
        self.named.iter().chain(&self.sessions).map(|text| Ok((text.clone(), options.parse(text)?))).collect()
    }
}

impl RewindArgs {
    /// Returns the session and the invocation.
    pub(crate) fn target(&self) -> Result<(Address, &str)> {
        match (self.words.as_slice(), self.address.session()?) {
            ([session, invocation], None) => Ok((self.address.parse(session)?, invocation)),
            ([invocation], _) => Ok((self.address.required()?, invocation)),
            _ => Err(Error::invalid("the session is named twice; name it once, and then one invocation")),
        }
    }

    fn app(&self) -> Option<&str> {
        let of_word = || Some(parts(self.words.first()?)?[0]);
        self.address.app().or_else(of_word)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// The number of the last event to copy; 0 copies no event [default: the number of the last event]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// The new session's id [default: a generated id]
    #[arg(long, value_name = "NEW", value_parser = named)]
    pub(crate) id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) changes: MetadataChanges,
}

/// The changes to a session, at least one.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct MetadataChanges {
    /// The new title. An empty text ('') removes the title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Set a label; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<Label>,
    /// Remove a label; can be repeated
    #[arg(long = "remove-label", value_name = "KEY")]
    pub(crate) removed: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExpireArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) when: ExpiryOptions,
}

/// When a session expires.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ExpiryOptions {
    /// Expire after this time from now, such as 30d, 12h or "1 week"
    #[arg(long = "in", value_name = "SPAN", value_parser = values::span)]
    pub(crate) span: Option<Span>,
    /// Expire at this time, such as 2027-01-01T00:00:00Z. A time without an offset is in UTC
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) at: Option<PointInTime>,
    /// Never expire
    #[arg(long)]
    pub(crate) never: bool,
}
