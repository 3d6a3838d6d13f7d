//! The arguments of `scratchbook sessions`.

use clap::{Args, Subcommand};
use scratchbook::{Error, Result};

use super::values::{self, Label, PointInTime, Span};
use super::{Address, AddressArgs, Assignments, DASHES, SessionArgs, named, parts};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Create a session, and the database file if it does not exist
    ///
    /// KEY=VALUE sets its initial state. Keys with the prefix user: or app: belong to the user or the app.
    #[command(after_help = DASHES)]
    Create(CreateArgs),
    /// List sessions, of all apps or of one, the most recently updated first
    #[command(after_help = "\
Examples:
  scratchbook sessions list
  scratchbook sessions list --app shop --user alice
  scratchbook sessions list --app shop --title parcel --label status=open")]
    List(ListArgs),
    /// Show a session: its state by scope and its last events, with their invocations
    #[command(after_help = "\
Examples:
  scratchbook sessions show shop/alice/s1
  scratchbook sessions show 019aa3b2 --events 50
  scratchbook sessions show --last")]
    Show(ShowArgs),
    /// Delete sessions with their events and their own state; the user's and the app's state stay
    ///
    /// Asks for confirmation. With --yes, ids have to be whole: the beginning of one may fit another session when a script
    /// runs again.
    #[command(after_help = "\
Examples:
  scratchbook sessions delete shop/alice/s1 shop/alice/s2
  scratchbook sessions delete --app shop --user alice --session s1 --yes")]
    Delete(DeleteArgs),
    /// Rewind a session to the state before an invocation, with a new event
    ///
    /// The session's own keys get the values that they had, and keys that did not exist are removed. Artifacts get a new
    /// version with the content that they had. The keys of the user and the app stay, and so do all events. The invocations
    /// are in `sessions show`.
    #[command(
        override_usage = "scratchbook sessions rewind [OPTIONS] [SESSION] <INVOCATION>",
        after_help = "\
Examples:
  scratchbook sessions rewind shop/alice/s1 e-0d8f2c
  scratchbook sessions rewind --last e-0d8f2c"
    )]
    Rewind(RewindArgs),
    /// Fork a session: create a new session of the same user with its events and state
    ///
    /// The session's artifacts are copied with all their versions. Like all sessions, both share the keys of the user and
    /// the app.
    #[command(after_help = "\
Examples:
  scratchbook sessions fork shop/alice/s1
  scratchbook sessions fork shop/alice/s1 --at 12 --id what-if")]
    Fork(ForkArgs),
    /// Change the title and the labels of a session; its update time does not change
    #[command(after_help = "\
Examples:
  scratchbook sessions update shop/alice/s1 --title 'Lost parcel' --label status=open
  scratchbook sessions update shop/alice/s1 --title '' --remove-label status")]
    Update(UpdateArgs),
    /// Set when a session expires; from then on, it behaves as if deleted
    ///
    /// `scratchbook prune --expired` frees the space of expired sessions.
    #[command(after_help = "\
Examples:
  scratchbook sessions expire shop/alice/s1 --in 30d
  scratchbook sessions expire shop/alice/s1 --at 2027-01-01T00:00:00Z
  scratchbook sessions expire shop/alice/s1 --never")]
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
    /// The session's id [default: a new id]
    #[arg(long, short, value_parser = named)]
    pub(crate) session: Option<String>,
    /// Let the session expire after this time: 30d, 12h, "1 week"
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
    /// Only this app's sessions
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Only this user's sessions
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// Only sessions whose title contains this text, ignoring case
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Only sessions with this label; can be repeated for sessions that have all of them
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<Label>,
    /// List the least recently updated session first
    #[arg(long)]
    pub(crate) oldest_first: bool,
    /// The default, which scripts may still ask for
    #[arg(long, hide = true, conflicts_with = "oldest_first")]
    pub(crate) newest_first: bool,
    /// The maximum number of sessions, 1 to 1000
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue after the page that returned this token
    #[arg(long, value_name = "TOKEN", requires = "app")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Show this many of the last events
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    pub(crate) events: usize,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The sessions: APP/USER/SESSION, an id, or the beginning of an id
    #[arg(value_name = "SESSION", value_parser = named, required_unless_present_any = ["sessions", "last"])]
    pub(crate) named: Vec<String>,
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// A session, named in the same ways; can be repeated. With both --app and --user, the whole id
    #[arg(long = "session", short, value_name = "SESSION", value_parser = named)]
    pub(crate) sessions: Vec<String>,
    /// The session with the newest event, of --app and --user if they are given
    #[arg(long, conflicts_with_all = ["named", "sessions"])]
    pub(crate) last: bool,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RewindArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// The session, unless options name it, and the first invocation to undo
    #[arg(value_name = "INVOCATION", value_parser = named, num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,
}

impl DeleteArgs {
    /// Returns the sessions, each with what the command line calls it.
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
    /// The number of the last event to copy, 0 for none [default: all events]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// The new session's id [default: a new id]
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
    /// The new title; '' removes it
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
    /// After this time from now: 30d, 12h, "1 week"
    #[arg(long = "in", value_name = "SPAN", value_parser = values::span)]
    pub(crate) span: Option<Span>,
    /// At this time: 2027-01-01T00:00:00Z; without an offset it is UTC
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) at: Option<PointInTime>,
    /// Never
    #[arg(long)]
    pub(crate) never: bool,
}
