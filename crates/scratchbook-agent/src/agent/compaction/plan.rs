//! Plans which events are summarized next.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::config::InvocationRule;
use super::open_calls::{longest_closed, without_parting_calls};
use super::tokens::size;
use crate::agent::history::{CoveringSummary, covered, is_original, summaries, time_key};
use scratchbook_core::content::Content;
use scratchbook_core::event::Event;
use scratchbook_core::session::micros_of_seconds;

/// Events to summarize, and the time range of their summary.
#[derive(Clone, Debug)]
pub(super) struct SummaryPlan {
    /// The summarizer's input: the events to summarize. A summary that is replaced is among them as an event with the
    /// author `model`.
    pub(super) events: Vec<Arc<Event>>,
    pub(super) start: f64,
    pub(super) end: f64,
}

/// A session's events, prepared for planning a summary.
#[derive(Debug)]
pub(super) struct SessionLog<'e, 'a> {
    live: &'e [&'a Arc<Event>],
    seen: u64,
    begun: f64,
    summaries: Vec<CoveringSummary<'a>>,
    covered: Vec<bool>,
    /// The first and the last place in the log of each event time.
    times: HashMap<i64, (usize, usize)>,
}

impl<'e, 'a> SessionLog<'e, 'a> {
    /// Prepares the events. `live` contains the events that are not rewound, oldest first. The events up to the number
    /// `seen` are known. Events appended later must not be covered, because the summarizer has not read them. `begun`
    /// is the time of the session's first event, even if it was rewound.
    pub(super) fn new(live: &'e [&'a Arc<Event>], seen: u64, begun: f64) -> Self {
        let summaries = summaries(live, |_| true);
        let covered = covered(&summaries, live.len());
        let mut times: HashMap<i64, (usize, usize)> = HashMap::new();
        for (place, event) in live.iter().enumerate().filter(|(_, event)| is_original(event)) {
            times.entry(time_key(event)).or_insert((place, place)).1 = place;
        }
        Self { live, seen, begun, summaries, covered, times }
    }

    /// Returns a plan for all events that no summary covers, except the last `retention` events. The plan includes the
    /// summaries among these events. Before an agent answers, the message that it answers is kept as well.
    pub(super) fn all_but(&self, retention: usize, before_answer: bool) -> Option<SummaryPlan> {
        let places: Vec<_> = self.originals(0..self.live.len()).filter(|place| !self.covered[*place]).collect();
        let to_answer = match before_answer {
            true => places.iter().rposition(|place| self.live[*place].content.is_some()).unwrap_or_default(),
            false => places.len(),
        };
        let most = places.len().saturating_sub(retention).min(to_answer);
        let most = without_parting_calls(&self.events(&places), most);
        let places = self.closed(&places[..most]);
        let (first, last) = (*places.first()?, *places.last()?);
        // The places are not covered by a summary, so each summary ends before the last place or begins after it.
        let replaced = || self.summaries.iter().filter(move |summary| summary.covers.end <= last);
        let seeds = replaced().map(|summary| (summary.covers.start, as_words(summary)));
        let mut events: Vec<_> =
            places.iter().map(|place| (*place, Arc::clone(self.live[*place]))).chain(seeds).collect();
        events.sort_by_key(|(place, _)| *place);
        let oldest =
            replaced().min_by_key(|summary| summary.covers.start).filter(|oldest| oldest.covers.start <= first);
        let start = match oldest {
            Some(summary) => self.start(summary.covers.start, summary.compaction.start_timestamp),
            None if first == 0 => self.start(first, self.begun.min(self.time(first))),
            None => self.time(first),
        };
        let from = oldest.map_or(first, |summary| summary.covers.start);
        let events = events.into_iter().map(|(_, event)| event).collect();
        self.is_worth(from..last + 1).then(|| SummaryPlan { events, start, end: self.time(last) })
    }

    /// Returns a plan for the invocations since the last summary, if there are enough of them. The plan also includes
    /// some invocations before them.
    pub(super) fn invocations(&self, rule: InvocationRule) -> Option<SummaryPlan> {
        let after = self.summaries.iter().map(|summary| summary.covers.end).max().unwrap_or_default();
        let invocations = self.by_invocation();
        let is_new = |places: &&Range<usize>| places.end > after;
        let end = invocations.iter().rfind(is_new)?.end;
        if invocations.iter().filter(is_new).count() < rule.interval {
            return None;
        }
        let first_new = invocations.iter().position(|places| is_new(&places))?;
        let first = invocations[first_new.saturating_sub(rule.overlap)].start;
        // The summary will begin at the first event that has the summary's start time.
        let first = self.times.get(&time_key(self.live[first])).map_or(first, |(earliest, _)| *earliest);
        let places: Vec<_> = self.originals(first..end).collect();
        let places = self.closed(&places);
        let last = *places.last()?;
        let events = places.iter().map(|place| Arc::clone(self.live[*place])).collect();
        self.is_worth(first..last + 1).then(|| SummaryPlan { events, start: self.time(first), end: self.time(last) })
    }

    /// Returns the range of each invocation's events, in the order in which the invocations began.
    fn by_invocation(&self) -> Vec<Range<usize>> {
        let mut index: HashMap<&str, usize> = HashMap::new();
        let mut invocations: Vec<Range<usize>> = Vec::new();
        for place in self.originals(0..self.live.len()) {
            let id = self.live[place].invocation_id.as_str();
            if id.is_empty() {
                continue;
            }
            let of_id = *index.entry(id).or_insert(invocations.len());
            match invocations.get_mut(of_id) {
                Some(places) => places.end = place + 1,
                None => invocations.push(place..place + 1),
            }
        }
        invocations
    }

    /// Returns the longest prefix of these places that can be summarized. The events of the prefix are known, and none
    /// of their calls waits for a response. No later event has the same time as the last event of the prefix, because
    /// the summary would cover that event as well.
    fn closed<'p>(&self, places: &'p [usize]) -> &'p [usize] {
        let is_known = |place: &&usize| self.live[**place].seq.is_none_or(|seq| seq <= self.seen);
        let places = &places[..places.iter().take_while(is_known).count()];
        let is_clean = |cut: usize| {
            let last = places[cut - 1];
            self.times.get(&time_key(self.live[last])).is_some_and(|(_, latest)| *latest == last)
        };
        &places[..longest_closed(&self.events(places), self.live, is_clean)]
    }

    /// Returns whether a summary of these places can shorten requests. By ADK's rule, the events must be longer than
    /// the last summary, since the next summary will be about as long.
    fn is_worth(&self, places: Range<usize>) -> bool {
        let Some(last) = self.summaries.last() else {
            return true;
        };
        let freed = self.originals(places.clone()).filter(|place| !self.covered[*place]);
        let freed = size(freed.filter_map(|place| self.live[place].content.as_ref()));
        let within =
            |summary: &&CoveringSummary<'_>| places.start <= summary.covers.start && summary.covers.end <= places.end;
        let replaced = size(self.summaries.iter().filter(within).map(content_of));
        freed + replaced > size([content_of(last)].into_iter())
    }

    fn originals(&self, places: Range<usize>) -> impl Iterator<Item = usize> {
        places.filter(|place| is_original(self.live[*place]))
    }

    fn events(&self, places: &[usize]) -> Vec<&'a Event> {
        places.iter().map(|place| self.live[*place].as_ref()).collect()
    }

    /// Returns the start time of a summary that begins at a place: the wanted time, unless an event at another place
    /// has that time.
    ///
    /// If the session's first events were rewound, the wanted time is the time of the session's first event. If the
    /// summary replaces an earlier one, the wanted time is the earlier one's start time. Readers then see that the
    /// summary covers everything before its end.
    fn start(&self, place: usize, wanted: f64) -> f64 {
        match self.times.get(&micros_of_seconds(wanted)) {
            Some((earliest, _)) if *earliest != place => self.time(place),
            _ => wanted,
        }
    }

    fn time(&self, place: usize) -> f64 {
        self.live[place].timestamp.unwrap_or_default()
    }
}

fn content_of<'a>(summary: &CoveringSummary<'a>) -> &'a Content {
    &summary.compaction.compacted_content
}

/// Returns a summary as an event, for the input of the next summary.
fn as_words(summary: &CoveringSummary<'_>) -> Arc<Event> {
    let event = Event::new("model").with_content(content_of(summary).clone());
    let event = event.with_timestamp(summary.compaction.start_timestamp);
    Arc::new(Event { branch: summary.event.branch.clone(), ..event })
}
