//! The side-by-side benchmark: what its two programs share.
//!
//! The program `compare` is the harness. It starts a **runner** for each system and store, and asks each of them for one
//! measurement after the other, in interleaved rounds. The program `compare-runner` is the runner of scratchbook and of
//! the machine's limit. The runners of other systems are in `benches/peers`, each with a lock file of its own.
//!
//! # Layout
//!
//! - `protocol.rs`: what harness and runner say to each other; `statistics.rs`: median, spread and slope.
//! - `harness/`: `cells.rs` has what is measured, `systems.rs` who is measured, `rounds.rs` in which order;
//!   `runner.rs` is one running process, `machine.rs` how quiet the machine is, `results.rs` the file of results;
//!   `summary.rs` computes medians, `goals.rs` compares them with the goals; `report.rs`, `inventory.rs` and `page.rs`
//!   write tables, `plots/` draws.
//! - `runner/`: a file for each group of workloads, and `limits/` for the limit.

pub mod protocol;
pub mod statistics;
