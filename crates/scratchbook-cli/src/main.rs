//! The command `scratchbook`: plays the demo, and looks at and changes what is in a database.

mod args;
mod backup;
mod database;
mod delta;
mod demo;
mod export;
mod failure;
mod import;
mod lines;
mod migrate;
mod output;
mod progress;
mod sessions;
mod show;
mod state;
mod unfinished;
mod usage;
mod users;
mod wrap;

use std::process::{self, ExitCode};

use args::{Cli, Command, Global, SessionsCommand, StateCommand, UsersCommand};
use database::Database;
use failure::{Failure, report};
use output::Output;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = match usage::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let json = cli.global.json;
    let mut running = Box::pin(run(cli));
    let outcome = tokio::select! {
        // First, so that a command which tidies up when interrupted can do so.
        biased;
        outcome = &mut running => outcome,
        // What was being written is committed whole or not at all: there is nothing else to tidy up.
        Ok(()) = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure, json);
            // Not a return from main: that would wait for threads that may still wait for a lock or an answer.
            process::exit(failure.exit_code().into())
        }
    }
}

async fn run(mut cli: Cli) -> Result<(), Failure> {
    let mut out = Output::new(cli.global.json);
    if cli.global.database.is_none() && !matches!(cli.command, Command::Demo(_)) {
        cli.global.database = database::of_environment()?;
    }
    let global = &cli.global;
    match cli.command {
        Command::Demo(args) => {
            if args.list {
                return demo::list(&mut out);
            }
            let database = Database::open_or_create(global, "memory:").await?;
            let place = scratchbook::without_password(database::uri(global, "memory:"));
            Box::pin(demo::play(&database.sessions, &place, &args.scenarios, &mut out)).await?;
            database.close().await
        }
        Command::Sessions { command } => {
            let database = match command {
                SessionsCommand::Create(args) => {
                    let creation = sessions::Creation::new(args)?;
                    let database = Database::open_or_create(global, database::DEFAULT).await?;
                    sessions::create(&database, creation, &mut out).await?;
                    database
                }
                SessionsCommand::List(args) => {
                    let database = Database::open(global).await?;
                    sessions::list(&database, args, &mut out).await?;
                    database
                }
                SessionsCommand::Show(args) => {
                    let database = Database::open(global).await?;
                    sessions::show(&database, args, &mut out).await?;
                    database
                }
                SessionsCommand::Delete(args) => {
                    let database = Database::open(global).await?;
                    sessions::delete(&database, args, &mut out).await?;
                    database
                }
            };
            database.close().await
        }
        Command::State { command } => {
            let database = match command {
                StateCommand::Get(args) => {
                    let database = Database::open(global).await?;
                    state::get(&database, args, &mut out).await?;
                    database
                }
                StateCommand::Set(args) => set(global, state::Setting::new(args)?, &mut out).await?,
                StateCommand::Increment(args) => set(global, state::Setting::increment(args)?, &mut out).await?,
                StateCommand::Append(args) => set(global, state::Setting::append(args)?, &mut out).await?,
                StateCommand::Merge(args) => set(global, state::Setting::merge(args)?, &mut out).await?,
                StateCommand::Unset(args) => {
                    let database = Database::open(global).await?;
                    state::unset(&database, args, &mut out).await?;
                    database
                }
            };
            database.close().await
        }
        Command::Users { command: UsersCommand::Erase(args) } => {
            let database = Database::open(global).await?;
            users::erase(&database, args, &mut out).await?;
            database.close().await
        }
        Command::Migrate(args) => migrate::migrate(global, args, &mut out).await,
        Command::Backup(args) => backup::backup(global, args, &mut out).await,
        Command::Import(args) => Box::pin(import::import(global, args, &mut out)).await,
        Command::Export(args) => Box::pin(export::export(global, args, &mut out)).await,
    }
}

async fn set(global: &Global, setting: state::Setting, out: &mut Output) -> Result<Database, Failure> {
    let database = if setting.may_create() {
        Database::open_or_create(global, database::DEFAULT).await?
    } else {
        Database::open(global).await?
    };
    state::set(&database, setting, out).await?;
    Ok(database)
}
