//! The command `histories`: runs transactions with faults on each store, and prints what they show.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use scratchbook_histories::against::Against;
use scratchbook_histories::faults::{FaultCounts, FaultError};
use scratchbook_histories::power::disk::Honesty;
use scratchbook_histories::power::{Attack, Durability, HEAD, Work};
use scratchbook_histories::servers::serve;
use scratchbook_histories::table::{EarlierRow, ResultTable};
use scratchbook_histories::topology::{Topology, TopologyOptions, TopologyOutcome};
use scratchbook_test_servers::MySql;
use tokio::task::JoinSet;

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
        /// The topologies, such as sqlite-4; all by default. "short" stands for those that need at most one database server.
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
        /// The file to write the table to. Topologies that have a row in this file with at least as many seconds are left
        /// out.
        #[arg(long)]
        table: Option<PathBuf>,
        /// How many topologies are attacked at the same time. All are on this machine, so each does less then.
        #[arg(long, default_value_t = 1)]
        at_once: usize,
    },
    /// Runs transactions on stores and servers of your own, and prints a row of the table. Make faults yourself
    /// meanwhile. The data stays in the database, in an app of its own. A store's tables are migrated to this version. The
    /// feed is read from the first URI, and from others of its kind: stores or servers.
    Against {
        /// The URIs of stores, such as postgres://..., and the base URLs of servers, such as http://127.0.0.1:8000. All
        /// have to use one database.
        #[arg(required = true)]
        uris: Vec<String>,
        /// How long transactions run, in seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The seed of everything random except times.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The bearer token for the servers.
        #[arg(long, env = "SCRATCHBOOK_TOKEN", hide_env_values = true)]
        token: Option<String>,
        /// The file to write the history to, in Elle's format.
        #[arg(long)]
        history: Option<PathBuf>,
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
async fn main() -> ExitCode {
    match carry_out(HistoriesArgs::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn carry_out(command: HistoriesCommand) -> Result<ExitCode, FaultError> {
    match command {
        HistoriesCommand::Run { topologies, seconds, seed, folder, table, at_once } => {
            let time = Duration::from_secs(seconds);
            let options = TopologyOptions { program: std::env::current_exe()?, time, seed, history: folder };
            run(named(&topologies)?, &options, ResultTable::open(table.as_deref())?, at_once.max(1)).await
        }
        HistoriesCommand::Against { uris, seconds, seed, token, history } => {
            let (token, time, history) = (token.as_deref(), Duration::from_secs(seconds), history.as_deref());
            let report = Against { uris: &uris, token, time, seed, history }.run().await?;
            let is_broken = !report.violations.is_empty();
            let outcome = TopologyOutcome { report, faults: FaultCounts::from([("your own", 0)]), notes: Vec::new() };
            ResultTable::open(None)?.add("your own", time, &outcome, is_broken)?;
            print_violations("your own", &outcome.report.violations);
            Ok(ExitCode::from(u8::from(is_broken)))
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

/// Attacks topologies, some of them at the same time. In `options`, the history is the folder of all histories.
async fn run(
    topologies: Vec<Topology>,
    options: &TopologyOptions,
    mut table: ResultTable,
    at_once: usize,
) -> Result<ExitCode, FaultError> {
    let (mut left, mut is_broken) = (Vec::new(), false);
    for topology in topologies.into_iter().rev() {
        match table.earlier(topology.name, options.time) {
            None => left.push(topology),
            Some(EarlierRow::Whole) => eprintln!("{}: left out, because the file has its row", topology.name),
            Some(EarlierRow::Broken) => {
                eprintln!("{}: a promise was broken in an earlier run; delete its row to run it again", topology.name);
                is_broken = true;
            }
        }
    }
    let mut running = JoinSet::new();
    loop {
        while running.len() < at_once
            && let Some(topology) = left.pop()
        {
            let history = options.history.as_ref().map(|folder| folder.join(format!("{}.jsonl", topology.name)));
            let run = topology.run(TopologyOptions { history, ..options.clone() });
            running.spawn(async move { (topology, run.await) });
        }
        let Some(ended) = running.join_next().await else { break };
        let (topology, outcome) = ended?;
        let name = topology.name;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!("{name}: not measured: {error}");
                is_broken = true;
                continue;
            }
        };
        let breaks = topology.is_broken_by(&outcome.report);
        table.add(name, options.time, &outcome, breaks)?;
        is_broken |= breaks;
        let violations = &outcome.report.violations;
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
    let is_named = |topology: &Topology, name: &String| topology.name == name || (name == "short" && topology.is_short);
    if let Some(name) = names.iter().find(|name| !Topology::ALL.iter().any(|topology| is_named(topology, name))) {
        let known = Topology::ALL.map(|topology| topology.name).join(", ");
        return Err(format!("there is no topology '{name}'; there are: {known}").into());
    }
    if names.is_empty() && !MySql::is_installed() {
        println!("mysql-3 is left out: cargo xtask gate --step servers could not unpack MySQL");
    }
    let chosen = |topology: &Topology| match names {
        [] => topology.name != "mysql-3" || MySql::is_installed(),
        names => names.iter().any(|name| is_named(topology, name)),
    };
    Ok(Topology::ALL.into_iter().filter(chosen).collect())
}
