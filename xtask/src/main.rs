//! The project's own commands: `cargo xtask test`, `gate`, `full`, `bench`, `dist` and `picture`.
//!
//! # Layout
//!
//! - `steps.rs`: the steps in their order. Start here to add a check.
//! - `step.rs`: how steps are run and reported; `passed.rs`: those that have passed on this commit.
//! - `tiers.rs`: which tests belong to `test`, and which to `gate`.
//! - `workspace.rs`: the packages, from `cargo metadata`; `changed.rs`: the packages that a branch has changed.
//! - `build.rs`: the build of the tests, with clippy; `suite.rs` runs them side by side; `features.rs`: each feature by
//!   itself.
//! - `command.rs`, `tools.rs`, `packages.rs`: starting programs, and installing those that a step needs.
//! - `servers.rs`, `mysql.rs`, `python.rs`, `node.rs`, `browser.rs`: what the tests need: database servers, a Python with
//!   google-adk, packages from npm, and a browser; `package.rs`: the Python package.
//! - `compare.rs`: the side-by-side benchmark.
//! - `instructions.rs`: how many instructions calls execute.
//! - `planted/`: errors planted in concurrent code, which its tests have to find.
//! - `deploy.rs`: checks of `deploy/`; `dist.rs`: the shipped files; `versions.rs`: an older build beside this one.
//! - `house.rs`, `circles.rs`, `documents.rs`, `release.rs`: rules that no other tool checks, as functions of text.

mod browser;
mod build;
mod changed;
mod circles;
mod command;
mod compare;
mod deploy;
mod dist;
mod documents;
mod features;
mod house;
mod instructions;
mod mysql;
mod node;
mod package;
mod packages;
mod passed;
mod planted;
mod python;
mod release;
mod servers;
mod step;
mod steps;
mod suite;
mod tiers;
mod tools;
mod versions;
mod workspace;

use std::process::ExitCode;

use compare::Task;
use step::{Step, Stop};

const USAGE: &str = "\
usage: cargo xtask test [--list | --changed | --names | --step NAME...]
       cargo xtask gate | full [--list | --step NAME...]
       cargo xtask bench [--quick] [--only NAME]... [--minutes N] [--wait N] [--fresh] [--publish]
       cargo xtask bench plots | profile
       cargo xtask bench ratios | serve | package | instructions [--accept] | ARGUMENTS OF cargo bench
       cargo xtask picture
       cargo xtask dist [archive | wheel | source ...] [--profile PROFILE] [--target TARGET]

  test        what a change may break, on a laptop: format, rules, clippy, memory, SQLite, PostgreSQL, the server, the
              command, the Python package, and a page in a browser
  gate        what CI also runs: MariaDB and MySQL, google-adk, ADK for TypeScript, browsers, timed tests, the
              documentation, examples, and lab/
  full        both, and what takes long: clusters, histories, fuzzing, more crashes, release builds, licences. Steps
              that have passed on this commit, in any of the three, are not run again
  bench       scratchbook, other systems and the machine's limit, side by side, in two hours. A run that was
              interrupted continues. --quick takes some three minutes, --only NAME measures one workload, system or
              store, --fresh begins again, --publish writes the pages, the plots and the results
  bench plots   draws the plots and writes the tables of docs/benchmarks*.md again, from the published results
  bench profile records with perf where the processor time goes, and writes docs/benchmarks-profiles.md
  bench ratios  the ratio benches
  bench serve   the server beside adk api_server
  bench package the Python package beside google-adk's session services
  bench instructions  what calls cost in instructions; --accept: writes the counts that the gate compares
  picture     writes the pictures in docs/images: the terminal, from what the command prints, and the inspector
  dist        makes what is shipped in target/shipped: the archive, the wheel and the source package. Each is used as
              by somebody who has nothing else: a wheel is built from the source package, and both wheels are
              installed in an empty environment

  --list      say which steps there are
  --step NAME run these steps alone
  --names     build the tests, and print the name of each with its tier and its program
  --changed   format, rules, and the tests for what has changed since this branch left main, committed or not: those
              of the packages with a changed file and of all that depend on them. If one store
              alone has changed: its own, and the library's in modules that are named after the database
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["--help" | "-h"] | ["test" | "gate" | "full" | "bench", "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        ["test"] => step::run(steps::test()),
        ["gate"] => step::run(steps::gate()),
        ["full"] => step::run_remaining(steps::full()),
        ["test", "--list"] => list(&steps::test()),
        ["gate", "--list"] => list(&steps::gate()),
        ["full", "--list"] => list(&steps::full()),
        ["test", "--changed"] => run_found(steps::changed()),
        ["test", "--names"] => suite::print_names().map_or_else(|why| stop(&why), |()| ExitCode::SUCCESS),
        ["test" | "gate" | "full", "--step", names @ ..] if !names.is_empty() => run_named(names),
        ["picture"] => step::run(vec![steps::picture()]),
        ["dist", words @ ..] if dist::DistOptions::of(words).is_some() => {
            let options = dist::DistOptions::of(words).unwrap_or_default();
            step::run(vec![Step::new("dist", "the archive, the wheel and the source package", move || {
                dist::make(&options)
            })])
        }
        ["bench", "serve"] => step::run(vec![steps::serve_bench()]),
        ["bench", "package"] => step::run(vec![steps::package_bench()]),
        ["bench", "instructions"] => step::run(vec![steps::instructions()]),
        ["bench", "instructions", "--accept"] => step::run(vec![steps::accept_instructions()]),
        ["bench", "ratios"] => step::run(vec![steps::bench(&[])]),
        ["bench", rest @ ..] => match Task::of(rest) {
            Some(task) => step::run(vec![steps::compare(task)]),
            None => step::run(vec![steps::bench(rest)]),
        },
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn list(steps: &[Step]) -> ExitCode {
    for step in steps {
        println!("{:13} {}", step.name, step.what);
    }
    ExitCode::SUCCESS
}

fn run_found(steps: Result<Vec<Step>, Stop>) -> ExitCode {
    match steps {
        Ok(steps) => step::run(steps),
        Err(why) => stop(&why),
    }
}

fn stop(why: &Stop) -> ExitCode {
    let (Stop::Failed(why) | Stop::LeftOut(why)) = why;
    eprintln!("{why}");
    ExitCode::FAILURE
}

fn run_named(names: &[&str]) -> ExitCode {
    let all = steps::full();
    if let Some(name) = names.iter().find(|name| !all.iter().any(|step| step.name == **name)) {
        eprintln!("no step is called '{name}'; `cargo xtask full --list` names them all");
        return ExitCode::from(2);
    }
    step::run(all.into_iter().filter(|step| names.contains(&step.name)).collect())
}
