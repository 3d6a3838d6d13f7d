//! Tests each promise in many orders of steps. An order that breaks a promise is printed, and can be replayed.

use std::env;

use scratchbook_interleavings as promises;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// How many orders of each kind are tried.
const SCHEDULES: usize = 1000;

/// How often an order changes to another task although the first task could continue. Few bugs need more changes.
const CHANGES: usize = 3;

/// Runs a scenario in many orders, or in the order that `SCRATCHBOOK_SCHEDULE` gives.
fn in_many_orders(scenario: fn()) {
    if let Ok(schedule) = env::var("SCRATCHBOOK_SCHEDULE") {
        return shuttle::replay(scenario, &schedule);
    }
    let schedules = env::var("SCRATCHBOOK_SCHEDULES").ok().and_then(|number| number.parse().ok()).unwrap_or(SCHEDULES);
    Runner::new(RandomScheduler::new(schedules), Config::new()).run(scenario);
    Runner::new(PctScheduler::new(CHANGES, schedules), Config::new()).run(scenario);
}

macro_rules! promises {
    ($($name:ident)*) => {
        $(#[test] fn $name() { in_many_orders(promises::$name); })*
    };
}

promises! {
    every_accepted_write_is_answered_once
    failed_commits_fail_only_their_own_writes
    every_write_of_a_batch_gets_its_own_answer
    writes_outlive_their_callers
    commits_reach_their_watchers
    every_watch_ends_when_the_store_is_closed
    every_reader_sees_each_event_once
    the_end_of_a_run_is_seen_by_all_who_wait
    one_run_at_a_time
    refused_runs_leave_nothing_behind
}
