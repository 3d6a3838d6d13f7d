//! Builds conversations in which summaries replace the events they cover.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::summaries::{CoveringSummary, summaries};
use scratchbook_core::content::{FunctionCall, FunctionResponse};
use scratchbook_core::event::Event;

/// Returns, in the log's order, the events from the place `from` on that `sees` accepts. A summary replaces the events
/// that it covers: it stands where the last of them was, as words of the agent itself.
///
/// If a response is kept, its call is kept as well, even if a summary covers the call. A summary is left out if it
/// covers only events before `from`.
pub(in crate::agent) fn compacted(
    live: &[&Arc<Event>],
    from: usize,
    agent: &str,
    sees: impl Fn(&Event) -> bool,
) -> Vec<Arc<Event>> {
    let mut summaries = summaries(live, &sees);
    let is_seen = |event: &Event| event.actions.compaction.is_none() && sees(event);
    if summaries.is_empty() {
        return live[from..].iter().filter(|event| is_seen(event)).map(|event| Arc::clone(event)).collect();
    }
    let covered = covered(&summaries, live.len());
    // The sort is stable: summaries with the same end keep the order of the log.
    summaries.sort_by_key(|summary| summary.covers.end);
    let mut waiting = summaries.iter().filter(|summary| from == 0 || summary.covers.end > from).peekable();
    let (mut shown, mut hidden) = (Vec::new(), false);
    let mut seen = Vec::new();
    for place in from..=live.len() {
        while let Some(summary) = waiting.next_if(|summary| summary.covers.end <= place) {
            shown.push((live.len(), Arc::new(words(summary, agent))));
        }
        let Some((event, covered)) = live.get(place).zip(covered.get(place)).filter(|(event, _)| is_seen(event)) else {
            continue;
        };
        seen.push(place);
        match covered {
            true => hidden = true,
            false => shown.push((place, Arc::clone(event))),
        }
    }
    if hidden && shown.iter().any(|(_, event)| event.function_responses().next().is_some()) {
        shown = with_calls(shown, &seen, live);
    }
    shown.into_iter().map(|(_, event)| event).collect()
}

/// Marks the places that any of the summaries covers.
pub(in crate::agent) fn covered(summaries: &[CoveringSummary<'_>], count: usize) -> Vec<bool> {
    let mut covered = vec![false; count];
    let mut ranges: Vec<_> = summaries.iter().map(|summary| summary.covers.clone()).collect();
    ranges.sort_by_key(|range| range.start);
    let mut reach = 0;
    for range in ranges {
        for place in &mut covered[range.start.max(reach).min(range.end)..range.end] {
            *place = true;
        }
        reach = reach.max(range.end);
    }
    covered
}

/// Returns a summary, as words of the agent itself.
fn words(summary: &CoveringSummary<'_>, agent: &str) -> Event {
    let mut content = summary.compaction.compacted_content.clone();
    content.role.get_or_insert_with(|| "model".to_owned());
    Event {
        author: agent.to_owned(),
        content: Some(content),
        timestamp: Some(summary.compaction.end_timestamp),
        ..Event::clone(summary.event)
    }
}

/// Adds back each covered call that has a response outside the summary. The call is placed right before the first such
/// response, together with the responses to the other calls of the same event.
///
/// This happens if a long-running tool gave a first response that is covered together with its call, and later another
/// response. Since ids may be reused, a response belongs to the last call before it with its id.
fn with_calls(shown: Vec<(usize, Arc<Event>)>, seen: &[usize], live: &[&Arc<Event>]) -> Vec<(usize, Arc<Event>)> {
    let present: HashSet<usize> = shown.iter().map(|(place, _)| *place).collect();
    let mut last_call: HashMap<&str, usize> = HashMap::new();
    let mut call_of: HashMap<(usize, &str), usize> = HashMap::new();
    let mut response_to: HashMap<(usize, &str), usize> = HashMap::new();
    let mut answered = HashSet::new();
    for place in seen {
        for id in live[*place].function_calls().filter_map(call_id) {
            last_call.insert(id, *place);
        }
        for id in live[*place].function_responses().filter_map(response_id) {
            if let Some(call) = last_call.get(id).copied() {
                call_of.insert((*place, id), call);
                response_to.insert((call, id), *place);
                if present.contains(place) {
                    answered.insert((call, id));
                }
            }
        }
    }
    let (mut whole, mut back) = (Vec::with_capacity(shown.len()), HashSet::new());
    for (place, event) in shown {
        for id in event.function_responses().filter_map(response_id) {
            let call = call_of.get(&(place, id)).copied();
            let Some(call) = call.filter(|call| !present.contains(call) && back.insert(*call)) else {
                continue;
            };
            whole.push((call, Arc::clone(live[call])));
            for other in live[call].function_calls().filter_map(call_id).filter(|id| !answered.contains(&(call, *id))) {
                let response = response_to.get(&(call, other)).copied();
                if let Some(response) = response.filter(|response| back.insert(*response)) {
                    whole.push((response, Arc::clone(live[response])));
                }
            }
        }
        whole.push((place, event));
    }
    whole
}

fn call_id(call: &FunctionCall) -> Option<&str> {
    call.id.as_deref().filter(|id| !id.is_empty())
}

fn response_id(response: &FunctionResponse) -> Option<&str> {
    response.id.as_deref().filter(|id| !id.is_empty())
}
