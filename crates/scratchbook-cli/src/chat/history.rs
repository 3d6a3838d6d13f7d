//! The earlier messages of a session.

use std::sync::Arc;

use scratchbook::Event;
use scratchbook::session::Events;

use super::calls::USER;

/// Returns the events of a session without those that were rewound.
pub(super) fn without_rewound(events: &Events) -> Vec<Arc<Event>> {
    let mut kept: Vec<Arc<Event>> = Vec::new();
    for event in events.iter() {
        match &event.actions.rewind_before_invocation_id {
            Some(run) => {
                let first = kept.iter().position(|earlier| earlier.invocation_id == *run);
                kept.truncate(first.unwrap_or_default());
            }
            None => kept.push(Arc::clone(event)),
        }
    }
    kept
}

/// Returns the events from the first of the user's last `count` messages on.
pub(super) fn last_exchanges(events: &[Arc<Event>], count: usize) -> &[Arc<Event>] {
    let messages = events.iter().enumerate().rev().filter(|(_, event)| is_message(event));
    let first = messages.map(|(at, _)| at).take(count).last();
    first.and_then(|first| events.get(first..)).unwrap_or_default()
}

/// Returns whether an event is a message of the user, and not only an answer to a call.
pub(super) fn is_message(event: &Event) -> bool {
    event.author == USER && event.content.as_ref().is_some_and(|content| !content.text().is_empty())
}

#[cfg(test)]
mod tests {
    use scratchbook::Content;

    use super::*;

    fn event(author: &str, run: &str, text: &str) -> Event {
        Event::new(author).with_invocation_id(run).with_content(Content::user(text))
    }

    fn rewound(run: &str) -> Event {
        let mut event = Event::new(USER);
        event.actions.rewind_before_invocation_id = Some(run.to_owned());
        event
    }

    #[test]
    fn rewound_events_are_left_out() {
        let said = |events: Vec<Event>| {
            let events: Events = events.into_iter().map(Arc::new).collect();
            let text = |event: &Arc<Event>| event.content.as_ref().map(Content::text).unwrap_or_default();
            without_rewound(&events).iter().map(text).collect::<String>()
        };
        let talk = || vec![event(USER, "1", "a"), event("x", "1", "b"), event(USER, "2", "c"), event("x", "2", "d")];
        assert_eq!(said(talk()), "abcd");
        assert_eq!(said([talk(), vec![rewound("2"), event(USER, "3", "e")]].concat()), "abe");
        assert_eq!(said([talk(), vec![rewound("1"), event(USER, "3", "e")]].concat()), "e");
        // The run is older than the events that were read.
        assert_eq!(said([talk(), vec![rewound("0"), event(USER, "3", "e")]].concat()), "e");
    }

    #[test]
    fn the_last_exchanges_begin_with_a_message() {
        let events = [event("x", "0", "hm"), event(USER, "1", "a"), event("x", "1", "b"), event(USER, "2", "c")];
        let events = events.map(Arc::new);
        assert_eq!(last_exchanges(&events, 1), &events[3..]);
        assert_eq!(last_exchanges(&events, 2), &events[1..]);
        assert_eq!(last_exchanges(&events, 9), &events[1..]);
        assert_eq!(last_exchanges(&events[..1], 9), &[]);
    }
}
