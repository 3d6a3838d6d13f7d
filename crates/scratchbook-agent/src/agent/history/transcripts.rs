//! Turns the speech of a live session into text.

use std::sync::Arc;

use serde_json::Value;

use scratchbook_core::content::Content;
use scratchbook_core::event::Event;

/// Turns the transcriptions of events without content into text, and joins consecutive pieces.
pub(super) fn as_contents(events: Vec<Arc<Event>>) -> Vec<Arc<Event>> {
    if events.iter().all(|event| event.content.is_some()) {
        return events;
    }
    let mut shown: Vec<Arc<Event>> = Vec::with_capacity(events.len());
    let (mut heard, mut spoken) = (String::new(), String::new());
    for (place, event) in events.iter().enumerate() {
        let next = events.get(place + 1);
        let (text, so_far, role, goes_on): (_, _, _, fn(&Event) -> Option<&str>) =
            match (&event.content, input(event), output(event)) {
                (None, Some(text), _) => (text, &mut heard, "user", input),
                (None, None, Some(text)) => (text, &mut spoken, "model", output),
                _ => {
                    shown.push(Arc::clone(event));
                    continue;
                }
            };
        so_far.push_str(text);
        if next.is_some_and(|next| goes_on(next).is_some()) {
            continue;
        }
        let content = Content { role: Some(role.to_owned()), ..Content::user(std::mem::take(so_far)) };
        shown.push(Arc::new(Event { content: Some(content), ..Event::clone(event) }));
    }
    shown
}

fn input(event: &Event) -> Option<&str> {
    text(event.input_transcription.as_deref())
}

fn output(event: &Event) -> Option<&str> {
    text(event.output_transcription.as_deref())
}

fn text(transcription: Option<&Value>) -> Option<&str> {
    transcription?.get("text")?.as_str().filter(|text| !text.is_empty())
}
