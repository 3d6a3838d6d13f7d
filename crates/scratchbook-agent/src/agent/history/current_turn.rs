//! Finds the current turn, for agents that see no history.

use std::collections::HashSet;
use std::sync::Arc;

use super::visible::Viewer;
use scratchbook_core::event::Event;

/// Returns the place at which the last turn began. Words of the user or of another agent begin a turn. An answer to a
/// call continues the turn of the call.
pub(super) fn begins_at(events: &[&Arc<Event>], viewer: &Viewer<'_>) -> usize {
    // The ids of calls that the user has answered and that the search has not reached yet.
    let mut awaited = HashSet::new();
    for (place, event) in events.iter().enumerate().rev() {
        for call in event.function_calls() {
            awaited.remove(call.id.as_deref().unwrap_or_default());
        }
        let answers = event.author == "user" && event.function_responses().next().is_some();
        if answers {
            let ids = event.function_responses().filter_map(|response| response.id.as_deref());
            awaited.extend(ids.filter(|id| viewer.calls.contains(id)));
        }
        let speaks = (event.author == "user" && !answers) || viewer.is_anothers(event);
        let begins = speaks && event.actions.compaction.is_none();
        if begins && awaited.is_empty() && !hands_over(event) && viewer.sees(event) {
            return place;
        }
    }
    events.len()
}

/// Returns whether an event hands the conversation over. The next agent then answers the words before that event.
fn hands_over(event: &Event) -> bool {
    event.actions.transfer_to_agent.as_ref().is_some_and(|name| !name.is_empty())
        || event.function_calls().any(|call| call.name.as_deref() == Some("transfer_to_agent"))
}
