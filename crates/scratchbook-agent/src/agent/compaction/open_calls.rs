//! Finds places where events can be cut so that no call is separated from its response and no waiting call is
//! summarized.

use std::collections::HashSet;
use std::sync::Arc;

use crate::agent::history::CallKey;
use scratchbook_core::content::FunctionCall;
use scratchbook_core::event::Event;

/// Calls that the framework makes to ask the program's user. They count as abandoned once a later invocation begins.
const OF_CLIENT: [&str; 3] = ["adk_request_credential", "adk_request_confirmation", "adk_request_input"];

fn calls(event: &Event) -> impl Iterator<Item = CallKey<'_>> {
    event.function_calls().filter_map(CallKey::of_call)
}

fn responses(event: &Event) -> impl Iterator<Item = CallKey<'_>> {
    event.function_responses().filter_map(CallKey::of_response)
}

/// Returns the confirmations and credentials that an event requests, by the ids of the calls that need them.
fn requested(event: &Event) -> impl Iterator<Item = CallKey<'_>> {
    let actions = &event.actions;
    let ids = actions.requested_tool_confirmations.keys().chain(actions.requested_auth_configs.keys());
    ids.map(|id| CallKey::Id(id))
}

/// Returns how many events to take from the start: at most `most`, and few enough that no later event answers a call in
/// the taken events.
pub(super) fn without_parting_calls(events: &[&Event], most: usize) -> usize {
    if most >= events.len() {
        return most;
    }
    let mut unmatched = HashSet::new();
    for (cut, event) in events.iter().enumerate().rev() {
        unmatched.extend(responses(event));
        calls(event).for_each(|call| {
            unmatched.remove(&call);
        });
        if unmatched.is_empty() && cut <= most {
            return cut;
        }
    }
    0
}

/// Returns the largest number of events, from the first on, that can be summarized. Each call and each request in these
/// events has to be answered in these events, and `is_clean` has to allow the cut after them. The rule is ADK's.
///
/// A call whose process has ended can never be answered, and would block summaries for ever. A call is therefore
/// ignored if its tool is not long-running, it belongs to an earlier invocation than the last, and no event of the
/// session answers it.
pub(super) fn longest_closed(events: &[&Event], all: &[&Arc<Event>], is_clean: impl Fn(usize) -> bool) -> usize {
    let longest = |dead: &HashSet<CallKey<'_>>| {
        let (mut open, mut longest) = (HashSet::new(), 0);
        for (place, event) in events.iter().enumerate() {
            responses(event).for_each(|response| {
                open.remove(&response);
            });
            open.extend(calls(event).chain(requested(event)).filter(|call| !dead.contains(call)));
            if open.is_empty() && is_clean(place + 1) {
                longest = place + 1;
            }
        }
        longest
    };
    let strict = longest(&HashSet::new());
    let at_invocation =
        strict > 0 && events.get(strict).is_some_and(|next| next.invocation_id != events[strict - 1].invocation_id);
    if strict == events.len() || at_invocation {
        return strict;
    }
    let dead = dead_calls(events, all);
    if dead.is_empty() { strict } else { longest(&dead).max(strict) }
}

/// Returns the calls among events that can never be answered.
fn dead_calls<'a>(events: &[&'a Event], all: &[&'a Arc<Event>]) -> HashSet<CallKey<'a>> {
    let of_last = all.iter().rev().filter(|event| event.actions.compaction.is_none());
    let newest = of_last.map(|event| event.invocation_id.as_str()).find(|id| !id.is_empty()).unwrap_or_default();
    let is_newest = |event: &Event| event.invocation_id.is_empty() || event.invocation_id == newest;
    let (mut alive, mut answered) = (HashSet::new(), HashSet::new());
    for event in all {
        let of_client = |id: &str| {
            let is_it = |call: &FunctionCall| call.id.as_deref() == Some(id);
            event
                .function_calls()
                .any(|call| is_it(call) && OF_CLIENT.contains(&call.name.as_deref().unwrap_or_default()))
        };
        let long_running = event.long_running_tool_ids.iter().flatten().map(String::as_str);
        alive.extend(long_running.filter(|id| is_newest(event) || !of_client(id)).map(CallKey::Id));
        if is_newest(event) {
            alive.extend(requested(event));
        }
        // A response that asks for a confirmation does not answer its call.
        let asked: HashSet<_> = requested(event).collect();
        answered.extend(responses(event).filter(|response| !asked.contains(response)));
    }
    let old = events.iter().filter(|event| newest.is_empty() || event.invocation_id != newest);
    old.flat_map(|event| calls(event)).filter(|call| !alive.contains(call) && !answered.contains(call)).collect()
}
