//! What the store has done in the last half hour, counted interval by interval in bounded memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The length of an interval, in seconds.
pub(crate) const SECONDS: u64 = 15;
/// How many intervals are kept: half an hour.
pub(crate) const INTERVALS: usize = 120;
/// How many apps an interval counts. A name has at most a few hundred bytes, so all intervals stay below 2 MB.
const APPS: usize = 64;
/// How many slow calls an interval keeps.
const SLOW: usize = 8;

/// How many of the last writes say whether the store has room.
const LAST_WRITES: usize = 20;

/// The counts of the last intervals, and the outcomes of the last writes.
#[derive(Debug, Default)]
pub(crate) struct RecentCounts {
    intervals: Mutex<VecDeque<Interval>>,
    /// For each of the last writes, whether it failed for lack of room.
    lacked_room: Mutex<VecDeque<bool>>,
}

/// What happened within an interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interval {
    /// Its number, in intervals since 1970.
    pub(crate) number: u64,
    /// The counts of each app.
    pub(crate) apps: BTreeMap<String, AppCounts>,
    /// The slowest calls, the slowest first.
    pub(crate) slow: Vec<SlowCall>,
}

/// The counts of an app.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AppCounts {
    /// Commits of events and of state.
    pub(crate) appends: u64,
    /// Writes that were refused because of a conflict with another write.
    pub(crate) conflicts: u64,
    /// Calls that failed because of a fault in the store or the server.
    pub(crate) errors: u64,
    /// The stored bytes of its sessions, if they were measured.
    pub(crate) bytes: Option<u64>,
}

/// A call of the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SlowCall {
    pub(crate) app_name: String,
    /// The method of the store.
    pub(crate) method: &'static str,
    /// When it ended, in seconds since 1970.
    pub(crate) time: f64,
    pub(crate) seconds: f64,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Read,
    Appended,
    Conflict,
    Error,
}

impl RecentCounts {
    /// Counts a call.
    pub(crate) fn count(&self, call: &SlowCall, outcome: CallOutcome) {
        let mut intervals = self.lock();
        let interval = at(&mut intervals, call.time);
        interval.keep_if_slow(call);
        if let Some(counts) = interval.of_app(&call.app_name, outcome != CallOutcome::Read) {
            match outcome {
                CallOutcome::Read => {}
                CallOutcome::Appended => counts.appends += 1,
                CallOutcome::Conflict => counts.conflicts += 1,
                CallOutcome::Error => counts.errors += 1,
            }
        }
    }

    /// Notes whether a write failed for lack of room.
    pub(crate) fn note_write(&self, lacked_room: bool) {
        let mut last = self.lacked_room.lock().unwrap_or_else(PoisonError::into_inner);
        last.truncate(LAST_WRITES - 1);
        last.push_front(lacked_room);
    }

    /// Returns whether more than half of the last 20 writes failed for lack of room.
    pub(crate) fn lacks_room(&self) -> bool {
        let last = self.lacked_room.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().filter(|lacked| **lacked).count() > LAST_WRITES / 2
    }

    /// Notes the stored bytes of an app's sessions.
    pub(crate) fn note_bytes(&self, app_name: &str, bytes: u64, now: f64) {
        if let Some(counts) = at(&mut self.lock(), now).of_app(app_name, true) {
            counts.bytes = Some(bytes);
        }
    }

    /// Returns whether the bytes of an app were noted in the present interval.
    pub(crate) fn has_bytes(&self, app_name: &str, now: f64) -> bool {
        at(&mut self.lock(), now).apps.get(app_name).is_some_and(|counts| counts.bytes.is_some())
    }

    /// Returns the intervals up to now, the present one last. Intervals in which nothing happened are included.
    pub(crate) fn intervals(&self, now: f64) -> Vec<Interval> {
        let kept = self.lock();
        let last = number(now);
        let first = last.saturating_sub(INTERVALS as u64 - 1);
        let found = |number: u64| kept.iter().find(|interval| interval.number == number).cloned();
        (first..=last).map(|number| found(number).unwrap_or(Interval { number, ..Interval::default() })).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Interval>> {
        self.intervals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interval {
    fn of_app(&mut self, app_name: &str, makes_room: bool) -> Option<&mut AppCounts> {
        if !self.apps.contains_key(app_name) && (!makes_room || self.apps.len() >= APPS) {
            return None;
        }
        Some(self.apps.entry(app_name.to_owned()).or_default())
    }

    fn keep_if_slow(&mut self, call: &SlowCall) {
        let place = self.slow.partition_point(|kept| kept.seconds >= call.seconds);
        if place < SLOW {
            self.slow.insert(place, call.clone());
            self.slow.truncate(SLOW);
        }
    }
}

/// Returns the interval of a moment. If the clock has gone back, the call counts in the last interval.
fn at(intervals: &mut VecDeque<Interval>, time: f64) -> &mut Interval {
    let number = number(time);
    if intervals.back().is_none_or(|last| last.number < number) {
        intervals.push_back(Interval { number, ..Interval::default() });
        while intervals.len() > INTERVALS {
            intervals.pop_front();
        }
    }
    let last = intervals.len() - 1;
    &mut intervals[last]
}

fn number(time: f64) -> u64 {
    // A time before 1970 counts as 1970.
    (time.max(0.0) as u64) / SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(app_name: &str, time: f64, seconds: f64) -> SlowCall {
        SlowCall { app_name: app_name.to_owned(), method: "append", time, seconds }
    }

    #[test]
    fn room_is_lacking_while_more_than_half_of_the_last_20_writes_lacked_it() {
        let counts = RecentCounts::default();
        for n in 1..=20 {
            counts.note_write(true);
            assert_eq!(counts.lacks_room(), n > 10, "{n}");
        }
        for n in 1..=20 {
            counts.note_write(false);
            assert_eq!(counts.lacks_room(), n < 10, "{n}");
        }
    }

    #[test]
    fn calls_are_counted_in_their_interval_for_half_an_hour() {
        let activity = RecentCounts::default();
        activity.count(&call("shop", 10_000.0, 0.1), CallOutcome::Appended);
        activity.count(&call("shop", 10_001.0, 0.1), CallOutcome::Conflict);
        activity.count(&call("shop", 10_060.0, 0.1), CallOutcome::Error);
        let intervals = activity.intervals(10_060.0);
        assert_eq!(intervals.len(), INTERVALS);
        let of = |place: usize| intervals[place].apps.get("shop").copied().unwrap_or_default();
        assert_eq!(of(INTERVALS - 5), AppCounts { appends: 1, conflicts: 1, ..AppCounts::default() });
        assert_eq!(of(INTERVALS - 1), AppCounts { errors: 1, ..AppCounts::default() });
        assert!(activity.intervals(13_600.0).iter().all(|interval| interval.apps.is_empty()));
    }

    #[test]
    fn what_is_kept_is_bounded_however_many_apps_and_calls_there_are() {
        let activity = RecentCounts::default();
        for second in 0..4_000 {
            for app in 0..100 {
                let app = format!("app-{app}");
                activity.count(&call(&app, f64::from(second), f64::from(second % 7)), CallOutcome::Appended);
            }
        }
        let kept = activity.lock();
        assert_eq!(kept.len(), INTERVALS);
        assert!(kept.iter().all(|interval| interval.apps.len() <= APPS && interval.slow.len() <= SLOW));
        assert!(kept.iter().all(|interval| interval.slow.is_sorted_by(|one, other| one.seconds >= other.seconds)));
    }

    #[test]
    fn a_read_of_an_app_without_writes_makes_no_entry() {
        let activity = RecentCounts::default();
        activity.count(&call("invented", 10.0, 0.1), CallOutcome::Read);
        assert!(activity.intervals(10.0).iter().all(|interval| interval.apps.is_empty()));
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let activity = RecentCounts::default();
        activity.count(&call("shop", 1_000.0, 0.1), CallOutcome::Appended);
        activity.count(&call("shop", 10.0, 0.1), CallOutcome::Appended);
        let appends: u64 = activity.intervals(1_000.0).iter().flat_map(|i| i.apps.values()).map(|c| c.appends).sum();
        assert_eq!(appends, 2);
    }
}
