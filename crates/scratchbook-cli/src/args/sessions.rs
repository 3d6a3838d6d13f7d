//! The arguments of `scratchbook sessions`.

use clap::{Args, Subcommand};

use super::values::{self, Label, PointInTime, Span};
use super::{Assignments, DASHES, SessionAddress, named};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Create a session, and the database file if it does not exist
    ///
    /// KEY=VALUE sets its initial state. Keys with the prefix user: or app: belong to the user or the app.
    #[command(after_help = DASHES)]
    Create(CreateArgs),
    /// List the sessions of an app or of one of its users, the least recently updated first
    #[command(after_help = "\
Examples:
  scratchbook sessions list --app shop --user alice --newest-first
  scratchbook sessions list --app shop --title parcel --label status=open")]
    List(ListArgs),
    /// Show a session: its state by scope and its last events
    Show(ShowArgs),
    /// Delete sessions with their events and their own state; the user's and the app's state stay
    Delete(DeleteArgs),
    /// Rewind a session to the state before an invocation, with a new event
    ///
    /// The session's own keys get the values that they had, and keys that did not exist are removed. Artifacts get a new
    /// version with the content that they had. The keys of the user and the app stay, and so do all events. The invocation
    /// of each event is in `sessions show --json`.
    #[command(after_help = "\
Example:
  scratchbook sessions rewind --app shop --user alice --session s1 e-0d8f2c")]
    Rewind(RewindArgs),
    /// Fork a session: create a new session of the same user with its events and state
    ///
    /// The session's artifacts are copied with all their versions. Like all sessions, both share the keys of the user and
    /// the app.
    #[command(after_help = "\
Examples:
  scratchbook sessions fork --app shop --user alice --session s1
  scratchbook sessions fork --app shop --user alice --session s1 --at 12 --id what-if")]
    Fork(ForkArgs),
    /// Change the title and the labels of a session; its update time does not change
    #[command(after_help = "\
Examples:
  scratchbook sessions update --app shop --user alice --session s1 --title 'Lost parcel' --label status=open
  scratchbook sessions update --app shop --user alice --session s1 --title '' --remove-label status")]
    Update(UpdateArgs),
    /// Set when a session expires; from then on, it behaves as if deleted
    ///
    /// `scratchbook prune --expired` frees the space of expired sessions.
    #[command(after_help = "\
Examples:
  scratchbook sessions expire --app shop --user alice --session s1 --in 30d
  scratchbook sessions expire --app shop --user alice --session s1 --at 2027-01-01T00:00:00Z
  scratchbook sessions expire --app shop --user alice --session s1 --never")]
    Expire(ExpireArgs),
}

impl SessionsCommand {
    pub(super) fn app(&self) -> &str {
        match self {
            Self::Create(args) => &args.app,
            Self::List(args) => &args.app,
            Self::Show(args) => &args.session.app,
            Self::Delete(args) => &args.app,
            Self::Rewind(args) => &args.session.app,
            Self::Fork(args) => &args.session.app,
            Self::Update(args) => &args.session.app,
            Self::Expire(args) => &args.session.app,
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
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// Only this user's sessions
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// Only sessions whose title contains this text, ignoring case
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Only sessions with this label; can be repeated for sessions that have all of them
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<Label>,
    /// List the most recently updated session first
    #[arg(long)]
    pub(crate) newest_first: bool,
    /// The maximum number of sessions, 1 to 1000
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Continue after the page that returned this token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    /// Show this many of the last events
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    pub(crate) events: usize,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: String,
    /// The session; can be repeated
    #[arg(long = "session", short, value_name = "SESSION", required = true)]
    pub(crate) sessions: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RewindArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    /// The first invocation to undo
    #[arg(value_name = "INVOCATION", value_parser = named)]
    pub(crate) invocation: String,
}

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
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
    pub(crate) session: SessionAddress,
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
    pub(crate) session: SessionAddress,
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
