//! What can be written on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::demo::Scenario;
use crate::failure::EXIT_CODES;

/// How to write what would be taken for an option.
pub(crate) const DASHES: &str =
    "A key or value that begins with '-' goes after '--': scratchbook state set --app APP -- -dash=1";

/// The heading over what every command takes.
const GLOBAL: &str = "Global options";

/// Durable sessions and scoped state for AI agents.
///
/// Plays the demo, and looks at and changes the sessions and the state in a database. Everything is addressed in
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
    /// Give up on any single call to the database after so many seconds
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play scenarios as real agent runs, without a network, and check what they leave in the state
    ///
    /// Shows each event, its delta by scope and the state after it, and checks the values that must come out.
    /// Sessions are new in each run; users and apps get their starting values where they have none, so that on
    /// a file the next run finds what the last one left. Exits with 1 where a value is different.
    Demo(DemoArgs),
    /// Create, list, show and delete sessions
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Read and change the state of a session, a user or an app
    State {
        #[command(subcommand)]
        command: StateCommand,
    },
    /// Erase users
    Users {
        #[command(subcommand)]
        command: UsersCommand,
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
pub(crate) enum SessionsCommand {
    /// Create a session; the database file too, where there is none
    ///
    /// KEY=VALUE gives it its first state; user: and app: keys are the user's and the app's.
    #[command(after_help = DASHES)]
    Create(CreateArgs),
    /// List the sessions of an app or of one of its users, the one updated longest ago first
    List(ListArgs),
    /// Show a session: its state by scope and its last events
    Show(ShowArgs),
    /// Delete sessions with their events and their own state; the state of user and app stays
    Delete(DeleteArgs),
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
