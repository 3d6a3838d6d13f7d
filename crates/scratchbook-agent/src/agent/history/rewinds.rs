//! Leaves out events that were rewound.

use std::collections::HashMap;
use std::sync::Arc;

use scratchbook_core::event::Event;
use scratchbook_core::session::Events;

/// Returns the events that are not rewound, latest first. A rewind removes itself and all events from the start of the
/// run that it names. If that run is not in the log, only the rewind itself is removed.
pub(crate) fn live_backward(events: &Events) -> impl Iterator<Item = &Arc<Event>> + Clone {
    LiveBackward { events, end: events.len(), first_of_run: None }
}

#[derive(Clone)]
struct LiveBackward<'a> {
    events: &'a Events,
    /// The iterator still has to return the events before this place.
    end: usize,
    /// The first place of each run, computed at the first rewind.
    first_of_run: Option<HashMap<&'a str, usize>>,
}

impl<'a> LiveBackward<'a> {
    fn first_of(&mut self, run: &str) -> Option<usize> {
        let events = self.events;
        let first_of_run = self.first_of_run.get_or_insert_with(|| {
            let mut first = HashMap::new();
            for (place, event) in events.iter().enumerate() {
                first.entry(event.invocation_id.as_str()).or_insert(place);
            }
            first
        });
        first_of_run.get(run).copied()
    }
}

impl<'a> Iterator for LiveBackward<'a> {
    type Item = &'a Arc<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.end > 0 {
            self.end -= 1;
            let event = self.events.get(self.end)?;
            let Some(run) = event.actions.rewind_before_invocation_id.as_deref().filter(|run| !run.is_empty()) else {
                return Some(event);
            };
            if let Some(first) = self.first_of(run).filter(|first| *first < self.end) {
                self.end = first;
            }
        }
        None
    }
}
