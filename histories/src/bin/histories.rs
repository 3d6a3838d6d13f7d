//! The command `histories`: runs transactions with faults on each store, and prints what they show.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use scratchbook_histories::faults::FaultError;
use scratchbook_histories::power::disk::Honesty;
use scratchbook_histories::power::{Attack, Durability, HEAD, Work};
use scratchbook_histories::servers::serve;
use scratchbook_histories::table::ResultTable;
use scratchbook_histories::topology::{Topology, TopologyOptions};

/// The maximum number of printed violations of a topology. All violations are counted.
const MOST_PRINTED: usize = 20;

/// Runs concurrent transactions on stores and servers, with faults, and checks that they are strictly serializable.
#[derive(Debug, Parser)]
struct HistoriesArgs {
    #[command(subcommand)]
    command: HistoriesCommand,
}

#[derive(Debug, Subcommand)]
enum HistoriesCommand {
    /// Attacks topologies, and prints a row of a table for each.
    Run {
        /// The topologies, such as sqlite-4; all by default. "short" names those that need only a server.
        topologies: Vec<String>,
        /// How long transactions run on each topology, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The seed of everything random except times.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folder to write the histories to, as NAME.jsonl in Elle's format.
        #[arg(long)]
        folder: Option<PathBuf>,
        /// The file to write the table to. Topologies that already have a row in this file are left out.
        #[arg(long)]
        table: Option<PathBuf>,
    },
    /// Cuts the power while processes write to a SQLite database, on a disk that forgets what was not synced, and
    /// prints a row of a table.
    Power {
        /// When a commit is acknowledged.
        #[arg(long, default_value = "full")]
        setting: Durability,
        /// How many processes write at the same time.
        #[arg(long, default_value_t = 1)]
        processes: usize,
        /// Which syncs the disk ignores. Checks have to fail on a disk that is not honest.
        #[arg(long, default_value = "honest")]
        disk: Honesty,
        /// How often the power is cut.
        #[arg(long, default_value_t = 100)]
        cuts: usize,
        /// The seed of everything random except the order in which threads run.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folder in which to keep the files that a cut with a violation has left.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
    /// Appends to a SQLite database, and prints what is acknowledged. The processes whose power is cut run this.
    Append(Work),
    /// Serves a database, and prints the port. The servers that are attacked run this.
    Serve {
        /// The database's URI.
        database: String,
        /// The port; a free one by default.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
}

#[tokio::main]
async fn main() -> Result<ExitCode, FaultError> {
    match HistoriesArgs::parse().command {
        HistoriesCommand::Run { topologies, seconds, seed, folder, table } => {
            let time = Duration::from_secs(seconds);
            run(&topologies, time, seed, folder.as_deref(), ResultTable::open(table.as_deref())?).await
        }
        HistoriesCommand::Power { setting, processes, disk, cuts, seed, folder } => {
            let program = std::env::current_exe()?;
            let (program, folder) = (&*program, folder.as_deref());
            let attack = Attack { program, setting, processes, honesty: disk, cuts, seed, folder };
            let outcome = attack.run().await?;
            println!("{HEAD}\n{attack}{outcome}");
            print_violations("power", &outcome.violations);
            Ok(ExitCode::from(u8::from(!outcome.violations.is_empty())))
        }
        HistoriesCommand::Append(work) => {
            work.run().await?;
            Ok(ExitCode::SUCCESS)
        }
        HistoriesCommand::Serve { database, port } => {
            serve(&database, port).await.map_err(|error| error.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn run(
    names: &[String],
    time: Duration,
    seed: u64,
    folder: Option<&Path>,
    mut table: ResultTable,
) -> Result<ExitCode, FaultError> {
    let program = std::env::current_exe()?;
    let mut is_broken = false;
    for topology in named(names)? {
        let name = topology.name;
        if table.has(name) {
            continue;
        }
        let history = folder.map(|folder| folder.join(format!("{name}.jsonl")));
        let options = TopologyOptions { program: &program, time, seed, history: history.as_deref() };
        let outcome = match topology.run(&options).await {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!("{name}: not measured: {error}");
                is_broken = true;
                continue;
            }
        };
        table.add(name, time, &outcome)?;
        let violations = &outcome.report.violations;
        is_broken |= topology.is_broken_by(&outcome.report);
        print_violations(name, violations);
        // These show which node took the writes that are missing.
        let of_leaders = outcome.notes.iter().filter(|note| note.what.starts_with("leader"));
        for note in of_leaders.filter(|_| !violations.is_empty()) {
            eprintln!("{name}: {note}");
        }
    }
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print_violations(name: &str, violations: &[String]) {
    for violation in violations.iter().take(MOST_PRINTED) {
        eprintln!("{name}: {violation}");
    }
    if let Some(more) = violations.len().checked_sub(MOST_PRINTED).filter(|more| *more > 0) {
        eprintln!("{name}: and {more} more");
    }
}

/// Returns the topologies with these names.
fn named(names: &[String]) -> Result<Vec<Topology>, FaultError> {
    let mut found = Vec::new();
    for name in names {
        let named = |topology: &&Topology| topology.name == name || (name == "short" && topology.is_short);
        let before = found.len();
        found.extend(Topology::ALL.iter().filter(named));
        if found.len() == before {
            let known = Topology::ALL.map(|topology| topology.name).join(", ");
            return Err(format!("there is no topology '{name}'; there are: {known}").into());
        }
    }
    Ok(if names.is_empty() { Topology::ALL.to_vec() } else { found })
}
