//! What can be written on the command line.

mod chat;
mod maintenance;
mod scenario;
mod serve;
mod sessions;
mod state;
mod token;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::failure::EXIT_CODES;

pub(crate) use chat::ChatArgs;
pub(crate) use maintenance::{PruneArgs, ResealArgs, SchemaCheckArgs, SchemaCommand, VerifyArgs, WatchArgs};
pub(crate) use scenario::Scenario;
pub(crate) use serve::{AccessArgs, LimitArgs, LogFormat, LogLevel, ServeArgs};
pub(crate) use sessions::{
    CreateArgs, DeleteArgs, ExpireArgs, ForkArgs, ListArgs, RewindArgs, SessionsCommand, ShowArgs, UpdateArgs,
};
pub(crate) use state::{
    AppendArgs, Assignments, AtArgs, BlameArgs, DiffArgs, GetArgs, HistoryArgs, IncrementArgs, ListStateArgs,
    MergeArgs, SetArgs, StateCommand, UnsetArgs, Writing,
};
pub(crate) use token::{NewTokenArgs, TokenCommand};
pub(crate) use values::{Label, Moment};

/// How to write what would be taken for an option.
pub(crate) const DASHES: &str =
    "A key or value that begins with '-' goes after '--': scratchbook state set --app APP -- -dash=1";

/// The heading over what every command takes.
const GLOBAL: &str = "Global options";

/// Durable sessions and scoped state for AI agents.
///
/// Serves ADK's HTTP API over a database, and looks at and changes the sessions and the state in one. Everything is addressed in
/// full: a session by --app, --user and --session, a user by --app and --user, an app by --app.
#[derive(Debug, Parser)]
#[command(name = "scratchbook", version, propagate_version = true, after_long_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The database: sqlite://PATH, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://USER:PASSWORD@HOST/DATABASE, or
    /// memory: [default: $SCRATCHBOOK_DATABASE, or else sqlite://scratchbook.db; for demo, memory:]
    #[arg(long, short, global = true, help_heading = GLOBAL, value_name = "URI")]
    pub(crate) database: Option<String>,
    /// Print JSON instead of text, errors too
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Give up on any single call to the database after so many seconds [default for serve: $SCRATCHBOOK_DEADLINE]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// Refuse writes to the state of the command's app that break this schema: a JSON document, see schema check
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Open what is sealed, and seal what is written, by the keys of this file; only its owner should be able to read it
    /// [default: $SCRATCHBOOK_KEYRING; for demo, none]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// With a keyring, what happens to values that are stored in the clear [default: $SCRATCHBOOK_PLAIN_VALUES, or else
    /// read]
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, value_name = "WHAT")]
    pub(crate) plain_values: Option<Plain>,
}

/// What happens to values in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// They are read as they are: they are from before there was a keyring
    Read,
    /// They are errors: everything was sealed from the beginning
    Refused,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve ADK's HTTP API over a database, with agents to talk to
    ///
    /// Makes the database where it is missing, prints where to look, and serves until Ctrl-C or SIGTERM: what was begun is
    /// then finished, and a second signal ends it at once.
    #[command(after_help = serve::SERVE_HELP)]
    Serve(Box<ServeArgs>),
    /// Talk to an agent in the terminal
    ///
    /// Answers come as they are made; tool calls and changes of the state stand beside them. The conversation is a session:
    /// --session goes on with one. Ctrl-C ends an answer and keeps the session; twice, or Ctrl-D, it ends the conversation.
    /// What is piped in is taken line by line; --json prints each event as a line. Exits as the last answer went.
    #[command(after_help = chat::CHAT_EXAMPLES)]
    Chat(ChatArgs),
    /// Play scenarios as real agent runs, without a network, and check what they leave in the state
    ///
    /// Shows each event, its delta by scope and the state after it, and checks the values that must come out.
    /// Sessions are new in each run; users and apps get their starting values where they have none, so that on
    /// a file the next run finds what the last one left. Exits with 1 where a value is different.
    Demo(DemoArgs),
    /// Create, list, show, label, fork, rewind and delete sessions, and have them expire
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Read and change the state of a session, a user or an app; see what it was, and who wrote it
    State {
        #[command(subcommand)]
        command: StateCommand,
    },
    /// Make tokens, by which clients of a server log in
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Erase users
    Users {
        #[command(subcommand)]
        command: UsersCommand,
    },
    /// Follow what is committed: to a session, or to all sessions and keys of a user or an app
    ///
    /// Prints a line for each event, each session made with state, and each change made outside of events. With --json
    /// each line is an object with its `cursor`, and a last line of the type `end` has where to go on; Ctrl-C is a good
    /// end.
    #[command(after_help = maintenance::WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Compute all state anew from events and logs, and compare it with what is stored
    ///
    /// Names each difference and goes on. It may run while others write. Exits with 12 where anything differs.
    #[command(after_help = maintenance::VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Delete what is not needed any more: expired sessions, old events, old entries of the logs of state
    ///
    /// Goes in small steps, so that others can write meanwhile. State stays as it is, and so do the numbers of the
    /// events that are kept. What is pruned is gone: state at earlier events, and the history of keys, end there.
    #[command(after_help = maintenance::PRUNE_EXAMPLES)]
    Prune(PruneArgs),
    /// Seal all state by the keyring's current key: what other keys have sealed, and what is in the clear
    ///
    /// Goes in small commits, while others read and write; what was interrupted is done by doing it again. Each process
    /// must have the new key in its keyring before this is run. Events, initial states, logs, artifacts, titles and labels
    /// stay as they are: keep the old keys in the keyring, or export everything and import it into a new database.
    #[command(after_help = maintenance::RESEAL_EXAMPLES)]
    Reseal(ResealArgs),
    /// Look at schemas for state
    Schema {
        #[command(subcommand)]
        command: SchemaCommand,
    },
    /// Make the tables, or bring them up to date; every other command does so too, unless the URI says migrate=check
    ///
    /// With --dry-run the SQL is printed and nothing is changed: for a database whose tables another role makes.
    Migrate(MigrateArgs),
    /// Copy a SQLite database to a new file, as it is at this moment, while it is in use
    Backup(BackupArgs),
    /// Bring over sessions and state: from google-adk's databases, or from a file that export has made
    ///
    /// Sessions keep their ids, events, order, times and state. What is in the database already with the same content
    /// is passed over, so that an import which was interrupted is completed by doing it again. Rows that no store may
    /// hold are told and left out, and the exit code is then 1. The source is not written to. Nobody else should write
    /// to the users and apps that are imported meanwhile.
    Import(ImportArgs),
    /// Write sessions, state and artifacts as lines of JSON, to a file or to standard output
    ///
    /// `scratchbook import --from jsonl` reads them. Sessions that are written to meanwhile may be missed: for a copy
    /// of a SQLite file in use, there is backup.
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// What is read
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) from: Source,
    /// A file, or a database's URL as google-adk takes it: postgresql://..., sqlite:///PATH; - is standard input
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
}

/// What can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// A file of google-adk's SqliteSessionService
    AdkSqlite,
    /// A database of google-adk's DatabaseSessionService: SQLite or PostgreSQL, schema version 1
    AdkDatabase,
    /// A file that `scratchbook export` has made
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only this app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Only this user of the app, without the app's own state
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
    /// The file to make; one that exists is refused. Standard output, if none is named
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The scenarios to play; all, if none is named
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<Scenario>,
    /// Name the scenarios instead of playing them
    #[arg(long, conflicts_with = "scenarios")]
    pub(crate) list: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// Erase a user wholly: sessions, events, state, log and artifacts. This cannot be undone
    Erase(EraseArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EraseArgs {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: String,
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to make; one that exists is refused
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Print the SQL that is missing instead of running it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A session in full.
#[derive(Debug, Args)]
pub(crate) struct SessionAddress {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: String,
    /// The session
    #[arg(long, short)]
    pub(crate) session: String,
}

/// Whose state: a session's, a user's or an app's, by how much of the address is given.
#[derive(Debug, Args)]
pub(crate) struct StateAddress {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// The user; without --session the keys are the user's, written without 'user:'
    #[arg(long, short, value_parser = named)]
    pub(crate) user: Option<String>,
    /// The session
    #[arg(long, short, requires = "user")]
    pub(crate) session: Option<String>,
}

impl Command {
    /// The app that the command is about; none where it may be about several.
    pub(crate) fn app(&self) -> Option<String> {
        match self {
            Self::Chat(args) => args.app_name(),
            Self::Sessions { command } => Some(command.app().to_owned()),
            Self::State { command } => Some(command.app().to_owned()),
            _ => None,
        }
    }
}

/// A name that is not empty: an empty one comes of a variable of the shell that is not set.
fn named(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("it is empty; is a variable of the shell not set?".to_owned());
    }
    Ok(text.to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds, such as 2.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("it is more than 0 seconds, such as 2.5".to_owned()),
    }
}
