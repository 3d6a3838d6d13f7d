//! What can be written after `scratchbook sessions`.

use clap::{Args, Subcommand};

use super::values::{self, Label, Moment, Span};
use super::{Assignments, DASHES, SessionAddress, named};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Create a session; the database file too, where there is none
    ///
    /// KEY=VALUE gives it its first state; user: and app: keys are the user's and the app's.
    #[command(after_help = DASHES)]
    Create(CreateArgs),
    /// List the sessions of an app or of one of its users, the one updated longest ago first
    ///
    /// --title and --label leave out all others; --label may be given several times, for sessions that have all of them.
    #[command(after_help = "\
Examples:
  scratchbook sessions list --app shop --user alice --newest-first
  scratchbook sessions list --app shop --title parcel --label status=open")]
    List(ListArgs),
    /// Show a session: its state by scope and its last events
    Show(ShowArgs),
    /// Delete sessions with their events and their own state; the state of user and app stays
    Delete(DeleteArgs),
    /// Take a session back to before an invocation: an event gives its own keys the values they had then
    ///
    /// Keys that were not there are removed, and artifacts get their versions of then as new ones. The user's and the
    /// app's keys stay, and so do the events. `sessions show --json` names the invocation of each event.
    #[command(after_help = "\
Example:
  scratchbook sessions rewind --app shop --user alice --session s1 e-0d8f2c")]
    Rewind(RewindArgs),
    /// Make a new session of the same user with the events and the state that a session had
    ///
    /// The session's artifacts come along with all their versions. The user's and the app's keys are shared, as among
    /// all sessions.
    #[command(after_help = "\
Examples:
  scratchbook sessions fork --app shop --user alice --session s1
  scratchbook sessions fork --app shop --user alice --session s1 --at 12 --id what-if")]
    Fork(ForkArgs),
    /// Change the title and the labels of a session; they are no state, and the session's update time stays
    #[command(after_help = "\
Examples:
  scratchbook sessions update --app shop --user alice --session s1 --title 'Lost parcel' --label status=open
  scratchbook sessions update --app shop --user alice --session s1 --title '' --remove-label status")]
    Update(UpdateArgs),
    /// Say when a session expires; from then on it is as if it had been deleted
    ///
    /// `scratchbook prune --expired` frees what expired sessions occupy.
    #[command(after_help = "\
Examples:
  scratchbook sessions expire --app shop --user alice --session s1 --in 30d
  scratchbook sessions expire --app shop --user alice --session s1 --at 2027-01-01T00:00:00Z
  scratchbook sessions expire --app shop --user alice --session s1 --never")]
    Expire(ExpireArgs),
}

impl SessionsCommand {
    /// The app.
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
    /// The session's id; one is made if none is given
    #[arg(long, short, value_parser = named)]
    pub(crate) session: Option<String>,
    /// How long it lives: 30d, 12h, "1 week"
    #[arg(long, value_name = "SPAN", value_parser = values::span)]
    pub(crate) time_to_live: Option<Span>,
    /// What people know it by
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// What programs find it by; may be given several times
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
    /// Only sessions with this text in their title, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Only sessions with this label; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<Label>,
    /// The session updated last comes first
    #[arg(long)]
    pub(crate) newest_first: bool,
    /// How many sessions at most, 1 to 1000
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Go on after the page that ended with this token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    /// How many of the last events
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
    /// The session; may be given several times
    #[arg(long = "session", short, value_name = "SESSION", required = true)]
    pub(crate) sessions: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RewindArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    /// The invocation that is to be undone, with all that came after it
    #[arg(value_name = "INVOCATION", value_parser = named)]
    pub(crate) invocation: String,
}

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    /// The number of the last event that is taken over, 0 for none; all, if it is not said
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// The new session's id; one is made if none is given
    #[arg(long, value_name = "NEW", value_parser = named)]
    pub(crate) id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    #[command(flatten)]
    pub(crate) changes: Changes,
}

/// What is changed of a session; something has to be.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Changes {
    /// The new title; '' removes it
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Set a label; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<Label>,
    /// Remove a label; may be given several times
    #[arg(long = "remove-label", value_name = "KEY")]
    pub(crate) removed: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExpireArgs {
    #[command(flatten)]
    pub(crate) session: SessionAddress,
    #[command(flatten)]
    pub(crate) when: When,
}

/// When a session expires.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct When {
    /// So long from now: 30d, 12h, "1 week"
    #[arg(long = "in", value_name = "SPAN", value_parser = values::span)]
    pub(crate) span: Option<Span>,
    /// At a time: 2027-01-01T00:00:00Z; UTC where no offset is said
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) at: Option<Moment>,
    /// Not at all
    #[arg(long)]
    pub(crate) never: bool,
}
