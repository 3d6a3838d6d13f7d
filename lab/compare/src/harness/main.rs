//! The harness of the side-by-side benchmark: `compare run` measures, `compare plots` draws and writes tables, and
//! `compare profile` records where the processor time goes.
#![allow(clippy::print_stdout, reason = "the tables go to standard output")]

mod cells;
mod goals;
mod inventory;
mod machine;
mod markdown;
mod options;
mod outcome;
mod page;
mod plots;
mod profile;
mod report;
mod results;
mod rounds;
mod runner;
mod slopes;
mod summary;
mod systems;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use options::{HarnessCommand, HarnessOptions, RunOptions};
use results::Results;
use summary::Summary;

/// A result whose error is the reason why the harness could not continue.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let done = match HarnessOptions::parse().command {
        HarnessCommand::Run(options) => run(&options),
        HarnessCommand::Plots { results, docs } => publish(&results, &docs),
        HarnessCommand::Profile { work, docs } => profile::write(&work, &docs.join("benchmarks-profiles.md")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, and prints the tables.
fn run(options: &RunOptions) -> Result<()> {
    let mut results = Results::open(&options.results, options.fresh)?;
    rounds::run(options, &mut results)?;
    println!("{}", report::all(&Summary::new(results.lines())));
    println!("The results are in {}.", options.results.display());
    let Some(published) = &options.publish else { return Ok(()) };
    fs::write(published, results.shortened()?).map_err(|error| format!("{}: {error}", published.display()))?;
    publish(published, &options.docs)
}

/// Draws the plots and writes the tables of the pages on benchmarks.
fn publish(results: &Path, docs: &Path) -> Result<()> {
    let results = Results::read(results)?;
    let summary = Summary::new(results.lines());
    plots::draw(&summary, &docs.join("images"))?;
    for name in ["benchmarks.md", "benchmarks-systems.md"] {
        page::write(&summary, &docs.join(name), "images")?;
    }
    page::write(&summary, &docs.join("../README.md"), "docs/images")?;
    println!("The plots are in {}, the tables in {}.", docs.join("images").display(), docs.display());
    Ok(())
}
