//! The command `scratchbook`: serves a database, runs the demo, and reads and changes sessions and state.
//!
//! The command is a library with one function, [`run`], so that the Python package can contain the command too.
//!
//! This program is the command, like `scratchbook` itself:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     ExitCode::from(scratchbook_cli::run(std::env::args_os()))
//! }
//! ```

mod address;
mod agents;
mod args;
mod backup;
mod chat;
#[cfg(feature = "serve")]
mod config;
mod confirm;
mod context;
mod database;
mod delta;
mod demo;
mod encryption;
mod environment;
mod export;
mod failure;
#[cfg(feature = "serve")]
mod health;
mod import;
mod manual;
mod migrate;
mod new;
mod output;
mod owners;
mod partial_file;
mod progress;
mod prune;
mod reseal;
#[cfg(feature = "schema")]
mod schema;
#[cfg(not(feature = "schema"))]
#[path = "without_schema.rs"]
mod schema;
#[cfg(feature = "schema")]
mod schema_check;
mod seal;
#[cfg(feature = "serve")]
mod serve;
mod sessions;
mod shared_state;
mod shell;
mod show;
mod state;
mod table;
mod times;
#[cfg(feature = "serve")]
mod token;
mod usage;
mod users;
mod verify;
mod walk;
mod watch;
#[cfg(not(feature = "serve"))]
mod without_server;
mod wrap;

use std::ffi::OsString;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use args::{Cli, Command, SchemaCommand, SessionsCommand, StateCommand, TokenCommand, UsersCommand};
use config::Setting;
use context::{Context, DEFAULT_DATABASE};
use database::OpenDatabase;
use failure::{CommandFailure, report};
use output::Output;
#[cfg(not(feature = "schema"))]
use schema as schema_check;
use scratchbook::environment::check_clock;
use scratchbook::{Error, ErrorKind};
use tokio::runtime::{Builder, Runtime};
#[cfg(not(feature = "serve"))]
use without_server::{config, health, serve, token};

#[doc(hidden)]
pub use import::untrusted;

/// How long a server waits at its end until somebody has read its standard error.
const REPORT_TIMEOUT: Duration = Duration::from_millis(250);

/// Runs the command with these arguments, the first of which is the program's name, and returns its exit code.
///
/// End the process with this code right away: some threads may still wait for a lock or an answer.
///
/// ```
/// assert_eq!(scratchbook_cli::run(["scratchbook", "no-such-command"].map(Into::into)), 2);
/// ```
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let (cli, settings) = match usage::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let json = cli.global.json;
    let is_server = matches!(cli.command, Command::Serve(_));
    let outcome = runtime(&cli.command).and_then(|runtime| {
        let outcome = runtime.block_on(until_interrupted(cli, &settings));
        // Threads may still wait for a lock or an answer that is no longer needed.
        runtime.shutdown_background();
        outcome
    });
    let Err(failure) = outcome else { return 0 };
    let code = failure.exit_code();
    if is_server {
        report_in_time(failure, json);
    } else {
        report(&failure, json);
    }
    code
}

/// Reports a failure, but does not wait for long if nobody reads standard error.
fn report_in_time(failure: CommandFailure, json: bool) {
    let (done, reported) = mpsc::channel();
    thread::spawn(move || {
        report(&failure, json);
        // The receiver may have stopped waiting.
        let _ = done.send(());
    });
    let _ = reported.recv_timeout(REPORT_TIMEOUT);
}

/// How many tasks a worker runs before it polls the sockets. Serializing a large answer takes about ten milliseconds
/// without a pause. With tokio's default of 61 tasks, a worker would notice only after a second that a client has gone.
const TASKS_BETWEEN_POLLS: u32 = 7;

/// Builds the runtime: with a worker for each core for a server, and with one thread for every other command.
fn runtime(command: &Command) -> Result<Runtime, CommandFailure> {
    let mut runtime = match command {
        Command::Serve(_) => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    runtime.event_interval(TASKS_BETWEEN_POLLS).enable_all().build().map_err(|e| {
        Error::new(ErrorKind::ResourceExhausted, "there are no threads or files left to begin with")
            .with_source(e)
            .into()
    })
}

async fn until_interrupted(cli: Cli, settings: &[Setting]) -> Result<(), CommandFailure> {
    if matches!(cli.command, Command::Serve(_) | Command::Chat(_)) {
        // These commands handle signals themselves, and finish what has begun.
        return Box::pin(run_command(cli, settings)).await;
    }
    let mut running = Box::pin(run_command(cli, settings));
    tokio::select! {
        // The command is polled first, so that it can clean up when Ctrl-C interrupts it.
        biased;
        outcome = &mut running => outcome,
        // A write is committed completely or not at all, so there is nothing else to clean up.
        Ok(()) = tokio::signal::ctrl_c() => Err(CommandFailure::Interrupted),
    }
}

async fn run_command(cli: Cli, settings: &[Setting]) -> Result<(), CommandFailure> {
    let mut out = Output::new(cli.global.json);
    check_clock()?;
    let (context, command) = Context::new(cli)?;
    let context = &context;
    match command {
        Command::Chat(args) => Box::pin(chat::chat(context, args, &mut out)).await,
        Command::Serve(args) => Box::pin(serve::serve(context, *args, settings, &mut out)).await,
        Command::New(args) => new::new(&args, &mut out),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args, &mut out),
        Command::Health(args) => Box::pin(health::health(context, args, &mut out)).await,
        Command::Demo(args) => {
            if args.list {
                return demo::list(&mut out);
            }
            let database = OpenDatabase::open_or_create(context, "memory:").await?;
            let place = scratchbook::store::without_password(context.uri("memory:"));
            Box::pin(demo::play(&database.sessions, &place, &args.scenarios, &mut out)).await?;
            database.close().await
        }
        Command::Sessions { command } => Box::pin(run_sessions(context, command, &mut out)).await,
        Command::State { command } => Box::pin(run_state(context, command, &mut out)).await,
        Command::Token { command: TokenCommand::New(args) } => token::new(args, &mut out),
        Command::Apps => {
            let database = OpenDatabase::open(context).await?;
            users::apps(&database, &mut out).await?;
            database.close().await
        }
        Command::Users { command } => {
            let database = OpenDatabase::open(context).await?;
            match command {
                UsersCommand::List(args) => users::list(&database, args, &mut out).await?,
                UsersCommand::Erase(args) => users::erase(&database, args, &mut out).await?,
            }
            database.close().await
        }
        Command::Watch(args) => {
            let database = OpenDatabase::open(context).await?;
            Box::pin(watch::watch(&database, args, &mut out)).await?;
            database.close().await
        }
        Command::Seal(args) => {
            let database = OpenDatabase::open_as_stored(context).await?;
            Box::pin(seal::seal(&database, args, &mut out)).await?;
            database.close().await
        }
        Command::Verify(args) if !args.against.is_empty() => {
            let database = OpenDatabase::open_as_stored(context).await?;
            Box::pin(seal::against(&database, &args.against, &mut out)).await?;
            database.close().await
        }
        Command::Verify(args) => {
            let database = OpenDatabase::open(context).await?;
            Box::pin(verify::verify(&database, args, &mut out)).await?;
            database.close().await
        }
        Command::Prune(args) => {
            let database = OpenDatabase::open(context).await?;
            Box::pin(prune::prune(&database, args, &mut out)).await?;
            database.close().await
        }
        Command::Reseal(args) => {
            let (database, sealed) = OpenDatabase::open_to_reseal(context).await?;
            Box::pin(reseal::reseal(&database, &sealed, args, &mut out)).await?;
            database.close().await
        }
        Command::Schema { command: SchemaCommand::Check(args) } => {
            Box::pin(schema_check::check(context, args, &mut out)).await
        }
        Command::Migrate(args) => migrate::migrate(context, args, &mut out).await,
        Command::Backup(args) => backup::backup(context, args, &mut out).await,
        Command::Import(args) => Box::pin(import::import(context, args, &mut out)).await,
        Command::Export(args) => Box::pin(export::export(context, args, &mut out)).await,
    }
}

async fn run_sessions(context: &Context, command: SessionsCommand, out: &mut Output) -> Result<(), CommandFailure> {
    if let SessionsCommand::Create(args) = command {
        let creation = sessions::SessionToCreate::new(args)?;
        let database = OpenDatabase::open_or_create(context, DEFAULT_DATABASE).await?;
        sessions::create(&database, creation, out).await?;
        return database.close().await;
    }
    let database = OpenDatabase::open(context).await?;
    match command {
        // This command has been handled above.
        SessionsCommand::Create(_) => {}
        SessionsCommand::List(args) => sessions::list(&database, args, out).await?,
        SessionsCommand::Show(args) => sessions::show(&database, args, out).await?,
        SessionsCommand::Delete(args) => sessions::delete(&database, args, out).await?,
        SessionsCommand::Rewind(args) => sessions::rewind(&database, args, out).await?,
        SessionsCommand::Fork(args) => sessions::fork(&database, args, out).await?,
        SessionsCommand::Update(args) => sessions::update(&database, args, out).await?,
        SessionsCommand::Expire(args) => sessions::expire(&database, args, out).await?,
    }
    database.close().await
}

async fn run_state(context: &Context, command: StateCommand, out: &mut Output) -> Result<(), CommandFailure> {
    let reading = match command {
        StateCommand::Set(args) => return set(context, state::CheckedStateWrite::new(args)?, out).await,
        StateCommand::Increment(args) => return set(context, state::CheckedStateWrite::increment(args)?, out).await,
        StateCommand::Append(args) => return set(context, state::CheckedStateWrite::append(args)?, out).await,
        StateCommand::Merge(args) => return set(context, state::CheckedStateWrite::merge(args)?, out).await,
        other => other,
    };
    let database = OpenDatabase::open(context).await?;
    match reading {
        StateCommand::Get(args) => state::get(&database, args, out).await?,
        StateCommand::Unset(args) => state::unset(&database, args, out).await?,
        StateCommand::List(args) => state::list(&database, args, out).await?,
        StateCommand::At(args) => state::at(&database, args, out).await?,
        StateCommand::Diff(args) => state::diff(&database, args, out).await?,
        StateCommand::History(args) => state::history(&database, args, out).await?,
        StateCommand::Blame(args) => state::blame(&database, args, out).await?,
        // These commands have been handled above.
        StateCommand::Set(_) | StateCommand::Increment(_) | StateCommand::Append(_) | StateCommand::Merge(_) => {}
    }
    database.close().await
}

async fn set(context: &Context, setting: state::CheckedStateWrite, out: &mut Output) -> Result<(), CommandFailure> {
    let database = if setting.may_create() {
        OpenDatabase::open_or_create(context, DEFAULT_DATABASE).await?
    } else {
        OpenDatabase::open(context).await?
    };
    state::set(&database, setting, out).await?;
    database.close().await
}
