//! The command `scratchbook`: serves a database, plays the demo, and looks at and changes what is in a database.

mod agents;
mod args;
mod backup;
mod chat;
mod config;
mod database;
mod delta;
mod demo;
mod export;
mod failure;
mod import;
mod lines;
mod migrate;
mod output;
mod places;
mod progress;
mod prune;
mod reseal;
mod schema;
mod sealing;
mod serve;
mod sessions;
mod show;
mod state;
mod times;
mod token;
mod unfinished;
mod usage;
mod users;
mod verify;
mod watch;
mod wrap;

use std::process::{self, ExitCode};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use args::{Cli, Command, Global, SchemaCommand, SessionsCommand, StateCommand, TokenCommand, UsersCommand};
use database::Database;
use failure::{Failure, report};
use mimalloc::MiMalloc;
use output::Output;
use scratchbook::{Error, ErrorKind};
use tokio::runtime::{Builder, Runtime};

/// Threads that read hand what they allocate to threads that answer: an allocator that is made for it saves a third of a
/// read by HTTP.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long a server that ends waits for who reads standard error.
const LAST_WORDS: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    let cli = match usage::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let json = cli.global.json;
    let is_server = matches!(cli.command, Command::Serve(_));
    let outcome = runtime(&cli.command).and_then(|runtime| {
        let outcome = runtime.block_on(until_interrupted(cli));
        // Threads may still wait for a lock or an answer, and nobody for them.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            if is_server {
                report_in_time(failure, json);
            } else {
                report(&failure, json);
            }
            // Not a return from main: that would wait for threads that may still wait for a lock or an answer.
            process::exit(code.into())
        }
    }
}

/// Says what went wrong, unless nobody reads standard error: a server ends all the same.
fn report_in_time(failure: Failure, json: bool) {
    let (said, all) = mpsc::channel();
    thread::spawn(move || {
        report(&failure, json);
        // Nobody may wait any more.
        let _ = said.send(());
    });
    let _ = all.recv_timeout(LAST_WORDS);
}

/// How many tasks a worker runs between two looks at the sockets. A large answer is made in one go of some ten
/// milliseconds, and 61 of these, tokio's own number, are a second in which nobody sees that clients have gone.
const TASKS_BETWEEN_LOOKS: u32 = 7;

/// A server has a worker for each core; whatever does one thing after the other needs none.
fn runtime(command: &Command) -> Result<Runtime, Failure> {
    let mut runtime = match command {
        Command::Serve(_) => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    runtime.event_interval(TASKS_BETWEEN_LOOKS).enable_all().build().map_err(|e| {
        Error::new(ErrorKind::ResourceExhausted, "there are no threads or files left to begin with")
            .with_source(e)
            .into()
    })
}

async fn until_interrupted(cli: Cli) -> Result<(), Failure> {
    if matches!(cli.command, Command::Serve(_) | Command::Chat(_)) {
        // They hear signals themselves, and finish what was begun.
        return Box::pin(run(cli)).await;
    }
    let mut running = Box::pin(run(cli));
    tokio::select! {
        // First, so that a command which tidies up when interrupted can do so.
        biased;
        outcome = &mut running => outcome,
        // What was being written is committed whole or not at all: there is nothing else to tidy up.
        Ok(()) = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    }
}

async fn run(mut cli: Cli) -> Result<(), Failure> {
    let mut out = Output::new(cli.global.json);
    if !matches!(cli.command, Command::Demo(_)) {
        if cli.global.database.is_none() {
            cli.global.database = database::of_environment()?;
        }
        sealing::of_environment(&mut cli.global)?;
    }
    cli.global.checked = schema::Schema::of(&cli)?;
    let global = &cli.global;
    match cli.command {
        Command::Chat(args) => Box::pin(chat::chat(global, args, &mut out)).await,
        Command::Serve(args) => Box::pin(serve::serve(global, *args, &mut out)).await,
        Command::Demo(args) => {
            if args.list {
                return demo::list(&mut out);
            }
            let database = Database::open_or_create(global, "memory:").await?;
            let place = scratchbook::without_password(database::uri(global, "memory:"));
            Box::pin(demo::play(&database.sessions, &place, &args.scenarios, &mut out)).await?;
            database.close().await
        }
        Command::Sessions { command } => Box::pin(run_sessions(global, command, &mut out)).await,
        Command::State { command } => Box::pin(run_state(global, command, &mut out)).await,
        Command::Token { command: TokenCommand::New(args) } => token::new(args, &mut out),
        Command::Users { command: UsersCommand::Erase(args) } => {
            let database = Database::open(global).await?;
            users::erase(&database, args, &mut out).await?;
            database.close().await
        }
        Command::Watch(args) => {
            let database = Database::open(global).await?;
            Box::pin(watch::watch(&database, args, &mut out)).await?;
            database.close().await
        }
        Command::Verify(args) => {
            let database = Database::open(global).await?;
            Box::pin(verify::verify(&database, args, &mut out)).await?;
            database.close().await
        }
        Command::Prune(args) => {
            let database = Database::open(global).await?;
            Box::pin(prune::prune(&database, args, &mut out)).await?;
            database.close().await
        }
        Command::Reseal(args) => {
            let (database, sealed) = Database::open_to_reseal(global).await?;
            Box::pin(reseal::reseal(&database, &sealed, args, &mut out)).await?;
            database.close().await
        }
        Command::Schema { command: SchemaCommand::Check(args) } => {
            Box::pin(schema::check(global, args, &mut out)).await
        }
        Command::Migrate(args) => migrate::migrate(global, args, &mut out).await,
        Command::Backup(args) => backup::backup(global, args, &mut out).await,
        Command::Import(args) => Box::pin(import::import(global, args, &mut out)).await,
        Command::Export(args) => Box::pin(export::export(global, args, &mut out)).await,
    }
}

async fn run_sessions(global: &Global, command: SessionsCommand, out: &mut Output) -> Result<(), Failure> {
    if let SessionsCommand::Create(args) = command {
        let creation = sessions::Creation::new(args)?;
        let database = Database::open_or_create(global, database::DEFAULT).await?;
        sessions::create(&database, creation, out).await?;
        return database.close().await;
    }
    let database = Database::open(global).await?;
    match command {
        // Done above.
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

async fn run_state(global: &Global, command: StateCommand, out: &mut Output) -> Result<(), Failure> {
    let reading = match command {
        StateCommand::Set(args) => return set(global, state::Setting::new(args)?, out).await,
        StateCommand::Increment(args) => return set(global, state::Setting::increment(args)?, out).await,
        StateCommand::Append(args) => return set(global, state::Setting::append(args)?, out).await,
        StateCommand::Merge(args) => return set(global, state::Setting::merge(args)?, out).await,
        other => other,
    };
    let database = Database::open(global).await?;
    match reading {
        StateCommand::Get(args) => state::get(&database, args, out).await?,
        StateCommand::Unset(args) => state::unset(&database, args, out).await?,
        StateCommand::List(args) => state::list(&database, args, out).await?,
        StateCommand::At(args) => state::at(&database, args, out).await?,
        StateCommand::Diff(args) => state::diff(&database, args, out).await?,
        StateCommand::History(args) => state::history(&database, args, out).await?,
        StateCommand::Blame(args) => state::blame(&database, args, out).await?,
        // Done above.
        StateCommand::Set(_) | StateCommand::Increment(_) | StateCommand::Append(_) | StateCommand::Merge(_) => {}
    }
    database.close().await
}

async fn set(global: &Global, setting: state::Setting, out: &mut Output) -> Result<(), Failure> {
    let database = if setting.may_create() {
        Database::open_or_create(global, database::DEFAULT).await?
    } else {
        Database::open(global).await?
    };
    state::set(&database, setting, out).await?;
    database.close().await
}
