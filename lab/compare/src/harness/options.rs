//! The arguments of the harness.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measures scratchbook, other systems, and the machine's limit, side by side.
#[derive(Debug, Parser)]
pub(crate) struct HarnessOptions {
    #[command(subcommand)]
    pub(crate) command: HarnessCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HarnessCommand {
    /// Measure. A run that was interrupted continues.
    Run(RunOptions),
    /// Draw the plots and write the tables of the pages on benchmarks from committed results.
    Plots {
        /// The committed results.
        #[arg(long)]
        results: PathBuf,
        /// The folder docs.
        #[arg(long)]
        docs: PathBuf,
    },
    /// Record with perf where single paths spend their processor time, and write the tables of docs/benchmarks-profiles.md.
    Profile {
        /// A folder for databases and recordings.
        #[arg(long)]
        work: PathBuf,
        /// The folder docs.
        #[arg(long)]
        docs: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunOptions {
    /// Measure one round of small cells, which takes about three minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only workloads, systems, services or stores of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// The time for the whole run, in minutes.
    #[arg(long, default_value_t = 120)]
    pub(crate) minutes: u64,
    /// How many minutes the whole run waits for a quiet machine.
    #[arg(long, value_name = "MINUTES", default_value_t = 5)]
    pub(crate) wait: u64,
    /// Discard the results of an earlier run instead of continuing it.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// The file to which each measurement is appended.
    #[arg(long)]
    pub(crate) results: PathBuf,
    /// The list of peers, and how to start them.
    #[arg(long)]
    pub(crate) peers: PathBuf,
    /// A folder for databases and logs.
    #[arg(long)]
    pub(crate) work: PathBuf,
    /// Write the results here as well, and the plots and tables into docs.
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    pub(crate) publish: Option<PathBuf>,
    /// The folder docs.
    #[arg(long, default_value = "docs")]
    pub(crate) docs: PathBuf,
}

impl RunOptions {
    /// How often each cell is measured.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// How long a cell is measured, without its preparation, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        if self.quick { 0.2 } else { 1.0 }
    }
}
