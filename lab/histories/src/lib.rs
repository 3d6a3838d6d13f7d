//! Records histories of concurrent transactions, and checks that they are strictly serializable.
//!
//! A [`HistoryRun`](drive::HistoryRun) lets several workers run transactions on one store or on several servers of one
//! database: appends to one to four lists of a session, its user and the app in one commit; reads of several lists;
//! writes that are refused if a key was written since it was read; reads of the past; retries with the same event id.
//! The requests and the answers are a [`history`]. [`check`](check::check) looks for violations in it.
//!
//! The command `histories` runs and checks transactions for all stores, with faults. It also simulates power cuts of a
//! SQLite database, on a disk that forgets what was not synced (`power`, on Linux).
//!
//! # Layout
//!
//! - `history.rs`: the history, in Elle's format.
//! - `workload.rs`: which lists there are, and which of them a transaction touches.
//! - `client/`: the clients by which transactions reach a store: the library and HTTP.
//! - `drive.rs`: a run, from its beginning to the reads at its end; `worker.rs`: what a worker does.
//! - `check/`: the checks of what workers observed.
//! - `servers.rs`: server processes that can be killed, each with a clock that can be set (`clock.rs`); `database.rs`:
//!   the databases behind them.
//! - `faults.rs`: the faults; `topology.rs`: what is attacked; `table.rs`: the rows that are printed.
//! - `against.rs`: stores and servers that others run.
//! - `power/`: power cuts: a record of what processes do to files, a model of a disk, and the check of the files that a
//!   cut leaves.

pub mod against;
pub mod check;
pub mod client;
mod clock;
pub mod database;
pub mod drive;
pub mod faults;
pub mod history;
pub mod power;
pub mod servers;
pub mod table;
pub mod topology;
mod worker;
pub mod workload;
