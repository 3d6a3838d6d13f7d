//! The current turn, for agents that see no history.

use std::collections::HashSet;
use std::sync::Arc;

use super::visible::Viewer;
use scratchbook_core::event::Event;

/// Where the last turn began: with words of the user or of another agent. An answer to a call continues the turn of the
/// call.
pub(super) fn begins_at(events: &[&Arc<Event>], viewer: &Viewer<'_>) -> usize {
    // The user's answers whose calls have not been reached yet.
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

/// Whether an event hands the conversation over; the next agent answers what was said before it.
fn hands_over(event: &Event) -> bool {
    event.actions.transfer_to_agent.as_ref().is_some_and(|name| !name.is_empty())
        || event.function_calls().any(|call| call.name.as_deref() == Some("transfer_to_agent"))
}
