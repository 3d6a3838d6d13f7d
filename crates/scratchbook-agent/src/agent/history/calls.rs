//! Finds the authors of calls by the calls' ids.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use scratchbook_core::event::Event;

/// Returns the ids of all calls in events.
pub(super) fn call_ids<'a>(events: &[&'a Arc<Event>]) -> HashSet<&'a str> {
    events.iter().flat_map(|event| ids(event)).collect()
}

/// Returns the author of each call. If several calls have the same id, the last one counts.
pub(super) fn author_of_calls(events: &[Arc<Event>]) -> HashMap<&str, &str> {
    events.iter().flat_map(|event| ids(event).map(|id| (id, event.author.as_str()))).collect()
}

fn ids(event: &Event) -> impl Iterator<Item = &str> {
    event.function_calls().filter_map(|call| call.id.as_deref()).filter(|id| !id.is_empty())
}
