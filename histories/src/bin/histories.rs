//! The command `histories`: transactions and faults on each store, and what they show.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use scratchbook_histories::faults::{Counts, Error};
use scratchbook_histories::servers::serve;
use scratchbook_histories::topology::{Options, Topology};

/// Runs concurrent transactions on stores and servers, with faults, and checks that they are strictly serializable.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Attacks topologies, and prints a row of a table for each.
    Run {
        /// The topologies, such as sqlite-4; all if none is named.
        topologies: Vec<String>,
        /// How long transactions run on each, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The seed of everything random but times.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folder to write the histories to, as NAME.jsonl in Elle's format.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
    /// Serves a database, and prints the port. For the servers that are attacked.
    Serve {
        /// The database's URI.
        database: String,
        /// The port; a free one by default.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
}

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    match Arguments::parse().command {
        Command::Run { topologies, seconds, seed, folder } => run(&topologies, seconds, seed, folder).await,
        Command::Serve { database, port } => {
            serve(&database, port).await.map_err(|error| error.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn run(names: &[String], seconds: u64, seed: u64, folder: Option<PathBuf>) -> Result<ExitCode, Error> {
    if let Some(name) = names.iter().find(|name| !Topology::ALL.iter().any(|(known, _)| known == name)) {
        let known: Vec<_> = Topology::ALL.iter().map(|(known, _)| *known).collect();
        return Err(format!("there is no topology '{name}'; there are: {}", known.join(", ")).into());
    }
    let program = std::env::current_exe()?;
    println!(
        "| topology | seconds | committed | refused | unknown | faults | violations |\n|---|---|---|---|---|---|---|"
    );
    let mut is_violated = false;
    for (name, topology) in Topology::ALL {
        if !names.is_empty() && !names.iter().any(|named| named == name) {
            continue;
        }
        let history = folder.as_ref().map(|folder| folder.join(format!("{name}.jsonl")));
        let time = Duration::from_secs(seconds);
        let options = Options { program: &program, time, seed, history: history.as_deref() };
        let outcome = topology.run(&options).await?;
        let report = outcome.report;
        let (committed, refused, unknown) = (report.committed, report.refused, report.unknown);
        let (faults, violations) = (in_words(&outcome.faults), report.violations.len());
        println!("| {name} | {seconds} | {committed} | {refused} | {unknown} | {faults} | {violations} |");
        for violation in &report.violations {
            is_violated = true;
            eprintln!("{name}: {violation}");
        }
    }
    Ok(if is_violated { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn in_words(faults: &Counts) -> String {
    let parts: Vec<_> = faults.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
