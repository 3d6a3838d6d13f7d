//! The project's own commands: `cargo xtask test`, `cargo xtask test full`, `cargo xtask bench`.
//!
//! # Layout
//!
//! - `steps.rs`: what is run, in order. Start here to add a check.
//! - `step.rs`: how steps are run and reported.
//! - `command.rs`, `tools.rs`, `packages.rs`: starting programs, and installing those that a step needs.
//! - `servers.rs`, `python.rs`, `node.rs`, `browser.rs`: the database servers, the Python with google-adk, the packages of
//!   npm and the browser that the tests need; `package.rs`: the Python package.
//! - `house.rs`: the rules no other tool checks, as functions of text.

mod browser;
mod command;
mod house;
mod node;
mod package;
mod packages;
mod python;
mod servers;
mod step;
mod steps;
mod tools;

use std::process::ExitCode;

use step::Step;

const USAGE: &str = "\
usage: cargo xtask test [full] [--list | --step NAME]
       cargo xtask bench [serve | package | ARGUMENTS OF cargo bench]

  test        every check of the project
  test full   the same, and what takes long: clusters, fuzzing, more crashes, more cases, release builds, licences
  bench       the ratio benches
  bench serve   the server beside adk api_server
  bench package the Python package beside google-adk's session services

  --list      say which steps there are
  --step NAME run one step
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["test"] => {
            say_what_is_for_full();
            step::run(steps::test())
        }
        ["test", "full"] => step::run(steps::full()),
        ["test", "--list"] => list(&steps::test()),
        ["test", "full", "--list"] => list(&steps::full()),
        ["test", "--step", name] | ["test", "full", "--step", name] => run_one(name),
        ["bench", "serve"] => step::run(vec![steps::serve_bench()]),
        ["bench", "package"] => step::run(vec![steps::package_bench()]),
        ["bench", rest @ ..] => step::run(vec![steps::bench(rest)]),
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// What takes long is not left out by accident: this says what there is besides.
fn say_what_is_for_full() {
    let short: Vec<_> = steps::test().iter().map(|step| step.name).collect();
    let full = steps::full();
    let long: Vec<_> = full.iter().map(|step| step.name).filter(|name| !short.contains(name)).collect();
    println!("Not in this run, but in `cargo xtask test full`: {}.", long.join(", "));
}

fn list(steps: &[Step]) -> ExitCode {
    for step in steps {
        println!("{:10} {}", step.name, step.what);
    }
    ExitCode::SUCCESS
}

fn run_one(name: &str) -> ExitCode {
    let mut steps = steps::full();
    steps.retain(|step| step.name == name);
    if steps.is_empty() {
        eprintln!("no step is called '{name}'; `cargo xtask test full --list` names them all");
        return ExitCode::from(2);
    }
    step::run(steps)
}
