//! The concurrent parts of scratchbook, run through many orders of their steps.
//!
//! The modules below include the source files of the crates as they are. Each of these files takes its locks, channels
//! and threads from a module `sync` beside it. In this package, a scheduler of `shuttle` controls the locks, channels
//! and threads of its own module `sync`. So the code under test is the shipped text, built a second time in this
//! package, and no other crate needs a feature for it.
//!
//! Each scenario is a function that runs once, in one order, and panics if a promise is broken. The tests run it in
//! many orders.

// The files that this library includes have tests of their own, which run in their own packages.
#![cfg(not(test))]

mod database;
mod runner;
mod runs;
mod sqlite;
mod sync;
mod watches;

pub use database::{every_write_of_a_batch_gets_its_own_answer, writes_outlive_their_callers};
pub use runner::{one_run_at_a_time, refused_runs_leave_nothing_behind};
pub use runs::{every_reader_sees_each_event_once, the_end_of_a_run_is_seen_by_all_who_wait};
pub use sqlite::{every_accepted_write_is_answered_once, failed_commits_fail_only_their_own_writes};
pub use watches::{commits_reach_their_watchers, every_watch_ends_when_the_store_is_closed};

// Included files use the paths of their own crates.
use scratchbook::agent;
use scratchbook_core::error;
