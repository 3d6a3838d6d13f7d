//! Finds the events that each summary covers.
//!
//! A summary contains the times of the first and the last event it covers, and google-adk covers every event in that
//! time range. Clocks can repeat a time or go backwards, so this code uses places in the log instead. A summary covers
//! events before it in the log, from the first event with its start time to the last event with its end time. It never
//! covers events that were appended after it, whatever their time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use scratchbook_core::event::{Event, EventCompaction};
use scratchbook_core::session::{Events, micros_of_seconds};

/// A summary, and the places of the events that it covers.
#[derive(Clone, Debug)]
pub(in crate::agent) struct CoveringSummary<'a> {
    pub(in crate::agent) event: &'a Arc<Event>,
    pub(in crate::agent) compaction: &'a EventCompaction,
    /// The range is empty if the events are no longer in the log. The summary is then placed where the range starts.
    pub(in crate::agent) covers: Range<usize>,
    place: usize,
    first: RangeEnd,
    last: RangeEnd,
}

/// One end of a range: a place, or a time before all places.
#[derive(Clone, Copy, Debug)]
struct RangeEnd(Option<usize>, f64);

impl RangeEnd {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (None, None) => self.1.total_cmp(&other.1),
            (own, other) => own.cmp(&other),
        }
    }
}

/// Returns the visible summaries that are not contained in another one, in the order of the log. If two summaries cover
/// the same events, the later one counts.
pub(in crate::agent) fn summaries<'a>(
    live: &[&'a Arc<Event>],
    sees: impl Fn(&Event) -> bool,
) -> Vec<CoveringSummary<'a>> {
    let found: Vec<_> = live.iter().enumerate().filter(|(_, event)| is_summary(event) && sees(event)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let places = TimeIndex::of(live, found.iter().filter_map(|(_, event)| event.actions.compaction.as_deref()));
    let mut summaries: Vec<_> = found.into_iter().filter_map(|(place, event)| places.resolve(place, event)).collect();
    // In this order, a summary comes before all summaries that it contains.
    summaries.sort_by(|a, b| a.first.cmp(&b.first).then(b.last.cmp(&a.last)).then(b.place.cmp(&a.place)));
    let mut reach: Option<RangeEnd> = None;
    summaries.retain(|summary| {
        let reaches_further = reach.is_none_or(|reach| summary.last.cmp(&reach).is_gt());
        if reaches_further {
            reach = Some(summary.last);
        }
        reaches_further
    });
    summaries.sort_by_key(|summary| summary.place);
    summaries
}

/// Finds the latest summary that starts at the session's beginning, and returns the place of the last event that it
/// covers. Returns `None` if `events` lacks that event. `first` is the session's first event.
pub(crate) fn covered_from_the_beginning(events: &Events, first: &Event) -> Option<usize> {
    let starts_there = |summary: &EventCompaction| match first.seq {
        Some(1) => micros_of_seconds(summary.start_timestamp) == time_key(first),
        // The event at which the summary began was pruned.
        _ => summary.start_timestamp <= first.timestamp.unwrap_or_default(),
    };
    let end_of = |event: &Event| {
        let summary = event.actions.compaction.as_deref().filter(|_| is_summary(event));
        summary.filter(|summary| starts_there(summary)).map(|summary| micros_of_seconds(summary.end_timestamp))
    };
    let mut backward = (0..events.len()).rev().filter_map(|place| Some((place, events.get(place)?)));
    let end = backward.find_map(|(_, event)| end_of(event))?;
    backward.find(|(_, event)| is_original(event) && time_key(event) == end).map(|(place, _)| place)
}

/// Returns whether an event has the end time of a summary.
pub(crate) fn ends_at_time_of(summary: &Event, event: &Event) -> bool {
    let end = summary.actions.compaction.as_ref().map(|compaction| micros_of_seconds(compaction.end_timestamp));
    end == Some(time_key(event))
}

/// Returns whether an event belongs to the conversation itself and is not a summary.
pub(in crate::agent) fn is_original(event: &Event) -> bool {
    event.actions.compaction.is_none() && event.isolation_scope.is_none()
}

/// Returns whether an event is a summary of this conversation, and not of an isolated one.
fn is_summary(event: &Event) -> bool {
    event.actions.compaction.is_some() && event.isolation_scope.is_none()
}

/// Returns an event's time for comparisons, to the microsecond, which is the precision of google-adk's databases.
pub(in crate::agent) fn time_key(event: &Event) -> i64 {
    micros_of_seconds(event.timestamp.unwrap_or_default())
}

/// The places of events by their times, which summaries name.
struct TimeIndex<'e, 'a> {
    live: &'e [&'a Arc<Event>],
    at: HashMap<i64, Vec<usize>>,
    /// Whether events at the session's beginning are missing from the log.
    cut: bool,
}

impl<'e, 'a> TimeIndex<'e, 'a> {
    fn of<'c>(live: &'e [&'a Arc<Event>], named: impl Iterator<Item = &'c EventCompaction>) -> Self {
        let times = named.flat_map(|compaction| [compaction.start_timestamp, compaction.end_timestamp]);
        let mut at: HashMap<i64, Vec<usize>> = times.map(|time| (micros_of_seconds(time), Vec::new())).collect();
        for (place, event) in live.iter().enumerate().filter(|(_, event)| is_original(event)) {
            if let Some(places) = at.get_mut(&time_key(event)) {
                places.push(place);
            }
        }
        let cut = live.first().is_some_and(|event| event.seq.is_some_and(|seq| seq != 1));
        Self { live, at, cut }
    }

    fn resolve(&self, place: usize, event: &'a Arc<Event>) -> Option<CoveringSummary<'a>> {
        let compaction = event.actions.compaction.as_deref()?;
        let (start, end) = (compaction.start_timestamp, compaction.end_timestamp);
        let last = self.named(end).iter().copied().rfind(|last| *last < place);
        let first = self.named(start).iter().copied().find(|first| *first <= last.unwrap_or(place));
        // If no event has the exact time, there are two cases. In a log with missing events, the event was removed. In
        // a complete log, another program has rounded the time, so the range of times is compared.
        let from = match first {
            Some(first) => first,
            None if self.cut => 0,
            None => self.until(0..last.map_or(place, |last| last + 1), |time| time < start),
        };
        let to = match last {
            Some(last) => last + 1,
            None if self.cut => 0,
            None => self.until(from..place, |time| time <= end),
        };
        let covers = from.min(to)..to;
        let first = RangeEnd(first.or((!self.cut).then_some(from)), start);
        let last = RangeEnd(covers.end.checked_sub(1).filter(|_| last.is_some() || !self.cut), end);
        Some(CoveringSummary { event, compaction, covers, place, first, last })
    }

    /// Returns the places of the events with exactly this time.
    fn named(&self, time: f64) -> &[usize] {
        self.at.get(&micros_of_seconds(time)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the first of these places whose event's time does not satisfy the condition, or the end if all do.
    fn until(&self, mut places: Range<usize>, such: impl Fn(f64) -> bool) -> usize {
        let end = places.end;
        let time = |place: usize| self.live.get(place).and_then(|event| event.timestamp);
        places.find(|place| !time(*place).is_some_and(&such)).unwrap_or(end)
    }
}
