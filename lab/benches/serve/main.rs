//! Compares `scratchbook serve` with `adk api_server`, each on a SQLite file: requests per second over 16 connections,
//! as wrk counts them, in interleaved rounds of one run. Also measures the time of a start, and the time to the first
//! byte of a run.
//!
//! It needs the binary (`cargo build --locked --profile bench -p scratchbook-cli`, or a path in `SCRATCHBOOK_BINARY`),
//! wrk, and the Python that `cargo xtask test --step python` makes. `cargo xtask bench serve` provides all of them. Each
//! measurement in a round takes `SCRATCHBOOK_BENCH_SECONDS` seconds, by default 5.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot run has nothing to report"
)]

mod client;
mod load;
mod server;
mod start;

use std::process::ExitCode;

use load::{Load, RoundResult};
use server::ServedProcess;

const ROUNDS: usize = 3;

/// What is measured: the name, the load, and how many times as fast as ADK scratchbook should be.
const ROWS: [(&str, Load, f64); 3] = [
    ("create", Load::Create, 50.0),
    ("get, 10 events", Load::Get, 50.0),
    ("PATCH, 10 to 20 events", Load::Patch, 25.0),
];
/// The maximum time of 99 of 100 requests, in milliseconds.
const P99: f64 = 10.0;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn machine_load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn seconds() -> u64 {
    std::env::var("SCRATCHBOOK_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

fn main() -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores for servers and clients, load {}, {ROUNDS} rounds of {} s\n", machine_load(), seconds());
    let mut missed = start::report();
    missed += rates();
    println!("\nload afterwards {}; {missed} targets missed", machine_load());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the table of rates, and returns how many targets are missed.
fn rates() -> usize {
    println!(
        "| requests | scratchbook, per s | p50, ms | p99, ms | adk, per s | p50, ms | p99, ms | times | target | met |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let (ours, adk) = (ServedProcess::scratchbook(), ServedProcess::adk());
    let mut missed = 0;
    for (name, load, target) in ROWS {
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|round| (load.measure(&ours, round, seconds()), load.measure(&adk, round, seconds())))
            .collect();
        let of = |side: fn(&(RoundResult, RoundResult)) -> f64| median(rounds.iter().map(side).collect());
        let (times, p99) = (of(|(a, b)| a.per_second / b.per_second), of(|(a, _)| a.p99));
        let is_met = times >= target && p99 < P99;
        println!(
            "| {name} | {:.0} | {:.2} | {p99:.2} | {:.0} | {:.1} | {:.1} | {times:.1} | {target}, p99 < {P99} ms | {} |",
            of(|(a, _)| a.per_second),
            of(|(a, _)| a.p50),
            of(|(_, b)| b.per_second),
            of(|(_, b)| b.p50),
            of(|(_, b)| b.p99),
            if is_met { "yes" } else { "**no**" },
        );
        missed += usize::from(!is_met);
    }
    missed
}
