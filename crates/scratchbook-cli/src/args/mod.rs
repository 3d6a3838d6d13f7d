//! The arguments on the command line.

mod address;
mod chat;
#[cfg(feature = "serve")]
mod health;
mod maintenance;
mod scenario;
#[cfg(feature = "serve")]
mod serve;
mod sessions;
mod setup;
mod state;
#[cfg(feature = "serve")]
mod token;
mod values;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::failure::EXIT_CODES;
#[cfg(not(feature = "serve"))]
pub(crate) use crate::without_server::{HealthArgs, ServeArgs, TokenCommand};
#[cfg(not(feature = "serve"))]
use crate::without_server::{args as health, args as serve};

pub(crate) use address::{Address, AddressArgs, SessionArgs, Within, parts};
pub(crate) use chat::ChatArgs;
#[cfg(feature = "serve")]
pub(crate) use health::HealthArgs;
pub(crate) use maintenance::{PruneArgs, SchemaCheckArgs, SchemaCommand, WatchArgs};
pub(crate) use scenario::Scenario;
#[cfg(feature = "serve")]
pub(crate) use serve::{AccessArgs, LimitArgs, LogFormat, LogLevel, ServeArgs};
pub(crate) use sessions::{
    CreateArgs, DeleteArgs, ExpireArgs, ForkArgs, ListArgs, RewindArgs, SessionsCommand, ShowArgs, UpdateArgs,
};
pub(crate) use setup::{CompletionsArgs, ManArgs, NewArgs};
pub(crate) use state::{
    AppendArgs, Assignments, AtArgs, BlameArgs, DiffArgs, GetArgs, HistoryArgs, IncrementArgs, ListStateArgs,
    MergeArgs, SetArgs, StateCommand, UnsetArgs, WriteOptions,
};
#[cfg(feature = "serve")]
pub(crate) use token::{NewTokenArgs, TokenCommand};
pub(crate) use values::{Label, PointInTime};

/// The hint for keys and values that look like options.
pub(crate) const DASHES: &str =
    "Write a key or value that begins with '-' after '--': scratchbook state set --app APP -- -dash=1";

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// Durable sessions and scoped state for AI agents.
///
/// Serves ADK's HTTP API over a database, and reads and changes the sessions and the state in it.
///
/// Four ways name a session: APP/USER/SESSION; its id, or the beginning of its id; --last, for the session with the newest
/// event; or --app, --user and --session with its whole id. --app and --user name a user, and --app names an app.
#[derive(Debug, Parser)]
#[command(name = "scratchbook", version, propagate_version = true, after_long_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options that every command has.
#[derive(Debug, Args)]
pub(crate) struct GlobalOptions {
    /// The database: the path of a SQLite file, sqlite://PATH, postgresql://USER:PASSWORD@HOST/DATABASE,
    /// mysql://USER:PASSWORD@HOST/DATABASE, or memory: [default: $SCRATCHBOOK_DATABASE, or else scratchbook.db; for demo,
    /// memory:]
    #[arg(long, short, global = true, help_heading = GLOBAL, value_name = "DATABASE",
        value_parser = database_uri)]
    pub(crate) database: Option<String>,
    /// Print JSON instead of text, also for errors
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Time out each call to the database after this many seconds [default for serve: $SCRATCHBOOK_DEADLINE]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// Refuse writes of session, user or app keys that violate this schema, a JSON file; see `scratchbook schema check --help`
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Encrypt and decrypt with the keys in this file, which only its owner should be able to read
    /// [default: $SCRATCHBOOK_KEYRING; for demo, none]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// With a keyring, how to treat values that are stored unencrypted [default: $SCRATCHBOOK_PLAIN_VALUES, or else read]
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, value_name = "WHAT")]
    pub(crate) plain_values: Option<Plain>,
}

/// How values that are stored unencrypted are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// Read them: they were written before there was a keyring
    Read,
    /// Fail: everything was encrypted from the beginning
    Refused,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve sessions, state and agents over HTTP, by ADK's API and more
    ///
    /// Creates the database if it does not exist, prints the server's address, and serves until Ctrl-C or SIGTERM. Then the
    /// server finishes the requests that have begun. A second signal ends it at once.
    #[command(after_help = serve::SERVE_HELP)]
    #[cfg_attr(not(feature = "serve"), command(hide = true))]
    Serve(Box<ServeArgs>),
    /// Ask a server whether it is ready, for containers and monitoring
    ///
    /// The exit code is 0 if it is ready. It is 10 if it is not ready, or if it does not answer in time. The time is
    /// --deadline, or else 4 seconds. For a server on this machine, any certificate is accepted. For a URL, the certificate
    /// must be trusted.
    #[command(after_help = health::HEALTH_EXAMPLES)]
    #[cfg_attr(not(feature = "serve"), command(hide = true))]
    Health(HealthArgs),
    /// Talk to an agent in the terminal
    ///
    /// Answers are shown as they are generated, with tool calls and state changes beside them. The conversation is a session;
    /// --session continues one. Ctrl-C stops an answer and keeps the session; Ctrl-C twice, or Ctrl-D, ends the conversation.
    /// Piped input is read line by line; --json prints each event as a line. The exit code is that of the last answer.
    #[command(after_help = chat::CHAT_EXAMPLES)]
    Chat(ChatArgs),
    /// Make a folder with a new agent, for chat and serve
    ///
    /// Writes root_agent.yaml (an ADK Agent Config), a README and an example of the environment variables. It overwrites
    /// nothing.
    #[command(after_help = setup::NEW_EXAMPLES)]
    New(NewArgs),
    /// Run example scenarios offline with real agents, and check the state they produce
    ///
    /// Shows each event, its delta by scope and the state after it, and checks the expected values. Each run creates new
    /// sessions. Users and apps keep their values in a database file, so that the next run continues from them. The exit
    /// code is 1 if a value differs.
    Demo(DemoArgs),
    /// Create, list, show, label, fork, rewind, expire and delete sessions
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Read and change the state of a session, a user or an app, and show its history
    ///
    /// Use --app for an app, --app and --user for a user, and --session or --last for a session. With a session, write keys
    /// of the user and the app with their prefix, user: or app:. The session's own keys have none. With only a user or an
    /// app, write the keys without prefix.
    State {
        #[command(subcommand)]
        command: StateCommand,
    },
    /// List the apps of the database, with the number of their users and the time of the newest event
    Apps,
    /// Create tokens with which clients log in to a server
    #[cfg_attr(not(feature = "serve"), command(hide = true))]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// List and erase users
    Users {
        #[command(subcommand)]
        command: UsersCommand,
    },
    /// Follow the change feed of a session, or of all sessions and keys of a user or an app
    ///
    /// Prints a line for each event, for each session created with state, and for each change made outside of events. With
    /// --json, each line is an object with its `cursor`, and the last line, of type `end`, has the cursor to continue from.
    /// The exit code after Ctrl-C is 0.
    #[command(after_help = maintenance::WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Recompute all state from events and logs, and compare it with the stored state
    ///
    /// Prints each difference and continues. Others can write at the same time. The exit code is 12 if anything differs.
    #[command(after_help = maintenance::VERIFY_EXAMPLES)]
    Verify(AddressArgs),
    /// Delete expired sessions, old events and old entries of state logs
    ///
    /// Works in small commits, so that others can write at the same time. The state and the numbers of the remaining events
    /// do not change. Pruning cannot be undone: you can no longer read the state at the pruned events, or what wrote the keys
    /// then. Therefore it asks for confirmation, except for --expired alone: what has expired cannot be read any more.
    #[command(after_help = maintenance::PRUNE_EXAMPLES)]
    Prune(PruneArgs),
    /// Encrypt the current values of the state again, with the keyring's current key
    ///
    /// Works in small commits while others read and write; to complete an interrupted run, run it again. Before you run it,
    /// add the new key to the keyring of every process. Everything else stays encrypted with its old key: events, initial
    /// states, logs, artifacts, titles and labels. So keep the old keys in the keyring, or export everything and import it
    /// into a new database.
    #[command(after_help = maintenance::RESEAL_EXAMPLES)]
    Reseal(AddressArgs),
    /// Check schemas for state
    Schema {
        #[command(subcommand)]
        command: SchemaCommand,
    },
    /// Create the tables or upgrade them
    ///
    /// Every command that opens a database does this, unless the URI has migrate=check. --dry-run only prints the SQL. Use it
    /// if another role must create the tables.
    Migrate(MigrateArgs),
    /// Copy a SQLite database to a new file while it is in use
    Backup(BackupArgs),
    /// Import sessions and state from a google-adk database, or from a file written by export
    ///
    /// Sessions keep their ids, events, order, times and state. Content that the database has already is skipped, so that
    /// an interrupted import can be run again. Invalid rows are reported and skipped, and the exit code is then 1. The source
    /// is not changed. During the import, nobody else should write to the imported users and apps.
    Import(ImportArgs),
    /// Export sessions, state and artifacts as JSON Lines, to a file or to standard output
    ///
    /// `scratchbook import --from jsonl` reads them. Sessions that change during the export may be missing; to copy a SQLite
    /// file in use, use backup.
    Export(ExportArgs),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = setup::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write man pages, one for each command
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The kind of source
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) from: ImportFormat,
    /// A file, a database URL in google-adk's form (postgresql://..., sqlite:///PATH), or - for standard input
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
}

/// A kind of source to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// A file written by google-adk's SqliteSessionService
    AdkSqlite,
    /// A database written by google-adk's DatabaseSessionService: SQLite or PostgreSQL, schema version 1
    AdkDatabase,
    /// A file written by `scratchbook export`
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
    /// The file to create, which must not exist [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The scenarios to run [default: all]
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<Scenario>,
    /// List the scenarios instead of running them
    #[arg(long, conflicts_with = "scenarios")]
    pub(crate) list: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// List the users of an app, or of all apps, with the time of their newest event
    List(ListUsersArgs),
    /// Erase all data of a user: sessions, events, state, log and artifacts. This cannot be undone
    Erase(EraseArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListUsersArgs {
    /// Only the users of this app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// The maximum number of users
    #[arg(long, short, value_name = "N", default_value_t = 100, value_parser = values::at_least_one::<usize>)]
    pub(crate) limit: usize,
    /// Continue after the page that returned this token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EraseArgs {
    /// The app
    #[arg(long, short, value_parser = named)]
    pub(crate) app: String,
    /// The user
    #[arg(long, short, value_parser = named)]
    pub(crate) user: String,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to create, which must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Print the missing SQL instead of running it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Command {
    /// Returns the app if the command concerns a single one.
    pub(crate) fn app(&self) -> Option<String> {
        match self {
            Self::Chat(args) => args.app_name(),
            Self::Sessions { command } => command.app().map(str::to_owned),
            Self::State { command } => command.app().map(str::to_owned),
            _ => None,
        }
    }
}

/// Parses a name. It must not be empty, which hints at an unset shell variable.
fn named(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("it is empty; is a variable of the shell not set?".to_owned());
    }
    Ok(text.to_owned())
}

/// Makes a URI of the path of a SQLite file. Any other text stays as it is, and is refused when the database is opened
/// unless it is a URI.
pub(crate) fn database_uri(text: &str) -> Result<String, Infallible> {
    let is_drive = |scheme: &str| scheme.len() == 1;
    let is_path = match text.split_once(':') {
        Some((scheme, _)) => is_drive(scheme),
        None => !matches!(text, "" | "memory"),
    };
    // With '=' it may be a connection string of PostgreSQL's library, which may hold a password.
    let is_path = is_path && !text.split('?').next().unwrap_or_default().contains('=');
    Ok(if is_path { format!("sqlite://{text}") } else { text.to_owned() })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds, such as 2.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("it is more than 0 seconds, such as 2.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::database_uri;

    #[test]
    fn a_path_is_the_uri_of_a_file() {
        for (text, uri) in [
            ("agents.db", "sqlite://agents.db"),
            ("/data/agents.db?mode=ro", "sqlite:///data/agents.db?mode=ro"),
            ("./memory", "sqlite://./memory"),
            (r"C:\data\agents.db", r"sqlite://C:\data\agents.db"),
            ("sqlite://agents.db", "sqlite://agents.db"),
            ("postgresql://u:p@h/d", "postgresql://u:p@h/d"),
            ("memory:", "memory:"),
            ("memory", "memory"),
            ("sqlite:agents.db", "sqlite:agents.db"),
            ("host=db password=secret", "host=db password=secret"),
            ("", ""),
        ] {
            assert_eq!(database_uri(text).as_deref(), Ok(uri));
        }
    }
}
