//! The code that the two programs of the side-by-side benchmark share.
//!
//! The program `compare` is the harness. It starts a **runner** for each system and store, and asks the runners for one
//! measurement after the other, in interleaved rounds. The program `compare-runner` is the runner of scratchbook and of
//! the machine's limit. The runners of other systems are in `lab/peers`, each with a lock file of its own.
//!
//! # Layout
//!
//! - `protocol.rs`: the messages between harness and runner; `statistics.rs`: median, spread and slope.
//! - `harness/`: `cells.rs` has the measurements, `systems.rs` the systems, `rounds.rs` the order of a run; `runner.rs`
//!   runs one process, `machine.rs` measures how quiet the machine is, `results.rs` has the file of results;
//!   `outcome.rs` computes medians, `summary.rs` has those of all systems, `goals.rs` compares them with the goals;
//!   `report.rs`, `slopes.rs`, `inventory.rs` and `page.rs` write tables, `plots/` draws plots.
//! - `runner/`: a file for each group of workloads, and `limits/` for the limit.

pub mod protocol;
pub mod statistics;
