//! The arguments on the command line.

/// Examples for the help of a command that takes keys. The last example has a key that begins with '-'.
macro_rules! with_dashes {
    ($examples:literal) => {
        concat!($examples, "\n\nWrite a key or value that begins with '-' after '--', as in the last example.")
    };
}

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
#[cfg(not(feature = "serve"))]
mod without_server;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::failure::EXIT_CODES;

pub(crate) use address::{Address, AddressArgs, SessionArgs, Within, parts};
pub(crate) use chat::ChatArgs;
#[cfg(feature = "serve")]
pub(crate) use health::HealthArgs;
pub(crate) use maintenance::{PruneArgs, SchemaCheckArgs, SchemaCommand, SealArgs, VerifyArgs, WatchArgs};
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
#[cfg(not(feature = "serve"))]
use without_server as health;
#[cfg(not(feature = "serve"))]
use without_server as serve;
#[cfg(not(feature = "serve"))]
pub(crate) use without_server::{HealthArgs, NewTokenArgs, ServeArgs, TokenCommand};

/// The hint for keys and values that look like options.
pub(crate) const DASHES: &str =
    "Write a key or value that begins with '-' after '--': scratchbook state set --app APP -- -dash=1";

/// Examples of the command, which --help shows before the exit codes.
const EXAMPLES: &str = "\
Examples:
  scratchbook chat
  scratchbook serve --database agents.db
  scratchbook sessions show --last";

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// The global options that only commands with a database use.
const OF_DATABASE: &[&str] = &["database", "deadline", "schema", "keyring", "plain_values"];

/// Commands, each with the global options that it ignores or refuses.
const NOT_APPLICABLE: &[(&str, &[&str])] = &[
    ("serve", &["schema"]),
    ("health", &["database", "schema", "keyring", "plain_values"]),
    ("new", OF_DATABASE),
    ("demo", &["schema"]),
    ("apps", &["schema"]),
    ("token", OF_DATABASE),
    ("users", &["schema"]),
    ("watch", &["schema"]),
    ("verify", &["schema"]),
    ("prune", &["schema"]),
    ("reseal", &["schema"]),
    ("schema", &["schema"]),
    ("migrate", &["schema", "keyring", "plain_values"]),
    ("backup", &["schema", "keyring", "plain_values"]),
    ("import", &["schema"]),
    ("export", &["schema"]),
    ("completions", OF_DATABASE),
    ("man", OF_DATABASE),
];

/// Durable sessions and scoped state for AI agents.
///
/// scratchbook keeps sessions and state in a database. With this command you serve the database over HTTP, talk to
/// agents, and read and change sessions and state.
///
/// You can name a session as APP/USER/SESSION or by its id alone. You can shorten the id if only one session begins with
/// it; a session with exactly this id wins. --last names the most recently updated session. --app, --user and --session
/// together also name a session. Then --session must be the complete id: use this form in scripts. --app and --user
/// without --session name a user, and --app alone names an app.
#[derive(Debug, Parser)]
#[command(
    name = "scratchbook",
    version,
    propagate_version = true,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"),
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options that every command has.
#[derive(Debug, Args)]
pub(crate) struct GlobalOptions {
    /// The database, as the path of a SQLite file or as a URI: sqlite://PATH, postgresql://USER:PASSWORD@HOST/DATABASE,
    /// mysql://USER:PASSWORD@HOST/DATABASE, or memory: for a new database in memory [default: $SCRATCHBOOK_DATABASE, or
    /// else scratchbook.db; for demo, memory:]
    #[arg(long, short, global = true, help_heading = GLOBAL, value_name = "DATABASE",
        value_parser = database_uri)]
    pub(crate) database: Option<String>,
    /// Print output and errors as JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// The time limit in seconds for each call to the database. For the command health, the time limit for the server's
    /// response [default: no limit; for serve, $SCRATCHBOOK_DEADLINE, or else no limit; for health, 4]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// Refuse writes that violate the schema in this JSON file. Use the option with sessions, state or chat, and name
    /// the app. `scratchbook schema check --help` describes the file
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Encrypt and decrypt with the keys in this file, which only you should be able to read [default:
    /// $SCRATCHBOOK_KEYRING, or else no encryption; for demo, no encryption]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// Whether to accept values that are stored unencrypted, if there is a keyring [default: $SCRATCHBOOK_PLAIN_VALUES,
    /// or else read]
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, value_name = "WHAT")]
    pub(crate) plain_values: Option<Plain>,
}

/// How values that are stored unencrypted are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plain {
    /// Read unencrypted values, such as those that were written before there was a keyring
    Read,
    /// Fail on an unencrypted value. Use this if everything in the database is encrypted
    Refused,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve sessions, state and agents over HTTP, with ADK's API, /v1 and Vertex AI's sessions API
    ///
    /// The server creates the database if it does not exist, prints its address, and runs until Ctrl-C or SIGTERM. It
    /// then finishes the requests in progress. A second signal stops it immediately.
    #[command(after_help = serve::SERVE_HELP)]
    #[cfg_attr(not(feature = "serve"), command(hide = true))]
    Serve(Box<ServeArgs>),
    /// Check whether a server is ready, for containers and monitoring
    ///
    /// The exit code is 0 if the server is ready. The exit code is 10 if the server is not ready or does not respond
    /// within 4 seconds, or within the time that --deadline sets. Without a URL, the command checks the server on this
    /// machine and accepts any certificate. With a URL, the server's certificate must be trusted.
    #[command(after_help = health::HEALTH_EXAMPLES)]
    #[cfg_attr(not(feature = "serve"), command(hide = true))]
    Health(HealthArgs),
    /// Talk to an agent in the terminal
    ///
    /// The terminal shows the agent's answers while they are generated, its tool calls, and the changes to the state.
    /// Each conversation is a session, and --session or --last continues an earlier one. Ctrl-C stops the
    /// current answer and keeps the session. Ctrl-C twice, or Ctrl-D, ends the conversation.
    ///
    /// If standard input is not a terminal, each line of it is a message, and the exit code is that of the last answer.
    /// With --json, each event is printed as one line.
    #[command(after_help = chat::CHAT_EXAMPLES)]
    Chat(ChatArgs),
    /// Create a folder with a new agent, for chat and serve
    ///
    /// The folder contains README.md, an ADK Agent Config in root_agent.yaml, and a list of environment variables for
    /// models in .env.example. The command never overwrites a file.
    #[command(after_help = setup::NEW_EXAMPLES)]
    New(NewArgs),
    /// Run example scenarios with agents, offline, and check the resulting state
    ///
    /// After each event, the command shows the changed keys, by scope, and the resulting state. At the end of a
    /// scenario, it compares the state with the expected values. The exit code is 1 if a value differs.
    ///
    /// Each run creates new sessions. If --database names a file, the file keeps the state of users and apps, so the
    /// next run starts with that state.
    #[command(after_help = "\
Examples:
  scratchbook demo
  scratchbook demo shopping-cart --database demo.db
  scratchbook demo --list")]
    Demo(DemoArgs),
    /// Create, list, show, label, fork, rewind, expire and delete sessions
    #[command(after_help = "\
Examples:
  scratchbook sessions list --app shop
  scratchbook sessions show --last
  scratchbook sessions delete shop/alice/s1")]
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Read and change the state of a session, a user or an app, and show its history
    ///
    /// Name an app with --app, a user with --app and --user, and a session with --session or --last. If you name a
    /// session, its own keys have no prefix, keys of its user begin with user:, and keys of its app begin with app:. If
    /// you name a user or an app, write its keys without a prefix.
    #[command(after_help = "\
Examples:
  scratchbook state get --last
  scratchbook state set --session shop/alice/s1 step=2 user:theme=dark
  scratchbook state history --app shop --user alice theme")]
    State {
        #[command(subcommand)]
        command: StateCommand,
    },
    /// List the apps in the database, each with its number of users and the time of its newest event
    #[command(after_help = "\
Examples:
  scratchbook apps
  scratchbook apps --database agents.db --json")]
    Apps,
    /// Create tokens with which clients log in to a server
    #[command(after_help = "\
Example:
  scratchbook token new --name alice --app shop --user alice")]
    #[cfg_attr(not(feature = "serve"), command(hide = true))]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// List and erase users
    #[command(after_help = "\
Examples:
  scratchbook users list --app shop
  scratchbook users erase --app shop --user alice")]
    Users {
        #[command(subcommand)]
        command: UsersCommand,
    },
    /// Follow the change feed of a session, or of all sessions and keys of a user or an app
    ///
    /// The command prints one line for each event, each session that is created with state, each change of user or app
    /// state outside of a session, and each removal. With --json, each line is a JSON object with a `cursor`. The last
    /// line has the type `end`; to continue later, pass its cursor to --from. The exit code after Ctrl-C is 0.
    #[command(after_help = maintenance::WATCH_EXAMPLES)]
    Watch(WatchArgs),
    /// Write the hashes of everything that is stored to a file, for `verify --against`
    ///
    /// The file has a line for each event and each value of the state, with its address and its hash, and no text. Keep
    /// it where nobody who can write to the database can write. The file must not exist.
    #[command(after_help = maintenance::SEAL_EXAMPLES)]
    Seal(SealArgs),
    /// Recompute all state from events and logs, and compare it with the stored state
    ///
    /// Without options, the command verifies the whole database. It prints every difference, and the exit code is then
    /// 12. Other programs can write to the database in the meantime.
    ///
    /// With --against, the command compares what is stored with seals, and prints the first event or value that differs.
    /// Exit code 12, too. It lists sessions that were deleted since, which are no difference.
    #[command(after_help = maintenance::VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Delete expired sessions, old events and old entries of state logs
    ///
    /// The command works in small commits, so other programs can write to the database in the meantime. The current
    /// state and the numbers of the remaining events do not change.
    ///
    /// Pruning cannot be undone. You can no longer read the pruned events, the state at those events, or the authors of
    /// those changes. The command therefore asks for confirmation. It does not ask if it only deletes expired sessions,
    /// because nobody can read them anyway.
    #[command(after_help = maintenance::PRUNE_EXAMPLES)]
    Prune(PruneArgs),
    /// Encrypt the current values of the state again, with the keyring's current key
    ///
    /// Before you run the command, add the new key to the keyring of every process that uses the database. Other
    /// programs can use the database in the meantime. If the command is interrupted, run it again. Without options, the
    /// command encrypts the state of the whole database.
    ///
    /// Events, initial states, logs, artifacts, titles and labels stay encrypted with their old keys. Keep these keys
    /// in the keyring, or export everything and import it into a new database.
    #[command(after_help = maintenance::RESEAL_EXAMPLES)]
    Reseal(AddressArgs),
    /// Check schemas for state
    #[command(after_help = "\
Example:
  scratchbook schema check shop.json --app shop")]
    Schema {
        #[command(subcommand)]
        command: SchemaCommand,
    },
    /// Create or upgrade the tables of the database
    ///
    /// Every command that opens a database also does this. For PostgreSQL and MySQL, migrate=check or migrate=off in the
    /// URI prevents it. With --dry-run, the command only prints the SQL, which another database user can then run.
    #[command(after_help = "\
Examples:
  scratchbook migrate --database agents.db
  scratchbook migrate --database postgresql://me@db/agents --dry-run")]
    Migrate(MigrateArgs),
    /// Copy a SQLite database to a new file while it is in use
    #[command(after_help = "\
Example:
  scratchbook backup --database agents.db backup.db")]
    Backup(BackupArgs),
    /// Import sessions and state from a google-adk database, or from a file written by export
    ///
    /// Sessions keep their ids, times, state and the order of their events. Artifacts are imported only from a file
    /// written by export, because a google-adk database contains none. The source is not changed.
    ///
    /// The command skips everything that the database already contains, so you can repeat an interrupted import. It
    /// reports and skips invalid rows; the exit code is then 1. During the import, no other program should write to the
    /// imported users and apps.
    #[command(after_help = "\
Examples:
  scratchbook import --from jsonl shop.jsonl
  scratchbook import --from adk-sqlite adk.db --database agents.db
  scratchbook import --from adk-database postgresql://me@db/adk")]
    Import(ImportArgs),
    /// Export sessions, state and artifacts as JSON Lines, to a file or to standard output
    ///
    /// `scratchbook import --from jsonl` imports the exported file. A session that changes during the export may be
    /// missing from the file. To copy a SQLite database that is in use, use `scratchbook backup`.
    #[command(after_help = "\
Examples:
  scratchbook export all.jsonl
  scratchbook export --app shop shop.jsonl
  scratchbook export --app shop --user alice > alice.jsonl")]
    Export(ExportArgs),
    /// Print a shell script for the completion of commands and options
    #[command(after_help = setup::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Write man pages, one for each command
    #[command(after_help = "\
Example:
  scratchbook man ~/.local/share/man/man1")]
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The kind of source
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) from: ImportFormat,
    /// The path of a file, or the URL of a database in google-adk's form, such as postgresql://... or sqlite:///PATH.
    /// With --from jsonl, a - stands for standard input
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,
}

/// A kind of source to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// A file written by google-adk's SqliteSessionService
    AdkSqlite,
    /// A SQLite or PostgreSQL database written by google-adk's DatabaseSessionService, with schema version 1
    AdkDatabase,
    /// A file written by `scratchbook export`
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Export only this app [default: all apps]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Export only this user of the app, without the state of the app [default: all users]
    #[arg(long, short, value_parser = named, requires = "app")]
    pub(crate) user: Option<String>,
    /// The file to create, which must not exist. A - stands for standard output [default: standard output]
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
    #[command(after_help = "\
Examples:
  scratchbook users list
  scratchbook users list --app shop --limit 20")]
    List(ListUsersArgs),
    /// Erase all data of a user, which cannot be undone: sessions, events, state, log and artifacts
    #[command(after_help = "\
Examples:
  scratchbook users erase --app shop --user alice
  scratchbook users erase --app shop --user alice --yes")]
    Erase(EraseArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListUsersArgs {
    /// List only the users of this app [default: all apps]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// The maximum number of users to list
    #[arg(long, short, value_name = "N", default_value_t = 100, value_parser = values::at_least_one::<usize>)]
    pub(crate) limit: usize,
    /// List the next page, with the TOKEN that the previous page printed
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
    /// Do not ask for confirmation. The option is required if standard input is not a terminal
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

/// Returns the command. The help of a subcommand does not list the global options that do not apply to it.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let global: Vec<_> = command.get_arguments().cloned().collect();
    command.mut_subcommands(|subcommand| {
        let entry = NOT_APPLICABLE.iter().find(|(name, _)| *name == subcommand.get_name());
        let ids = entry.map(|(_, ids)| *ids).unwrap_or_default();
        let hidden = global.iter().filter(|arg| ids.contains(&arg.get_id().as_str()));
        // A subcommand inherits only the global options that it does not define itself.
        subcommand.args(hidden.map(|arg| arg.clone().hide(true)))
    })
}

/// Parses a name. Refuses an empty name, which is probably an unset shell variable.
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
