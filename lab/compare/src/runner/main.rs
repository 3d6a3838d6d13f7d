//! The runner of scratchbook, and of the machine's limit without scratchbook:
//! `compare-runner (scratchbook | limit) STORE LOCATION [SERVICE]`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "answers go to standard output")]

mod append;
mod client;
mod create;
mod events;
mod failure;
mod http;
mod limits;
mod measure;
mod processor;
mod read;
mod resources;
mod server;
mod shared;
mod store;
mod turn;

use std::io::{BufRead, Write};
use std::process::ExitCode;

use scratchbook_compare::protocol::{CellRequest, Hello, Measurement, RunnerAnswer};

use failure::{CellFailure, Result};
use limits::StoreLimit;
use store::BenchStore;

/// The allocator of the command `scratchbook`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "usage: compare-runner (scratchbook | limit | cold) (memory | sqlite | postgres) LOCATION [SERVICE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    match *words {
        ["scratchbook", store, location] => {
            let bench = BenchStore::open(store, location)?;
            serve(&bench.hello(), |request| measured(&bench, request))
        }
        ["limit", store, location, service] => {
            let mut limit = StoreLimit::open(store, location, service)?;
            serve(&limit.hello(), |request| limit.measure(request))
        }
        // `cold_start` starts this process, which ends after its first answer.
        ["cold", store, location] => BenchStore::open(store, location)?.first_answer(),
        _ => Err(CellFailure::new(USAGE)),
    }
}

fn measured(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    match request.workload.as_str() {
        "create" => create::create(bench, request),
        "append" | "append_hot" | "state" => append::append(bench, request),
        "append_shared" => shared::append(bench, request),
        "get" | "get_json" | "get_recent" => read::get(bench, request),
        "list" => read::list(bench, request),
        "turn" => turn::turn(bench, request),
        "http_create" | "http_get" | "http_patch" | "http_turn" => http::measure(bench, request),
        "size_on_disk" => resources::size_on_disk(bench, request),
        "memory" => resources::memory(bench, request),
        "cold_start" => resources::cold_start(bench, request),
        other => Err(CellFailure::Unsupported(format!("the workload {other} is unknown"))),
    }
}

/// Answers each request on standard input, until the input ends.
fn serve(hello: &Hello, mut measure: impl FnMut(&CellRequest) -> Result<Measurement>) -> Result<()> {
    say(hello)?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| CellFailure::new(format!("standard input: {error}")))?;
        let measured = serde_json::from_str(&line)
            .map_err(|error| CellFailure::new(format!("the request is not understood: {error}")))
            .and_then(|request| measure(&request));
        say(&match measured {
            Ok(measured) => RunnerAnswer::Measured(measured),
            Err(CellFailure::Unsupported(unsupported)) => RunnerAnswer::Unsupported { unsupported },
            Err(failure) => RunnerAnswer::Failed { error: failure.to_string() },
        })?;
    }
    Ok(())
}

fn say(value: &impl serde::Serialize) -> Result<()> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, value).map_err(|error| CellFailure::new(format!("an answer: {error}")))?;
    output
        .write_all(b"\n")
        .and_then(|()| output.flush())
        .map_err(|error| CellFailure::new(format!("an answer: {error}")))
}
